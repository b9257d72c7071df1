"""A kernel and its backward as one call, as training makes it: what a worker calls on a backward task.

Covers: gradients land where `Tensor.backward` would leave them: in tensors of their own, laid out as what they
are gradients of, zero where there is none.
Does not cover: compiled kernels of style `destination`; those take the gradients of the outputs as arguments
and write all results themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._packing import Names
from ._self_report import flatten
from ._types import Gradient


def differentiated(
    kernel: Any, asked: Gradient, style: str, names: Names
) -> Callable[..., tuple[Tensor, ...]]:
    """Return a call of the kernel and its backward: (*arguments, *gradients of outputs, *state) to all results.

    Gradients of a module's state are asked for and returned as `names` says; what it does not name has one name.
    """
    names = _complete(asked, names)
    packings = [p for p in names.packings if {*p.names} & {name for _, name in asked.state}]
    owned = tuple(dict.fromkeys((*names.names.values(), *(packing.name for packing in packings))))
    first = len(asked.arguments)

    def call(*given: Any) -> tuple[Tensor, ...]:
        forward, rest = list(given[: asked.forward]), list(given[asked.forward :])
        cotangents, state = rest[: asked.cotangents], rest[asked.cotangents :]
        for i in asked.arguments:
            forward[i] = forward[i].detach().requires_grad_()
        targets = [forward[i] for i in asked.arguments]
        if style == "module":
            held = kernel.state_dict(keep_vars=True)
            targets += [held[name].requires_grad_() for name in owned]
        else:
            for i, _ in asked.state:
                state[i] = state[i].detach().requires_grad_()
            targets += [state[i] for i, _ in asked.state]
        with torch.enable_grad():
            outputs = flatten(kernel(*forward, *state))
        gradients = _backward(outputs, targets, cotangents)
        if style == "module":
            found = names.told({n: g for n, g in zip(owned, gradients[first:], strict=True) if g is not None})
            gradients = (*gradients[:first], *(found.get(name) for _, name in asked.state))
            like = {n: held[own] for n, own in names.names.items()}
            like |= {w.name: held[p.name].new_empty(w.shape) for p in packings for w in p.weights}
            targets = [*targets[:first], *(like[name] for _, name in asked.state)]
        return _settled(outputs, gradients, targets, [*forward, *cotangents, *state])

    return call


def _complete(asked: Gradient, names: Names) -> Names:
    """Return the module's names of the tensors whose gradients are asked for."""
    inside = {name for packing in names.packings for name in packing.names}
    own = {name: names.names.get(name, name) for _, name in asked.state if name not in inside}
    return Names(own, packings=names.packings)


def _backward(
    outputs: Sequence[Tensor], targets: Sequence[Tensor], cotangents: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    floats = [o for o in outputs if o.is_floating_point()]
    used = [(o, g) for o, g in zip(floats, cotangents, strict=True) if o.requires_grad]
    if not used:
        raise RuntimeError(
            "no output has a gradient; expected a kernel that torch.autograd can go back through"
        )
    ends, starts = zip(*used, strict=True)
    return torch.autograd.grad(ends, targets, starts, allow_unused=True)


def _settled(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    targets: Sequence[Tensor],
    given: Sequence[Any],
) -> tuple[Tensor, ...]:
    """Put each gradient into a tensor of its own, as accumulating it into `.grad` does."""
    found = [o.detach() for o in outputs]
    taken = {t.untyped_storage().data_ptr() for t in (*given, *found) if isinstance(t, Tensor)}
    for gradient, target in zip(gradients, targets, strict=True):
        if gradient is None:
            own = torch.zeros_like(target)
        elif gradient.stride() == target.stride() and gradient.untyped_storage().data_ptr() not in taken:
            own = gradient
        else:
            own = torch.empty_like(target).copy_(gradient)
        taken.add(own.untyped_storage().data_ptr())
        found.append(own.detach())
    return tuple(found)
