"""How wrong an output may be: error against a float64 truth, in units that the native op defines.

Covers: each element against the scale of its row; the whole tensor in norm, in units of each element's own
size and sensitivity; NaN and infinity by place and, where no order of summation changes it, by kind; integer
and boolean outputs exactly; ties of index-returning reductions by the value at the index.
Does not cover: one tiny element that is wrong beside large ones in the same row (it is below the noise that
the declared dtype has on that row); several of them show in norm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..records import Contract

_ROW = 16
"""A last axis shorter than this is too short to give a row its own scale; the whole tensor serves."""
_CHUNK = 1 << 14
"""Elements compared at a time: fits the nearest caches, and stays below what torch splits over threads."""
_CONTESTED = 0.01
"""Share of the elements that may be contested; beyond it the native op cannot be a standard."""
_CLIP = 1e4
"""Units of error at which the norm stops counting, so that one element cannot hide in a power or rule it."""


@dataclass(frozen=True)
class Comparison:
    """What came of comparing one output."""

    ok: bool
    kind: str = ""
    """What was violated first: `nonfinite`, `exact`, `integer`, `element`, `norm`; empty where nothing was."""
    error: float = 0.0
    """The worst element's error as a multiple of what is allowed there."""
    norm: float = 0.0
    """Root mean square error in units, as a multiple of what is allowed."""
    wrong: int = 0
    """How many elements are beyond what is allowed, where that was counted."""

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
            case _:
                return f"error {_rounded(self.error)} times what is allowed in {self.wrong} elements"


@dataclass(frozen=True)
class Yardstick:
    """Everything about one expected output that does not depend on a candidate; made once, used often."""

    truth: torch.Tensor
    """The output in float64 (or exact, for integers and booleans)."""
    native: torch.Tensor
    """The native op's output in the declared dtype."""
    unit: torch.Tensor | None
    """float64, what one unit of error is at each element; none for integers and booleans."""
    allowed: torch.Tensor | None
    """float64, the error allowed at each element."""
    contested: torch.Tensor | None
    """Where the native op itself is beyond what is allowed (a jump of the function): its value serves too."""
    norm_limit: float
    """Root mean square units allowed."""
    finite: bool
    """Whether truth, native and doubts are finite everywhere."""
    exact: bool
    """Whether the output must equal the truth."""
    forbid_nonfinite: bool
    """Whether NaN and infinity are never right."""
    plain: bool = False
    """Whether the native op is finite and within what is allowed everywhere, so that it need not be compared."""
    is_complex: bool = False
    """Whether real and imaginary parts stand in a last axis of two."""
    doubtful: torch.Tensor | None = None
    """Where another order of summation may give NaN; none where nothing is infinite."""

    @property
    def sensitivity(self) -> torch.Tensor | None:
        """How far the truth moves with its inputs, as far as the unit shows it; none for integers."""
        if self.unit is None:
            return None
        info = torch.finfo(self.native.dtype)
        moved = (self.unit - info.tiny - self.truth.abs() * info.eps).clamp_min_(0.0)
        return torch.view_as_complex(moved) if self.is_complex else moved

    @property
    def output(self) -> torch.Tensor:
        """The native op's output as an output is compared: complex again where it was."""
        return torch.view_as_complex(self.native) if self.is_complex else self.native


