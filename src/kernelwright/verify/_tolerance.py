"""What is allowed at each element of one expected output, in units that the native op's own error defines.

Covers: each element against the scale of its row; the size and sensitivity of each element, for the norm; places
where the native op itself jumps.
Does not cover: comparing; `_error` does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from ..records import Contract

_ROW = 16
"""A last axis shorter than this is too short to give a row its own scale; the whole tensor serves."""
_FAINT = 1 / 4
_CHUNK = 1 << 14
"""Elements compared at a time: fits the nearest caches, and stays below what torch splits over threads."""
_SQUARES = 1e-140, 1e140
"""Sizes between which squares of float64, and sums of them, neither vanish nor overflow."""
_CONTESTED = 0.01
"""Share of the elements that may be contested; beyond it the native op cannot be a standard."""
_NEAR = 1e-2
"""How near, relative to its row, an element must be to what another right evaluation gives where the native op is not
finite."""
CLIP = 1e4
"""Units of error at which the norm stops counting, so that one element cannot hide in a power or rule it."""

_COMMON = 2.0**-7
"""How much too large or too small all elements of an output in half precision may be together. One step of bfloat16 is
as large, so that no limit on single elements can tell 1 % from rounding; but rounding goes both ways."""
_CHANCE = 5.0
"""Standard deviations that the same may be off where errors of elements have nothing to do with each other."""

Jumps = tuple[torch.Tensor, torch.Tensor]
"""Down and up, none negative."""


@dataclass(frozen=True)
class OutputTolerance:
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
    """Whether truth, native, doubts and others are finite everywhere."""
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
    jumps: Jumps | None = None
    """How far below and above the truth an element may jump, where a choice hangs on rounding."""
    others: tuple[torch.Tensor, ...] = ()
    """What other right evaluations give; none where nothing is infinite, neither in the inputs nor in the outputs."""
    common: "CommonFactor | None" = None
    """How much all elements may be off together; of half precision only."""

    @property
    def sensitivity(self) -> torch.Tensor | None:
        """How far the truth moves with its inputs, as far as the unit shows it; none for integers."""
        if self.unit is None:
            return None
        info = torch.finfo(self.native.dtype)
        moved = (self.unit - info.tiny - self.truth.abs() * info.eps).clamp_min_(0.0)
        return torch.view_as_complex(moved) if self.is_complex else moved

    @cached_property
    def share(self) -> float:
        """The largest error allowed anywhere, relative to the element or its row; of floats only."""
        assert self.allowed is not None
        relative = self.allowed / _size(self.truth, torch.finfo(self.native.dtype))
        return float(relative.max()) if relative.numel() else 0.0

    @cached_property
    def reaches(self) -> tuple[torch.Tensor, ...]:
        """How near an element must be to the truth and to each of the others where the native op is not finite: a
        hundredth of it, or of its row where that is larger."""
        finite = (o.nan_to_num(0.0, 0.0, 0.0).contiguous() for o in (self.truth, *self.others))
        return tuple(_size(o, torch.finfo(self.native.dtype)).mul_(_NEAR) for o in finite)

    @property
    def output(self) -> torch.Tensor:
        """The native op's output as an output is compared: complex again where it was."""
        return torch.view_as_complex(self.native) if self.is_complex else self.native


@dataclass(frozen=True)
class CommonFactor:
    """By what factor an output is off as a whole: the slope of its errors over the truth, each row at its own scale.

    Covers: a factor that is left out or wrong in all elements, or in most.
    Does not cover: an offset; elements that the native op does not tell either, which do not count.
    """

    weights: torch.Tensor
    """float64, what the error of each element counts for: the sum of `weights * error` is the slope."""
    limit: float
    """The largest slope allowed, either way."""

    @staticmethod
    def of(
        y: torch.Tensor, n: torch.Tensor, noise: torch.Tensor, counts: torch.Tensor, contract: Contract
    ) -> "CommonFactor":
        """Work it out for a truth, the native op's answer and how far the truth moves, where `counts`."""
        info = torch.finfo(n.dtype)
        relative = torch.where(counts, y / _size(y, info), 0.0)
        weights = relative / _size(y, info) / max(float(relative.square().sum()), info.tiny)
        native = abs(float(((n.to(torch.float64) - y) * weights).sum()))
        chance = _CHANCE * float((noise * weights).norm())
        return CommonFactor(weights, max(_COMMON, contract.error_factor * native, info.eps / 2 + chance))


