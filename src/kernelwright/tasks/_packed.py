"""Which tensors of a candidate module hold the problem's weights in another layout: transposed, reshaped, joined.

Both are made under one secret seed. A tensor of the candidate's is told to hold weights where it consists of their
bits, each weight's axes in some order, joined along one axis, with nothing left over. What is found is a fixed
rearrangement, made before the secret weights are drawn: a candidate that is right on those, rearranged likewise, is
right. A wrong one among several that fit can only make a right candidate look wrong, which is why they are named.

Covers: transposed and permuted weights, reshaped ones, tiles; several joined or stacked, such as of queries, keys and
values; one tensor for all.
Does not cover: weights that are interleaved within an axis, padded, scaled, of another dtype or folded; complex ones
of 16 bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import prod

import torch

from ..records import PackedWeight, Packing

_MOST_AXES = 5
_GLANCE = 16
"""Elements that are compared before all are."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def packings(
    wanted: Mapping[str, torch.Tensor], held: Mapping[str, torch.Tensor]
) -> tuple[tuple[Packing, ...], tuple[str, ...]]:
    """Return which of the candidate's tensors hold which of the problem's weights.

    Args:
        wanted: The problem's weights that have no counterpart yet, by name.
        held: The candidate's tensors that are no counterpart yet, by name.

    Returns:
        The packings, and the names of weights that fit in other ways too, such as equal ones.

    Example:
        >>> q, k, one = torch.randn(4, 3), torch.randn(4, 3), torch.ones(4)
        >>> found, alike = packings({"q": q, "k": k, "n": one}, {"qk": torch.cat([q.T, k.T], 1), "n2": q + 1})
        >>> [(p.name, p.names, p.axis) for p in found], alike
        ([('qk', ('q', 'k'), 1)], ())
    """
    free = {name: tensor for name, tensor in wanted.items() if _is_comparable(tensor)}
    found: list[Packing] = []
    alike: list[str] = []
    for name, tensor in sorted(held.items(), key=lambda item: item[1].numel()):
        if _is_comparable(tensor) and (made := _packing(name, tensor, free)) is not None:
            found.append(made[0])
            alike += made[1]
            for taken in made[0].names:
                del free[taken]
    return tuple(found), tuple(alike)


def _is_comparable(tensor: torch.Tensor) -> bool:
    return 0 < tensor.dim() <= _MOST_AXES and tensor.numel() > 0 and tensor.element_size() in _BITS


def _packing(
    name: str, tensor: torch.Tensor, free: Mapping[str, torch.Tensor]
) -> tuple[Packing, list[str]] | None:
    same = {n: w for n, w in free.items() if w.dtype == tensor.dtype and w.numel() <= tensor.numel()}
    for axis in range(tensor.dim()):
        left, taken, alike, begin = dict(same), list[PackedWeight](), list[str](), 0
        while begin < tensor.shape[axis]:
            fits = list(_fits(tensor, axis, begin, left))
            if not fits:
                break
            weight, size = fits[0]
            if len(fits) > 1:
                alike.append(weight.name)
            taken.append(weight)
            del left[weight.name]
            begin += size
        if begin == tensor.shape[axis]:
            return Packing(name=name, shape=tuple(tensor.shape), axis=axis, weights=tuple(taken)), alike
    return None


def _fits(
    tensor: torch.Tensor, axis: int, begin: int, left: Mapping[str, torch.Tensor]
) -> Iterator[tuple[PackedWeight, int]]:
    """Yield the weights that the tensor may hold from a place along an axis on, and how much of the axis each takes."""
    others = tensor.numel() // tensor.shape[axis]
    for name, weight in left.items():
        size, rest = divmod(weight.numel(), others)
        if rest or begin + size > tensor.shape[axis]:
            continue
        part, shape = tensor.narrow(axis, begin, size), tuple(weight.shape)
        orders = [order for order in _turns(shape) if _same(weight.permute(order), part)]
        for order in orders:
            yield PackedWeight(name=name, shape=shape, order=order), size
        for parted in () if orders else _turns(tuple(part.shape)):
            if _same(weight, part.permute(parted)):
                yield PackedWeight(name=name, shape=shape, order=(), parted=parted), size


def _turns(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the orders of axes; those of one element stay where they are, as that changes nothing."""
    long = [axis for axis, size in enumerate(shape) if size != 1]
    for turned in permutations(long):
        order = iter(turned)
        yield tuple(next(order) if size != 1 else axis for axis, size in enumerate(shape))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same bits in the order of their elements, whatever their sizes."""
    return torch.equal(_first(one), _first(other)) and torch.equal(_bits(one), _bits(other))


def _first(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits of the first elements."""
    while tensor.dim() > 1 and prod(tensor.shape[1:]) >= _GLANCE:
        tensor = tensor[0]
    return _bits(tensor[:_GLANCE])[:_GLANCE]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1).contiguous()
    return flat.view(_BITS[tensor.element_size()])
