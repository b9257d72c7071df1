"""Which tensors of a candidate hold the problem's weights in another layout: transposed, joined, padded, scaled.

Both are made under one secret seed. A tensor of the candidate's is told to hold weights where it consists of their
bits, each weight's axes in some order, joined along one axis, with nothing left over but zeros at the axes' ends. Where
that tells nothing, each weight may be multiplied by one number (`_scale.py`). What is found is a fixed rearrangement
with fixed numbers, made before the secret weights are drawn: a candidate that is right on those, rearranged and
multiplied likewise, is right. A wrong one among several that fit can only make a right candidate look wrong, which is
why they are named.

Covers: transposed and permuted weights, reshaped ones, tiles; several joined or stacked, such as of queries, keys and
values; one tensor for all; weights of one size that take turns along an axis, one by one or in blocks; one weight whose
axis is split; what is padded as a whole; weights multiplied or divided by a number each.
Does not cover: weights of another dtype, or multiplied by a number for each row; several padded each; complex ones of
16 bytes.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import permutations
from math import prod

import torch

from ..records import PackedWeight, Packing
from ._scale import may_be_scaled, scale_of

_MOST_AXES = 5
_MOST_IN_TURN = 8
"""Most weights that are looked for taking turns along an axis."""
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
    free = {name: _Wanted(w, _Ends.of(w)) for name, w in wanted.items() if _is_comparable(w)}
    holding = {name: tensor for name, tensor in held.items() if _is_comparable(tensor)}
    found: list[Packing] = []
    alike: list[str] = []
    for scaled in (False, True):
        for name, tensor in sorted(holding.items(), key=lambda item: item[1].numel()):
            if free and (made := _packing(name, tensor, free, scaled=scaled)) is not None:
                found.append(made[0])
                alike += made[1]
                del holding[name]
                for taken in made[0].names:
                    del free[taken]
    return tuple(found), tuple(alike)


@dataclass(frozen=True)
class _Ends:
    """The first and the last element of a tensor, which stay that in any order of its axes."""

    bits: list[int]
    values: list[float]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "_Ends":
        both = torch.stack([tensor.detach()[(at,) * tensor.dim()] for at in (0, -1)])
        return cls(_bits(both).tolist(), both.tolist())


@dataclass(frozen=True)
class _Wanted:
    """A weight that is looked for."""

    tensor: torch.Tensor
    ends: _Ends

    def may_be(self, there: _Ends, *, scaled: bool) -> bool:
        """Whether something with these ends may hold it: quickly, as most of what is tried does not."""
        dtype = self.tensor.dtype
        return self.ends.bits == there.bits or (
            scaled and may_be_scaled(self.ends.values, there.values, dtype)
        )


def _is_comparable(tensor: torch.Tensor) -> bool:
    return 0 < tensor.dim() <= _MOST_AXES and tensor.numel() > 0 and tensor.element_size() in _BITS


def _packing(
    name: str, tensor: torch.Tensor, free: Mapping[str, _Wanted], *, scaled: bool
) -> tuple[Packing, list[str]] | None:
    """Return how a tensor holds weights, and which of them fit in other ways too; nothing if it holds none."""
    shape = tuple(tensor.shape)
    held = _filled(tensor)
    for part in (tensor,) if held == shape else (tensor, tensor[tuple(map(slice, held))]):
        fitting = ((n, w, w.tensor) for n, w in free.items())
        same = {n: w for n, w, t in fitting if t.dtype == part.dtype and t.numel() <= part.numel()}
        sizes = {weight.tensor.numel() for weight in same.values()}
        for viewed, axes in (((), range(part.dim())), *_views(tuple(part.shape), sizes)):
            for axis in axes:
                found = _joined(part.reshape(viewed) if viewed else part, axis, same, scaled=scaled)
                if found is not None:
                    inside = held if part is not tensor else ()
                    weights, alike = found
                    return Packing(
                        name=name, shape=shape, axis=axis, weights=weights, held=inside, viewed=viewed
                    ), alike
    return None


def _joined(
    tensor: torch.Tensor, axis: int, weights: Mapping[str, _Wanted], *, scaled: bool
) -> tuple[tuple[PackedWeight, ...], list[str]] | None:
    """Return the weights that lie along an axis from its begin to its end; nothing if they do not fill it."""
    left, taken, alike, begin = dict(weights), list[PackedWeight](), list[str](), 0
    while begin < tensor.shape[axis]:
        fits = sorted(_fits(tensor, axis, begin, left, scaled=scaled), key=lambda fit: fit[0].scale != 1)
        if not fits:
            return None
        weight, size = fits[0]
        if len(fits) > 1:
            alike.append(weight.name)
        taken.append(weight)
        del left[weight.name]
        begin += size
    return tuple(taken), alike


def _filled(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return how much of each axis there is up to its last element that is not zero; all of it if there is none.

    Example:
        >>> _filled(torch.nn.functional.pad(torch.ones(2, 3), (0, 5, 0, 1)))
        (2, 3)
    """
    if all(bool(tensor.detach().select(axis, -1).any()) for axis in range(tensor.dim())):
        return tuple(tensor.shape)
    at = tensor.detach().nonzero()
    return tuple((at.amax(0) + 1).tolist()) if len(at) else tuple(tensor.shape)