def output_tolerance(
    truth: torch.Tensor,
    native: torch.Tensor,
    contract: Contract,
    *,
    sensitivity: torch.Tensor | None = None,
    jumps: Jumps | None = None,
    exact: bool = False,
    doubts: Sequence[torch.Tensor] = (),
    others: Sequence[torch.Tensor] = (),
) -> OutputTolerance:
    """Work out what is allowed at each element of one output.

    Args:
        truth: The reference in float64, any shape.
        native: The reference in the declared dtype, same shape.
        contract: Factor, floor and cap of the error.
        sensitivity: How far the truth moves when the inputs move by their own rounding, float64, same
            shape. It keeps cancellation from making a fair kernel look wrong.
        jumps: How far the truth jumps down and up at most where values that rounding does not tell apart are chosen
            between, float64, same shape. An element may be as far off on that side, plus an error of its own of
            at most the jump's size; where more is allowed anyway, that is not added.
        exact: Whether the values were chosen so that exact arithmetic is possible.
        doubts: The output with infinite sums read as NaN (`Problem.run_worst_case`), same shape; needed only where
            something is not finite.
        others: The output in other right evaluations (`tasks.Decomposed`, `tasks.SkippedZeros`), float64, same shape;
            needed only there too.

    Example:
        >>> from kernelwright.verify import error_against
        >>> y = torch.linspace(1, 2, 64, dtype=torch.float64)
        >>> ruler = output_tolerance(y, y.float(), Contract())
        >>> error_against(y.float(), ruler).ok, error_against(y.float() * 0.99, ruler).ok
        (True, False)
    """
    forbid = contract.nan == "forbid"
    if not native.dtype.is_floating_point and not native.dtype.is_complex:
        return OutputTolerance(truth, native, None, None, None, 0.0, True, True, forbid)
    if is_complex := native.dtype.is_complex:
        truth, native = torch.view_as_real(truth), torch.view_as_real(native)
        sensitivity = None if sensitivity is None else torch.view_as_real(sensitivity)
        doubts = [torch.view_as_real(d) for d in doubts]
        others = [torch.view_as_real(o) for o in others]
    truth, native = truth.to(torch.float64).contiguous(), native.detach()
    finite = all(map(_finite, (truth, native, *doubts, *others)))
    y, n = (truth, native) if finite else _both_zeroed(truth, native.to(torch.float64))
    info = torch.finfo(native.dtype)
    noise = (
        torch.zeros((), dtype=torch.float64).expand(y.shape)
        if sensitivity is None
        else sensitivity.nan_to_num_(0, 0, 0).abs_().reshape(y.shape)
    )
    unit, allowed, contested, norm, beyond = _limits(y, n, noise, contract, info)
    common = None
    if native.dtype.itemsize == 2 and jumps is None:
        counts = truth.isfinite() & native.isfinite()
        common = CommonFactor.of(y, n, noise, counts if contested is None else counts & ~contested, contract)
    return OutputTolerance(
        truth=truth,
        native=native,
        unit=unit,
        allowed=allowed,
        contested=contested,
        norm_limit=max(contract.error_floor, contract.error_factor * norm),
        finite=finite,
        exact=exact and bool((n == y).all()),
        forbid_nonfinite=forbid,
        plain=finite and beyond == 0,
        is_complex=is_complex,
        doubtful=torch.stack([d.isnan() for d in doubts]).any(0) if doubts and not finite else None,
        others=tuple(others),
        jumps=None
        if jumps is None
        else (jumps[0].reshape(y.shape).contiguous(), jumps[1].reshape(y.shape).contiguous()),
        common=common,
    )


