"""By which names, and in which layout, a worker's module holds the state that it is given."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from ..records import PackedWeight, Packing
from ._channel import Message


@dataclass(frozen=True)
class Names:
    """The module's names for state of other names."""

    names: Mapping[str, str]
    """Its name for each other one; what is in neither these nor the packings is not given to it."""
    own: tuple[str, ...] = ()
    """What it has beyond those, which stays as it is."""
    packings: tuple[Packing, ...] = ()
    """Tensors of the module that hold several, or one in another layout."""
    latest: dict[str, tuple[Tensor, dict[str, Tensor]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """What was given last of those with scales, and the weights it was made of: to divide may round otherwise."""

    @property
    def message(self) -> Message:
        """Tell a worker, which returns gradients alone: what weights are multiplied by, these are too, not divided."""
        packings = [_of_gradients(packing).model_dump(mode="json") for packing in self.packings]
        return {"op": "rename", "names": dict(self.names), "packings": packings}

    def given(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return state by the module's names; a tensor of which a part is not there is left out."""
        found = {self.names[name]: tensor for name, tensor in state.items() if name in self.names}
        for packing in self.packings:
            if all(name in state for name in packing.names):
                found[packing.name] = tensor = packed(packing, state)
                if any(weight.scale != 1 for weight in packing.weights):
                    self.latest[packing.name] = tensor, {name: state[name] for name in packing.names}
        return found

    def told(self, held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the module's state by the other names; what has not the sizes that it should have is left out.

        Example:
            >>> turned = PackedWeight(name="fc.weight", shape=(3, 2), order=(1, 0))
            >>> names = Names({"fc.bias": "b"}, packings=(Packing(name="w", shape=(2, 3), axis=0, weights=(turned,)),))
            >>> state = {"fc.weight": torch.randn(3, 2), "fc.bias": torch.randn(3)}
            >>> held = names.given(state)
            >>> tuple(held["w"].shape), all(t.equal(state[n]) for n, t in names.told(held).items())
            ((2, 3), True)
        """
        found = {name: held[own] for name, own in self.names.items() if own in held}
        for packing in self.packings:
            tensor = held.get(packing.name)
            if tensor is not None and tuple(tensor.shape) == packing.shape:
                was, weights = self.latest.get(packing.name, (None, {}))
                found |= weights if was is not None and _same(was, tensor) else unpacked(packing, tensor)
        return found


def packed(packing: Packing, state: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor that holds weights, from these."""
    parts = []
    for weight, sizes in _parts(packing):
        tensor = state[weight.name] if weight.scale == 1 else state[weight.name] * weight.scale
        if weight.parted:
            back = [weight.parted.index(axis) for axis in range(len(sizes))]
            parts.append(tensor.reshape([sizes[axis] for axis in weight.parted]).permute(back))
        else:
            parts.append(tensor.permute(weight.order).reshape(sizes))
    joined = torch.cat(parts, packing.axis).reshape(packing.held or packing.shape)
    if not packing.held:
        return joined
    filled = joined.new_zeros(packing.shape)
    filled[_held(packing)] = joined
    return filled


def unpacked(packing: Packing, tensor: Tensor) -> dict[str, Tensor]:
    """Return the weights that a tensor holds, contiguous, by the problem's names."""
    found, begin = {}, 0
    tensor = tensor[_held(packing)].reshape(packing.sizes)
    for weight, sizes in _parts(packing):
        part = tensor.narrow(packing.axis, begin, sizes[packing.axis])
        begin += sizes[packing.axis]
        if weight.scale != 1:
            part = part / weight.scale
        if weight.parted:
            found[weight.name] = part.permute(weight.parted).reshape(weight.shape).contiguous()
        else:
            back = [weight.order.index(axis) for axis in range(len(weight.shape))]
            turned = part.reshape([weight.shape[axis] for axis in weight.order])
            found[weight.name] = turned.permute(back).contiguous()
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of the same sizes have the same bits."""
    bits = (tensor.detach().contiguous().view(torch.uint8) for tensor in (one, other))
    return one.dtype == other.dtype and torch.equal(*bits)


def _of_gradients(packing: Packing) -> Packing:
    """Return how a tensor holds the gradients of what it holds, where each stands for the weight divided by its scale.

    Example:
        >>> twice = PackedWeight(name="fc", shape=(3,), order=(0,), scale=2.0)
        >>> unpacked(_of_gradients(Packing(name="w", shape=(3,), axis=0, weights=(twice,))), torch.ones(3))
        {'fc': tensor([2., 2., 2.])}
    """
    weights = (weight.model_copy(update={"scale": 1 / weight.scale}) for weight in packing.weights)
    return packing.model_copy(update={"weights": tuple(weights)})


def _held(packing: Packing) -> tuple[slice, ...]:
    """Return which part of the tensor holds weights."""
    return tuple(slice(size) for size in packing.held or packing.shape)


def _parts(packing: Packing) -> Iterator[tuple[PackedWeight, Sequence[int]]]:
    """Yield the weights with the sizes of their parts of the tensor."""
    others = prod(size for axis, size in enumerate(packing.sizes) if axis != packing.axis)
    for weight in packing.weights:
        sizes = list(packing.sizes)
        sizes[packing.axis] = prod(weight.shape) // others
        yield weight, sizes
