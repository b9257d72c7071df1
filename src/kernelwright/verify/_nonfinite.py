"""NaN and infinity: which kind (finite, NaN, inf, -inf) each element may be of.

Covers: what is swallowed, invented, or of the wrong sign; sums in any order; one formula in other steps.
Does not cover: how wrong a finite element is; `_error` does.
"""

import math

import torch

from ._tolerance import OutputTolerance


def misplaced(numbers: torch.Tensor, tolerance: OutputTolerance, part: slice) -> int:
    """Count elements of a kind that no right evaluation has.

    Right are the native op's kind, and what is not finite in the truth, or in the reference in torch's own steps or
    without products of zeros; where the native op is not finite, what is so there, as near as a hundredth of
    it or of its row; and NaN where it hangs on the
    order of summation. Where a sum overflowed on the native op's own way to a finite truth, any overflow is as good as
    another. Where the error allowed reaches what the dtype rounds to infinity, both sides of that edge are right.

    Args:
        numbers: Elements of an output, float64, 1-D.
        tolerance: What is expected.
        part: Which elements of the flattened output they are.
    """
    if tolerance.forbid_nonfinite:
        return int((~torch.isfinite(numbers)).sum())
    truth, native = tolerance.truth.view(-1)[part], tolerance.native.reshape(-1)[part].to(torch.float64)
    beyond = ~torch.isfinite(native)
    fine = _same_kind(numbers, native)
    for right, reach in zip((tolerance.truth, *tolerance.others), tolerance.reaches, strict=True):
        other = right.reshape(-1)[part]
        near = (numbers - other).abs() <= reach.view(-1)[part]
        fine |= torch.where(other.isfinite(), beyond & near, _same_kind(numbers, other))
    if tolerance.doubtful is not None:
        doubtful = tolerance.doubtful.reshape(-1)[part]
        fine |= doubtful & numbers.isnan()
        fine |= doubtful & truth.isfinite() & ~numbers.isfinite()
    if tolerance.allowed is not None and not tolerance.exact:
        fine |= _rounded(numbers, truth, native, tolerance.allowed.view(-1)[part], tolerance.native.dtype)
    return int((~fine).sum())


def overflow(dtype: torch.dtype) -> float:
    """Return the least size that a float dtype of at most 32 bits rounds to infinity.

    Example:
        >>> overflow(torch.float16), torch.tensor([65519.0, 65520.0]).half()
        (65520.0, tensor([65504.,    inf], dtype=torch.float16))
    """
    info = torch.finfo(dtype)
    last = 2.0 ** math.floor(math.log2(info.max)) * info.eps if info.bits < 64 else 0.0
    return info.max + last / 2


def _rounded(
    numbers: torch.Tensor,
    truth: torch.Tensor,
    native: torch.Tensor,
    allowed: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Tell where numbers are what a dtype makes of a value that is as near to a finite truth as allowed."""
    edge = overflow(dtype)
    return truth.isfinite() & ~native.isnan() & ((numbers.clamp(-edge, edge) - truth).abs() <= allowed)


def _same_kind(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Tell where two tensors are both finite, both NaN or the same infinity."""
    return (a.isfinite() & b.isfinite()) | (a.isnan() & b.isnan()) | (a.isinf() & (a == b))
