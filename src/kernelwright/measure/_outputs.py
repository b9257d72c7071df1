"""Compare the outputs of timed calls with the baseline's on the same bytes.

Covers: stale, cached, skipped, truncated and downcast work in the calls that are timed.
Does not cover: fine differences, and the distribution of random outputs; verification compares with the oracle.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from ..records import Contract, Workload
from ..tasks import Problem, Rounding

_JUMPY = 0.01
"""Share of the elements that may differ if the native op itself is discontinuous, and of integer elements (ties)."""
_AS_MANY = 2
"""Times as many elements may differ as rounding takes beyond the cap on the same bytes: with values for which a network
is chaotic, half of them are."""
_ROW = 16
_FAINT = 1 / 4
"""Smallest scale of a row, as a share of the output's: what relu leaves of a row is no measure of its error."""
_ENERGIES, _MANY = 4.0, 1 << 10
"""How far apart the energies of random outputs with at least this many elements may be."""
_CHUNK = 1 << 14
"""Elements compared at a time: few enough that torch does not use threads, which would cost more than they save."""


Given = tuple[Sequence[object], dict[str, torch.Tensor]]
"""Arguments and state of a call."""


@dataclass(frozen=True)
class Tolerance:
    """How far apart two correct outputs of a workload may be, relative to the element's size and its row's."""

    relative: tuple[float, ...]
    """One per output."""
    jumpy: bool
    """Whether the native op exceeds the contract's cap anywhere."""
    stochastic: bool = False
    """Whether the outputs are random, so that two correct outputs need not agree in any element."""
    beyond: tuple[float, ...] = ()
    """Share of each output's elements that rounding takes beyond the cap, where that was worked out."""
    closer: "Callable[[Given], Tolerance] | None" = field(default=None, compare=False)
    """Works out the tolerance of a call whose outputs differ: the native op may be close to the oracle by luck, or
    far from it on these bytes alone."""

    def slack(self, output: int, *, exact: bool) -> float:
        """Return the share of an output's elements that may differ."""
        share = _AS_MANY * self.beyond[output] if self.beyond else 0.0
        return max(share, _JUMPY if self.jumpy or exact else 0.0)


def tolerance(problem: Problem, workload: Workload, seed: int) -> Tolerance:
    """Measure the native op's own error on one draw and allow twice that between candidate and baseline.

    Where outputs differ by more, the errors on their own bytes count, also that of an evaluation that rounds each step.
    """
    contract = problem.task.contract
    if contract.stochastic:
        return Tolerance((0.0,) * len(workload.outputs), False, stochastic=True)
    inputs, state = problem.inputs(workload, seed), problem.state(workload, seed)
    native, truth = (
        problem.run_reference(workload, inputs, state),
        problem.run_oracle(workload, inputs, state),
    )
    dtypes = [output.dtype for output in native.outputs]
    found = list(map(functools.partial(_share, contract), native.outputs, truth.outputs, dtypes))
    plain = Tolerance(tuple(r for r, _ in found), any(b > 0 for _, b in found))
    return replace(plain, closer=functools.partial(_closer, problem, workload, seed, plain))


def _closer(problem: Problem, workload: Workload, seed: int, plain: Tolerance, given: Given) -> Tolerance:
    """Allow twice the error on these bytes of the native op, or of an evaluation with rounded steps, if they exceed."""
    native = problem.run_reference(workload, *given)
    truth = problem.run_oracle(workload, *given)
    dtypes = [output.dtype for output in native.outputs]
    floats = [d for d in dtypes if d.is_floating_point]
    eps = min(torch.finfo(d).eps for d in (torch.float32, *floats))
    rounded = problem.run_oracle(workload, *given, Rounding(eps, seed))
    share = functools.partial(_share, problem.task.contract)
    own, fair = (list(map(share, made.outputs, truth.outputs, dtypes)) for made in (native, rounded))
    relative, beyond = (tuple(max(a[i], b[i]) for a, b in zip(own, fair, strict=True)) for i in range(2))
    return Tolerance(tuple(map(max, plain.relative, relative)), plain.jumpy or any(beyond), beyond=beyond)