def yardstick(
    truth: torch.Tensor,
    native: torch.Tensor,
    contract: Contract,
    *,
    sensitivity: torch.Tensor | None = None,
    exact: bool = False,
    doubts: Sequence[torch.Tensor] = (),
) -> Yardstick:
    """Work out what is allowed at each element of one output.

    Args:
        truth: The reference in float64, any shape.
        native: The reference in the declared dtype, same shape.
        contract: Factor, floor and cap of the error.
        sensitivity: How far the truth moves when the inputs move by their own rounding, float64, same
            shape. It keeps cancellation from making a fair kernel look wrong.
        exact: Whether the values were chosen so that exact arithmetic is possible.
        doubts: The output with infinite sums read as NaN (`Problem.run_wary`), same shape; needed only where
            something is not finite.

    Example:
        >>> y = torch.linspace(1, 2, 64, dtype=torch.float64)
        >>> ruler = yardstick(y, y.float(), Contract())
        >>> error_against(y.float(), ruler).ok, error_against(y.float() * 0.99, ruler).ok
        (True, False)
    """
    forbid = contract.nan == "forbid"
    if not native.dtype.is_floating_point and not native.dtype.is_complex:
        return Yardstick(truth, native, None, None, None, 0.0, True, True, forbid)
    if is_complex := native.dtype.is_complex:
        truth, native = torch.view_as_real(truth), torch.view_as_real(native)
        sensitivity = None if sensitivity is None else torch.view_as_real(sensitivity)
        doubts = [torch.view_as_real(d) for d in doubts]
    truth, native = truth.to(torch.float64).contiguous(), native.detach()
    finite = _finite(truth) and _finite(native) and all(map(_finite, doubts))
    y, n = (truth, native) if finite else _both_zeroed(truth, native.to(torch.float64))
    info = torch.finfo(native.dtype)
    noise = (
        torch.zeros((), dtype=torch.float64).expand(y.shape)
        if sensitivity is None
        else sensitivity.nan_to_num_(0, 0, 0).abs_().reshape(y.shape)
    )
    unit, allowed, contested, norm, beyond = _limits(y, n, noise, contract, info)
    norm_limit = max(contract.error_floor, contract.error_factor * norm)
    exact = exact and bool((n == y).all())
    return Yardstick(
        truth,
        native,
        unit,
        allowed,
        contested,
        norm_limit,
        finite,
        exact,
        forbid,
        finite and beyond == 0,
        is_complex,
        None if finite else torch.stack([d.isnan() for d in doubts]).any(0) if doubts else None,
    )


def loosened(native: torch.Tensor, ruler: Yardstick) -> Yardstick:
    """Make a yardstick for other values of the same output, from the native op's answer alone.

    Each element may be twice as far from it, relative to its row, as `ruler` allows anywhere.
    """
    if ruler.unit is None or ruler.allowed is None:
        return Yardstick(native, native, None, None, None, 0.0, True, True, ruler.forbid_nonfinite)
    shown = torch.view_as_real(native) if ruler.is_complex else native
    truth, info = shown.to(torch.float64).contiguous(), torch.finfo(shown.dtype)
    share = float((ruler.allowed / _size(ruler.truth, info)).max()) if truth.numel() else 0.0
    allowed = _size(truth, info).mul_(2 * share)
    return Yardstick(
        truth,
        shown,
        allowed,
        allowed,
        None,
        1.0,
        True,
        ruler.exact,
        ruler.forbid_nonfinite,
        True,
        ruler.is_complex,
    )


def _size(y: torch.Tensor, info: torch.finfo) -> torch.Tensor:
    """Return what an element's error is relative to: its own size or its row's, whichever is larger."""
    columns = y.shape[-1] if y.ndim >= 2 and y.shape[-1] >= _ROW else max(1, y.numel())
    size = y.abs().reshape(-1, columns)
    return torch.maximum(size, _row_rms(size)).add_(info.tiny / info.eps).view(y.shape)


