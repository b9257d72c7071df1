"""Arguments with some elements changed to other values that their specs allow.

What is declared of a whole tensor (that it is sorted, sums to one, or is `given` by the task alone) is kept: such
arguments are not changed. That a generator always gives the same number is no declaration.
"""

import torch

from ...records import TensorSpec
from ._draw import drawn_as, lay_out

_STRUCTURED = frozenset({"sorted", "offsets", "permutation", "probabilities", "triangular", "given"})
"""Kinds of values of which some alone cannot change without breaking what was declared."""


def changed(value: torch.Tensor, spec: TensorSpec, part: slice | torch.Tensor) -> torch.Tensor | None:
    """Return a copy with a part of the elements, counted row by row, changed; none where the spec allows no change.

    A part is a slice, or a flag for each element.

    Floats are doubled, or made one where they are zero; of zeros and ones it is the other; integers go to a neighbour
    in their range, constant ones towards zero.

    Example:
        >>> spec = TensorSpec(name="mask", shape=(4,), dtype="bool")
        >>> changed(torch.ones(4, dtype=torch.bool), spec, slice(1, 3))
        tensor([ True, False, False,  True])
    """
    if spec.distribution.kind in _STRUCTURED or not value.numel() or value.is_complex():
        return None
    flat = value.clone(memory_format=torch.contiguous_format).view(-1)
    flat[part] = _others(flat[part], spec)
    return None if torch.equal(flat, value.reshape(-1)) else lay_out(flat.view(value.shape), spec.layout)


def alike(value: torch.Tensor) -> bool:
    """Tell whether a tensor, not empty, is one value throughout."""
    return bool((value == value.flatten()[0]).all())


def _others(values: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    drawn = drawn_as(spec)
    if values.dtype is torch.bool:
        return ~values
    if drawn.kind == "bernoulli":
        return 1 - values
    if values.is_floating_point():
        return torch.where(values == 0, torch.ones_like(values), values * 2)
    if drawn.kind == "constant":
        return torch.where(values > 0, values - 1, values + 1)
    low, last = int(drawn.low), int(drawn.high) - 1
    return torch.where(values < last, values + 1, low)