def _views(shape: tuple[int, ...], sizes: Set[int]) -> Iterator[tuple[tuple[int, ...], Sequence[int]]]:
    """Yield sizes in which a tensor holds weights of these sizes in turn, or one in two steps, and the axis to look at.

    Example:
        >>> list(_views((6,), {3}))
        [((3, 2), [1])]
    """
    if len(shape) > _MOST_AXES - 2:
        return
    whole = prod(shape)
    for axis, size in enumerate(shape):
        for count in (n for n in range(2, size + 1) if size % n == 0):
            before, after, rest = shape[:axis], shape[axis + 1 :], size // count
            if count <= _MOST_IN_TURN and whole // count in sizes:
                for block in (n for n in range(1, rest) if rest % n == 0):
                    split = (rest // block, count, block) if block > 1 else (rest, count)
                    yield (*before, *split, *after), [axis + 1]
            if whole in sizes and rest > 1:
                yield (*before, rest, count, *after), [0]


def _fits(
    tensor: torch.Tensor, axis: int, begin: int, left: Mapping[str, _Wanted], *, scaled: bool
) -> Iterator[tuple[PackedWeight, int]]:
    """Yield the weights that the tensor may hold from a place along an axis on, and how much of the axis each takes."""
    others, ends = tensor.numel() // tensor.shape[axis], dict[int, _Ends]()
    for name, wanted in left.items():
        weight = wanted.tensor
        size, rest = divmod(weight.numel(), others)
        if rest or begin + size > tensor.shape[axis]:
            continue
        part, shape = tensor.narrow(axis, begin, size), tuple(weight.shape)
        if size not in ends:
            ends[size] = _Ends.of(part)
        if not wanted.may_be(ends[size], scaled=scaled):
            continue
        orders = [(o, s) for o in _turns(shape) if (s := _times(weight.permute(o), part, scaled=scaled))]
        for order, scale in orders:
            yield PackedWeight(name=name, shape=shape, order=order, scale=scale), size
        for parted in () if orders else _turns(tuple(part.shape)):
            if scale := _times(weight, part.permute(parted), scaled=scaled):
                yield PackedWeight(name=name, shape=shape, order=(), parted=parted, scale=scale), size


def _turns(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the orders of axes; those of one element stay where they are, as that changes nothing."""
    long = [axis for axis, size in enumerate(shape) if size != 1]
    for turned in permutations(long):
        order = iter(turned)
        yield tuple(next(order) if size != 1 else axis for axis, size in enumerate(shape))


def _times(one: torch.Tensor, other: torch.Tensor, *, scaled: bool) -> float:
    """Return the number by which one is multiplied in the other: 1 if it has to be the same; 0 if there is none."""
    begin, there = _first(one), _first(other)
    if torch.equal(_bits(begin), _bits(there)) and torch.equal(_bits(one), _bits(other)):
        return 1.0
    near = scaled and may_be_scaled(begin.tolist(), there.tolist(), one.dtype)
    return scale_of(one, other) if near else 0.0


def _first(tensor: torch.Tensor) -> torch.Tensor:
    """Return the first elements."""
    while tensor.dim() > 1 and prod(tensor.shape[1:]) >= _GLANCE:
        tensor = tensor[0]
    return tensor[:_GLANCE].reshape(-1)[:_GLANCE]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1).contiguous()
    return flat.view(_BITS[tensor.element_size()])
