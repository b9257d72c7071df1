"""How wrong an output may be: error against a float64 truth, in units that the native op defines.

Covers: each element against the scale of its row; the whole tensor in norm, in units of each element's own
size and sensitivity; in half precision a factor that all elements are off by; NaN and infinity by place and, where no
order of summation changes it, by kind; integer and boolean outputs exactly; ties of index-returning reductions by the
value at the index.
Does not cover: one tiny element that is wrong among large ones in the same row (it is below the noise that
the declared dtype has on that row); several of them show in norm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ._nonfinite import misplaced, overflow
from ._ties import integers_wrong
from ._tolerance import CLIP, OutputTolerance

_CHUNK = 1 << 14
"""Elements compared at a time: fits the nearest caches, and stays below what torch splits over threads."""

_NARROW = 10.0
"""Times what is allowed, up to which a violation is worth another look."""


@dataclass(frozen=True)
class Comparison:
    """What came of comparing one output."""

    ok: bool
    kind: str = ""
    """What was violated first, if anything: `nonfinite`, `exact`, `integer`, `element`, `norm` or `common`."""
    error: float = 0.0
    """The worst element's error as a multiple of what is allowed there."""
    norm: float = 0.0
    """Root mean square error in units, as a multiple of what is allowed."""
    common: float = 0.0
    """By what factor all elements are off together, as a multiple of what is allowed."""
    wrong: int = 0
    """How many elements are beyond what is allowed, where that was counted."""
    half: bool = False
    """Whether the output is of half precision."""

    @property
    def inexact(self) -> bool:
        """Whether what was violated is a limit on errors."""
        return self.kind in ("element", "norm", "common")

    @property
    def narrow(self) -> bool:
        """Whether what was violated is a limit on errors, and by less than a better estimate of it may fix.

        In half precision by however much: what cancels where nothing is rounded between two products is off by
        thousands of float32's units where a tensor core takes the factors rounded. An infinity there may be what
        such an error makes of an element near the largest number.
        """
        if self.half:
            return self.inexact or self.kind == "nonfinite"
        return self.inexact and max(self.error, self.norm, self.common) <= _NARROW

    @property
    def message(self) -> str:
        """Kind and magnitude in one sentence, without values or places."""
        match self.kind:
            case "":
                return f"error {max(self.error, self.norm):.2g} times what is allowed"
            case "nonfinite":
                return f"NaN or infinity misplaced in {self.wrong} elements"
            case "exact":
                return f"{self.wrong} elements differ although exact arithmetic is possible"
            case "integer":
                return f"{self.wrong} integer elements differ"
            case "norm":
                return f"error in norm {_rounded(self.norm)} times what is allowed"
            case "common":
                return (
                    f"a factor that all elements are off by is {_rounded(self.common)} times what is allowed"
                )
            case _:
                return f"error {_rounded(self.error)} times what is allowed in {self.wrong} elements"


def error_against(
    output: torch.Tensor,
    tolerance: OutputTolerance,
    arguments: Sequence[torch.Tensor] = (),
    *,
    brief: bool = False,
) -> Comparison:
    """Compare one output, of the right shape and dtype, with what is expected.

    Args:
        output: The candidate's output, as its bytes say.
        tolerance: What is allowed, from `output_tolerance`.
        arguments: The call's tensor arguments; where an integer output turns out to be the index of an
            extreme value of one of them, an index of an equal value is as good.
        brief: Whether to stop at the first few elements that are wrong, for who only asks whether it is right.
    """
    if tolerance.unit is None or tolerance.allowed is None:
        wrong = integers_wrong(output, tolerance.native, arguments)
        return Comparison(False, "integer", math.inf, math.inf, wrong=wrong) if wrong else Comparison(True)
    if output.dtype.is_complex:
        output = torch.view_as_real(output)
    total, half = _Tally(), output.dtype.itemsize == 2
    for start in range(0, output.numel(), _CHUNK):
        _tally(total, output, tolerance, slice(start, start + _CHUNK))
        if brief and (total.misplaced or total.wrong or (tolerance.exact and total.different)):
            break
    norm = math.sqrt(total.squares / max(1, output.numel())) / tolerance.norm_limit
    common = abs(total.slope) / tolerance.common.limit if tolerance.common else 0.0
    if total.misplaced:
        return Comparison(False, "nonfinite", math.inf, math.inf, wrong=total.misplaced, half=half)
    if tolerance.exact and total.different:
        return Comparison(False, "exact", math.inf, math.inf, wrong=total.different)
    if total.wrong:
        return Comparison(False, "element", total.worst, norm, common, total.wrong, half)
    kind = "norm" if norm > 1 else "common" if common > 1 else ""
    return Comparison(not kind, kind, total.worst, norm, common, half=half)