def _limits(
    y: torch.Tensor, n: torch.Tensor, noise: torch.Tensor, contract: Contract, info: torch.finfo
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, float, int]:
    """Return unit and limit of each element, what is contested, the native op's norm in units, and how many
    of its elements are beyond the limit."""
    columns = y.shape[-1] if y.ndim >= 2 and y.shape[-1] >= _ROW else max(1, y.numel())
    flat = [t.reshape(-1, columns) for t in (y, n, noise)]
    unit, allowed = torch.empty_like(flat[0]), torch.empty_like(flat[0])
    step, beyond, squares = max(1, _CHUNK // columns), 0, 0.0
    for start in range(0, flat[0].shape[0], step):
        rows = slice(start, start + step)
        own, unit[rows], allowed[rows] = _scales(*(t[rows] for t in flat), contract=contract, info=info)
        over = int(torch.count_nonzero(own > allowed[rows]))
        beyond += over
        if over:
            own = own.masked_fill(own > allowed[rows], 0.0)
        squares += float(own.div_(unit[rows]).clamp_(max=_CLIP).square_().sum())
    unit, allowed = unit.view(y.shape), allowed.view(y.shape)
    contested = None
    if 0 < beyond <= _CONTESTED * y.numel():
        contested = (n.to(torch.float64) - y).abs_() > allowed
    return unit, allowed, contested, math.sqrt(squares / max(1, y.numel())), beyond


def error_against(
    output: torch.Tensor, ruler: Yardstick, arguments: Sequence[torch.Tensor] = ()
) -> Comparison:
    """Compare one output, of the right shape and dtype, with what is expected.

    Args:
        output: The candidate's output, as its bytes say.
        ruler: What is allowed, from `yardstick`.
        arguments: The call's tensor arguments; where an integer output turns out to be the index of an
            extreme value of one of them, an index of an equal value is as good.
    """
    if ruler.unit is None or ruler.allowed is None:
        return _compare_integers(output, ruler, arguments)
    if output.dtype.is_complex:
        output = torch.view_as_real(output)
    total = _Tally()
    for start in range(0, output.numel(), _CHUNK):
        _tally(total, output, ruler, slice(start, start + _CHUNK))
    norm = math.sqrt(total.squares / max(1, output.numel())) / ruler.norm_limit
    if total.misplaced:
        return Comparison(False, "nonfinite", math.inf, math.inf, total.misplaced)
    if ruler.exact and total.different:
        return Comparison(False, "exact", math.inf, math.inf, total.different)
    if total.wrong:
        return Comparison(False, "element", total.worst, norm, total.wrong)
    return Comparison(norm <= 1, "" if norm <= 1 else "norm", total.worst, norm)


@dataclass
class _Tally:
    """Sums over the chunks of one output."""

    misplaced: int = 0
    different: int = 0
    wrong: int = 0
    worst: float = 0.0
    squares: float = 0.0


def _tally(total: _Tally, output: torch.Tensor, ruler: Yardstick, part: slice) -> None:
    """Add one chunk of the output; chunks fit the cache, which makes this memory-bound once, not tenfold."""
    assert ruler.unit is not None and ruler.allowed is not None
    numbers = output.reshape(-1)[part].to(torch.float64)
    truth = ruler.truth.view(-1)[part]
    native = ruler.native.reshape(-1)[part]
    difference = (numbers - truth).abs_()
    if not ruler.finite or not math.isfinite(float(difference.sum())):
        doubtful = None if ruler.doubtful is None else ruler.doubtful.reshape(-1)[part]
        total.misplaced += _misplaced(numbers, truth, native, doubtful, forbid=ruler.forbid_nonfinite)
        difference.nan_to_num_(0.0, 0.0, 0.0)
        difference[~torch.isfinite(native)] = 0.0
    if ruler.contested is not None:
        to_native = (numbers - native.to(torch.float64)).abs_().nan_to_num_(0.0, 0.0, 0.0)
        contested = ruler.contested.reshape(-1)[part]
        difference = torch.where(contested, torch.minimum(difference, to_native), difference)
    if ruler.exact:
        total.different += int(torch.count_nonzero(difference))
    total.squares += float((difference / ruler.unit.view(-1)[part]).clamp_(max=_CLIP).square_().sum())
    ratio = difference.div_(ruler.allowed.view(-1)[part])
    worst = float(ratio.max())
    total.worst = max(total.worst, worst)
    if worst > 1:
        total.wrong += int((ratio > 1).sum())


def _scales(
    y: torch.Tensor, n: torch.Tensor, noise: torch.Tensor, *, contract: Contract, info: torch.finfo
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the native op's error, the unit of error and what is allowed, for a few rows (rows, columns)."""
    own = (n.to(torch.float64) - y).abs_()
    size = y.abs()
    unit = (size * info.eps).add_(noise).add_(info.tiny)
    scale = torch.maximum(size, _row_rms(size)).add_(info.tiny / info.eps)
    error = torch.maximum(torch.maximum(own, _row_rms(own)), torch.maximum(noise, _row_rms(noise)))
    allowed = torch.maximum(error * contract.error_factor, scale * (contract.error_floor * info.eps))
    return own, unit, torch.minimum(allowed, scale * max(contract.error_cap, 4 * info.eps))


def _row_rms(x: torch.Tensor) -> torch.Tensor:
    """Root mean square of each row, kept broadcastable; scaled by its peak so that squares stay in range."""
    if not x.shape[-1]:
        return x
    peak = x.amax(-1, keepdim=True).clamp_min_(1e-300)
    return (x / peak).square_().mean(-1, keepdim=True).sqrt_().mul_(peak)


def _finite(x: torch.Tensor) -> bool:
    """Tell whether every element is finite; one pass where the sum does not overflow."""
    return math.isfinite(float(x.sum(dtype=torch.float64))) or bool(torch.isfinite(x).all())


def _both_zeroed(x: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Put zero in both wherever one of them is not finite."""
    fine = torch.isfinite(x) & torch.isfinite(other)
    return torch.where(fine, x, 0.0), torch.where(fine, other, 0.0)


def _misplaced(
    numbers: torch.Tensor,
    truth: torch.Tensor,
    native: torch.Tensor,
    doubtful: torch.Tensor | None,
    *,
    forbid: bool,
) -> int:
    """Count elements whose kind (finite, NaN, +inf, -inf) no right evaluation has.

    Right are the native op's kind, the truth's where the native op is not finite, and NaN where it hangs on
    the order of summation. Where only the native op's own sum overflowed, any overflow is as good as another.
    """
    if forbid:
        return int((~torch.isfinite(numbers)).sum())
    native = native.to(torch.float64)
    near = truth.isfinite() & ((numbers - truth).abs() <= 1e-2 * truth.abs())
    beyond = ~torch.isfinite(native)
    fine = _same_kind(numbers, native) | (beyond & near)
    fine |= beyond & ~torch.isfinite(truth) & _same_kind(numbers, truth)
    if doubtful is not None:
        fine |= doubtful & numbers.isnan()
        fine |= doubtful & beyond & truth.isfinite() & ~numbers.isfinite()
    return int((~fine).sum())


def _same_kind(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Tell where two tensors are both finite, both NaN or the same infinity."""
    return (a.isfinite() & b.isfinite()) | (a.isnan() & b.isnan()) | (a.isinf() & (a == b))


def _compare_integers(
    output: torch.Tensor, ruler: Yardstick, arguments: Sequence[torch.Tensor]
) -> Comparison:
    different = output != ruler.native
    wrong = int(different.sum())
    if wrong == 0:
        return Comparison(True)
    if output.dtype in (torch.int64, torch.int32) and any(
        _tie(output.long(), ruler.native.long(), x) for x in arguments if x.dtype.is_floating_point
    ):
        return Comparison(True)
    return Comparison(False, "integer", math.inf, math.inf, wrong)


def _tie(got: torch.Tensor, expected: torch.Tensor, x: torch.Tensor) -> bool:
    """Tell whether both index the same values of x along one axis: an extreme, a sort or a top-k."""
    return any(_tie_along(axis, got, expected, x) for axis in range(x.ndim))


def _tie_along(axis: int, got: torch.Tensor, expected: torch.Tensor, x: torch.Tensor) -> bool:
    if got.ndim == x.ndim - 1:
        got, expected = got.unsqueeze(axis), expected.unsqueeze(axis)
    others = [n for i, n in enumerate(x.shape) if i != axis]
    if got.ndim != x.ndim or [n for i, n in enumerate(got.shape) if i != axis] != others:
        return False
    if bool((got < 0).any()) or bool((got >= x.shape[axis]).any()):
        return False
    wanted = x.gather(axis, expected)
    if not bool((x.gather(axis, got) == wanted).all()):
        return False
    if got.shape[axis] == 1:
        return bool(((wanted == x.amax(axis, keepdim=True)) | (wanted == x.amin(axis, keepdim=True))).all())
    steps, places = wanted.diff(dim=axis), got.sort(dim=axis).values.diff(dim=axis)
    ordered = bool((steps >= 0).all()) or bool((steps <= 0).all())
    return ordered and bool((places > 0).all())


def _rounded(ratio: float) -> str:
    """Give the magnitude only: 1-2, 2-10, 10-100 or more than 100."""
    if ratio <= 2:
        return "1 to 2"
    if ratio <= 10:
        return "2 to 10"
    return "10 to 100" if ratio <= 100 else "more than 100"