def _share(
    contract: Contract, output: torch.Tensor, truth: torch.Tensor, dtype: torch.dtype
) -> tuple[float, float]:
    """Return the tolerance that an output's error implies for its dtype, and the share of elements beyond the cap."""
    if not dtype.is_floating_point or not output.numel():
        return 0.0, 0.0
    eps = torch.finfo(dtype).eps
    cap = max(contract.error_cap, 8 * eps)
    error = ((output.double() - truth).abs() / _scale(truth, _least(truth))).nan_to_num_(0.0, 0.0, 0.0)
    worst = float(error.max())
    relative = min(cap, 2 * max(contract.error_floor * eps, contract.error_factor * worst))
    return relative, float((error > cap).double().mean())


def difference(
    outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], allowed: Tolerance, given: Given | None = None
) -> str:  # fmt: skip
    """Describe how the outputs differ from the baseline's on the same bytes, `given`; empty if they agree."""
    found = _difference(outputs, expected, allowed)
    if not found or allowed.closer is None or given is None:
        return found
    return _difference(outputs, expected, allowed.closer(given))


def _difference(outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], allowed: Tolerance) -> str:
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs instead of {len(expected)}"
    for place, (got, wanted, relative) in enumerate(zip(outputs, expected, allowed.relative, strict=True)):
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return "an output of another shape or dtype"
        if allowed.stochastic:
            if _unlike(got, wanted):
                return "a random output of another magnitude than the baseline's on the same bytes"
            continue
        wrong = _wrong(got, wanted, relative)
        if wrong > allowed.slack(place, exact=not wanted.is_floating_point()) * got.numel():
            return f"{wrong} of {got.numel()} elements differ from those expected of the same bytes"
    return ""


def _unlike(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether two random outputs differ grossly in scale: one all zero, or energies apart by `_ENERGIES`.

    An output may consist of few independent draws, such as whole dropped channels: verification tests finer,
    which compares many calls.
    """
    a, b = (float(t.double().nan_to_num(0.0, 0.0, 0.0).norm()) ** 2 for t in (got, wanted))
    return got.numel() >= _MANY and not b <= a * _ENERGIES <= b * _ENERGIES**2


def _wrong(got: torch.Tensor, wanted: torch.Tensor, relative: float) -> int:
    """Count the elements that differ by more than allowed, in cache-sized chunks."""
    if not wanted.is_floating_point():
        return int((got != wanted).sum())
    columns = wanted.shape[-1] if wanted.ndim >= 2 and wanted.shape[-1] >= _ROW else max(1, wanted.numel())
    a, b = got.reshape(-1, columns), wanted.reshape(-1, columns)
    step = max(1, _CHUNK // columns)
    chunks = [slice(start, start + step) for start in range(0, a.shape[0], step)]
    doubtful = [c for c in chunks if not _near(a[c], b[c], relative)]
    least = _least(wanted) if doubtful else 0.0
    return sum(_apart(a[c], b[c], relative, least) for c in doubtful)


def _apart(got: torch.Tensor, wanted: torch.Tensor, relative: float, least: float) -> int:
    a, b = got.double(), wanted.double()
    near = (a - b).abs() <= relative * _scale(b, least)
    return int((~(near | (a == b) | (a.isnan() & b.isnan()))).sum())


def _near(got: torch.Tensor, wanted: torch.Tensor, relative: float) -> bool:
    """Whether all elements of a chunk are within the row term of the tolerance, in few passes.

    False, and any NaN, only means that the full comparison is needed.
    """
    if torch.equal(got, wanted):
        return True
    if wanted.dtype.is_complex:
        return False
    wide = torch.promote_types(wanted.dtype, torch.float32)
    b = wanted.to(wide)
    far = (got.to(wide) - b).abs_().amax(-1, keepdim=True)
    rows = b.shape[-1] >= _ROW
    rms = b.norm(dim=-1, keepdim=True) / b.shape[-1] ** 0.5 if rows else b.norm() / b.numel() ** 0.5
    return bool((far <= 0.99 * relative * rms).all())


def _least(x: torch.Tensor) -> float:
    """Return the smallest scale of a row of an output."""
    finite = x.double().nan_to_num(0.0, 0.0, 0.0)
    return _FAINT * float(finite.norm()) / math.sqrt(max(1, x.numel()))


def _scale(x: torch.Tensor, least: float) -> torch.Tensor:
    """Return the scale for differences: an element's size and its row's, but at least the minimum."""
    finite = x.nan_to_num(0.0, 0.0, 0.0)
    rows = finite.ndim >= 2 and finite.shape[-1] >= _ROW
    square = finite.square()
    rms = square.mean(-1, keepdim=True).sqrt() if rows else square.mean().sqrt()
    return (finite.abs() + rms.clamp_min(least)).clamp_min(torch.finfo(torch.float32).tiny)