@dataclass
class _Tally:
    """Sums over the chunks of one output."""

    misplaced: int = 0
    different: int = 0
    wrong: int = 0
    worst: float = 0.0
    squares: float = 0.0
    slope: float = 0.0


def _tally(total: _Tally, output: torch.Tensor, tolerance: OutputTolerance, part: slice) -> None:
    """Add one chunk of the output; chunks fit the cache, which makes this memory-bound once, not tenfold."""
    assert tolerance.unit is not None and tolerance.allowed is not None
    numbers = output.reshape(-1)[part].to(torch.float64)
    truth = tolerance.truth.view(-1)[part]
    native = tolerance.native.reshape(-1)[part]
    difference = numbers - truth
    if tolerance.common is not None:
        weighted = difference * tolerance.common.weights.view(-1)[part]
        total.slope += float(weighted.nan_to_num_(0.0, 0.0, 0.0).sum())
    difference.abs_()
    if not tolerance.finite or not math.isfinite(float(difference.sum())):
        total.misplaced += misplaced(numbers, tolerance, part)
        # An infinity that is right where the truth is finite stands for the least value that rounds to it.
        edge, allowed = overflow(native.dtype), tolerance.allowed.view(-1)[part]
        rounded = (numbers.clamp(-edge, edge) - truth).abs_()
        rounded.masked_fill_(rounded > allowed, 0.0)
        difference = torch.where(difference.isfinite(), difference, rounded)
        difference.nan_to_num_(0.0, 0.0, 0.0)
        difference[~torch.isfinite(native)] = 0.0
    if tolerance.contested is not None:
        to_native = (numbers - native.to(torch.float64)).abs_().nan_to_num_(0.0, 0.0, 0.0)
        contested = tolerance.contested.reshape(-1)[part]
        difference = torch.where(contested, torch.minimum(difference, to_native), difference)
    if tolerance.exact:
        total.different += int(torch.count_nonzero(difference))
    unit, allowed = tolerance.unit.view(-1)[part], tolerance.allowed.view(-1)[part]
    left = difference
    if tolerance.jumps is not None:
        down, up = (j.view(-1)[part] for j in tolerance.jumps)
        jump = torch.where(numbers > truth, up, down)
        left = (difference - jump).clamp_min_(0.0)
        own = torch.minimum(jump, (2 * jump - allowed).clamp_min_(0.0))
        difference = (difference - own).clamp_min_(0.0)
    total.squares += float((left / unit).clamp_(max=CLIP).square_().sum())
    ratio = difference.div_(allowed)
    worst = float(ratio.max())
    total.worst = max(total.worst, worst)
    if worst > 1:
        total.wrong += int((ratio > 1).sum())


def _rounded(ratio: float) -> str:
    """Give the magnitude only: 1-2, 2-10, 10-100 or more than 100."""
    if ratio <= 2:
        return "1 to 2"
    if ratio <= 10:
        return "2 to 10"
    return "10 to 100" if ratio <= 100 else "more than 100"