def loosened(native: torch.Tensor, tolerance: OutputTolerance) -> OutputTolerance:
    """Make a tolerance for other values of the same output, from the native op's answer alone.

    Each element may be twice as far from it, relative to its row, as `tolerance` allows anywhere. A row counts for no
    smaller than `_FAINT` of the whole: what relu leaves of one is no measure of its error.
    """
    if tolerance.unit is None or tolerance.allowed is None:
        return OutputTolerance(native, native, None, None, None, 0.0, True, True, tolerance.forbid_nonfinite)
    shown = torch.view_as_real(native) if tolerance.is_complex else native
    truth, info = shown.to(torch.float64).contiguous(), torch.finfo(shown.dtype)
    size, whole = _size(truth, info), float(truth.norm()) / math.sqrt(max(1, truth.numel()))
    allowed = size.clamp_min_(_FAINT * whole).mul_(2 * tolerance.share)
    return OutputTolerance(
        truth,
        shown,
        allowed,
        allowed,
        None,
        1.0,
        True,
        tolerance.exact,
        tolerance.forbid_nonfinite,
        True,
        tolerance.is_complex,
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
        squares += float(own.div_(unit[rows]).clamp_(max=CLIP).square_().sum())
    unit, allowed = unit.view(y.shape), allowed.view(y.shape)
    contested = None
    if 0 < beyond <= _CONTESTED * y.numel():
        contested = (n.to(torch.float64) - y).abs_() > allowed
    return unit, allowed, contested, math.sqrt(squares / max(1, y.numel())), beyond


def _scales(
    y: torch.Tensor,
    n: torch.Tensor,
    noise: torch.Tensor,
    *,
    contract: Contract,
    info: torch.finfo,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the native op's error, the unit of error and what is allowed, for a few rows (rows, columns)."""
    own = (n.to(torch.float64) - y).abs_()
    size = y.abs()
    unit = (size * info.eps).add_(noise).add_(info.tiny)
    scale = torch.maximum(size, _row_rms(size)).add_(info.tiny / info.eps)
    error = torch.maximum(torch.maximum(own, _row_rms(own)), torch.maximum(noise, _row_rms(noise)))
    allowed = torch.maximum(error * contract.error_factor, scale * (contract.error_floor * info.eps))
    cap = torch.maximum(scale * max(contract.error_cap, 4 * info.eps), noise * contract.error_factor)
    return own, unit, torch.where(noise > scale, allowed, torch.minimum(allowed, cap))


def _row_rms(x: torch.Tensor) -> torch.Tensor:
    """Root mean square of each row of sizes, kept broadcastable; where squares leave the range, scaled by its peak."""
    if not x.shape[-1]:
        return x
    rms: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True).div_(math.sqrt(x.shape[-1]))
    outside = ((rms <= _SQUARES[0]) | (rms >= _SQUARES[1])).squeeze(-1)
    if outside.any():
        far = x[outside]
        peak = far.amax(-1, keepdim=True).clamp_min_(1e-300)
        rms[outside] = (far / peak).square_().mean(-1, keepdim=True).sqrt_().mul_(peak)
    return rms


def _finite(x: torch.Tensor) -> bool:
    """Tell whether every element is finite; one pass where the sum does not overflow."""
    return math.isfinite(float(x.sum(dtype=torch.float64))) or bool(torch.isfinite(x).all())


def _both_zeroed(x: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Put zero in both wherever one of them is not finite."""
    fine = torch.isfinite(x) & torch.isfinite(other)
    return torch.where(fine, x, 0.0), torch.where(fine, other, 0.0)
