"""Backward tasks: forward and gradient are one call, whose last arguments are the gradients of the outputs.

Covers: gradients of float arguments and parameters, found by trial; any number of outputs.
Does not cover: second derivatives; references that change an argument in place.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..errors import TaskError
from ..records import TensorSpec, Workload
from .forms._shape_probe import flatten
from .inputs._draw import dtype_of

_PREFIX = "grad_"


def with_gradients(workload: Workload, wanted: frozenset[str]) -> Workload:
    """Return the workload of forward and backward together.

    Args:
        workload: The forward workload.
        wanted: Names of the arguments and state tensors that get a gradient.

    Example:
        >>> x, y = (TensorSpec(name=n, shape=(4,), dtype="float32") for n in "xy")
        >>> both = with_gradients(Workload(name="w", arguments=(x,), outputs=(y,)), frozenset({"x"}))
        >>> [s.name for s in both.arguments], [s.name for s in both.outputs], both.forward.outputs == (y,)
        (['x', 'grad_y'], ['y', 'grad_x'], True)
    """
    cotangents = tuple(_renamed(s) for s in workload.outputs if _is_float(s))
    marked = [
        s.model_copy(update={"requires_grad": True}) if isinstance(s, TensorSpec) and s.name in wanted else s
        for s in (*workload.arguments, *workload.state)
    ]
    targets = [s for s in marked if isinstance(s, TensorSpec) and s.requires_grad]
    count = len(workload.arguments)
    return workload.model_copy(
        update={
            "arguments": (*marked[:count], *cotangents),
            "state": tuple(marked[count:]),
            "outputs": (*workload.outputs, *map(_renamed, targets)),
            "cotangents": len(cotangents),
        }
    )


def without_gradients(workload: Workload) -> Workload:
    """Return the forward workload, as it was before it was made one of forward and backward.

    Example:
        >>> x, y = (TensorSpec(name=n, shape=(4,), dtype="float32") for n in "xy")
        >>> plain = Workload(name="w", arguments=(x,), outputs=(y,))
        >>> without_gradients(with_gradients(plain, frozenset({"x"}))) == plain
        True
    """
    forward = workload.forward
    if forward is workload:
        return workload
    plain = {
        part: tuple(s.model_copy(update={"requires_grad": False}) if _wants(s) else s for s in specs)
        for part, specs in (("arguments", forward.arguments), ("state", forward.state))
    }
    return forward.model_copy(update=plain)


def differentiate(
    reference: Callable[..., Any], workload: Workload, *arguments: Any
) -> tuple[torch.Tensor, ...]:
    """Call the reference and its backward; returns outputs, then gradients in the order of their targets."""
    forward = workload.forward
    given, cotangents = arguments[: len(forward.arguments)], arguments[len(forward.arguments) :]
    leaves = [_leaf(a) if _wants(s) else a for a, s in zip(given, forward.arguments, strict=True)]
    parameters = dict(reference.named_parameters()) if isinstance(reference, torch.nn.Module) else {}
    targets = [leaf for leaf, s in zip(leaves, forward.arguments, strict=True) if _wants(s)]
    targets += [parameters[s.name] for s in forward.state if s.requires_grad]
    with torch.enable_grad():
        outputs = flatten(reference(*leaves))
    gradients = _gradients(outputs, targets, cotangents)
    filled = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, targets, strict=True)]
    return (*(o.detach() for o in outputs), *filled)


class Differentiated(torch.nn.Module):
    """A reference whose call is forward and backward (`differentiate`); the reference is its part `inner`."""

    def __init__(self, reference: Callable[..., Any], workload: Workload) -> None:
        super().__init__()
        self.inner, self.workload = reference, workload

    def forward(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        """Return outputs, then gradients."""
        return differentiate(self.inner, self.workload, *arguments)


def targets_of(
    reference: Callable[..., Any], workload: Workload, arguments: Sequence[Any], name: str
) -> frozenset[str]:
    """Find by trial which arguments and parameters get a gradient.

    Raises:
        TaskError: the reference cannot be differentiated, or nothing gets a gradient.
    """
    leaves = {
        s.name: _leaf(a)
        for s, a in zip(workload.arguments, arguments, strict=True)
        if isinstance(s, TensorSpec) and _is_float(s)
    }
    tried: dict[str, torch.Tensor] = dict(leaves)
    if isinstance(reference, torch.nn.Module):
        tried |= dict(reference.named_parameters())
    given = [
        leaves.get(s.name, a) if isinstance(s, TensorSpec) else a
        for s, a in zip(workload.arguments, arguments, strict=True)
    ]
    try:
        with torch.enable_grad():
            outputs = flatten(reference(*given))
        cotangents = [torch.ones_like(o) for o in outputs if o.is_floating_point()]
        found = _gradients(outputs, list(tried.values()), cotangents)
    except (RuntimeError, IndexError, ValueError, TypeError, AssertionError) as error:
        message = str(error).splitlines()[0]
        raise TaskError(
            f"{name}: backward was asked for, and the reference cannot be differentiated: {message}"
        ) from error
    wanted = frozenset(n for n, gradient in zip(tried, found, strict=True) if gradient is not None)
    if not wanted:
        raise TaskError(f"{name}: backward was asked for, and no argument or parameter gets a gradient")
    return wanted


def _gradients(
    outputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    floats = (o for o in outputs if o.is_floating_point())
    used = list(_differentiable(zip(floats, cotangents, strict=True)))
    if not used:
        return (None,) * len(targets)
    ends, starts = zip(*used, strict=True)
    return torch.autograd.grad(ends, list(targets), starts, allow_unused=True)


def _differentiable(
    pairs: Iterator[tuple[torch.Tensor, torch.Tensor]],
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return ((o, g.to(o.dtype)) for o, g in pairs if o.requires_grad)


def _leaf(value: torch.Tensor) -> torch.Tensor:
    return value.detach().requires_grad_()


def _wants(spec: object) -> bool:
    return isinstance(spec, TensorSpec) and spec.requires_grad


def _is_float(spec: TensorSpec) -> bool:
    return dtype_of(spec.dtype).is_floating_point


def _renamed(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(name=f"{_PREFIX}{spec.name}", shape=spec.shape, dtype=spec.dtype)
