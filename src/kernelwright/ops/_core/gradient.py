"""Gradients by the reference, for ops whose backward pass torch has already, and those that are the last."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _autograd, _functorch, _len_torch_dispatch_stack
from torch.compiler import is_compiling

_LIBRARY = torch.library.Library("kernelwright", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch has no types for it


def opaque(schema: str, run: Callable[..., Any], faked: Callable[..., Any]) -> Callable[..., Any]:
    """Register what a compiler cannot follow, as its steps depend on values, as one step; return that.

    Args:
        schema: As for `torch.library`.
        run: Computes the results. It may ask torch for gradients.
        faked: Makes empty results for the arguments.
    """
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)  # type: ignore[no-untyped-call]  # torch has no types for it
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]  # torch has no types for it
    torch.library.register_fake(f"kernelwright::{name}", faked, lib=_LIBRARY)
    made: Callable[..., Any] = getattr(torch.ops.kernelwright, name).default
    return made


def starts_with_one(slope: torch.Tensor) -> bool:
    """Tell whether a pass back begins here with a slope of 1, and ends here for good.

    What a forward pass kept as gradients may then be given away as it is. The value is looked at only where looking is
    free: on the processor, with no compiler, mode or transform around.
    """
    return (
        type(slope) is torch.Tensor
        and slope.device.type == "cpu"
        and not is_compiling()
        and not _autograd._get_current_graph_task_keep_graph()
        and not _len_torch_dispatch_stack()
        and _functorch.peek_interpreter_stack() is None
        and float(slope) == 1.0
    )


def by_reference(
    reference: Callable[..., torch.Tensor],
    tensors: Sequence[torch.Tensor | None],
    rest: Sequence[Any],
    wanted: Sequence[bool],
    slope: torch.Tensor,
) -> list[torch.Tensor | None]:
    """Return the gradients of the tensors that want one, by running the reference again and torch's way back.

    Args:
        reference: Called with the tensors, then the rest.
        tensors: What it may be differentiated by; None where none was given.
        rest: Its other arguments.
        wanted: Whether the gradient of each tensor is asked for.
        slope: The gradient of its result.

    Example:
        >>> x = torch.tensor([3.0])
        >>> with torch.no_grad():
        ...     by_reference(lambda x, power: x**power, [x], [2], [True], torch.ones(1))
        [tensor([6.])]
    """
    again = torch.is_grad_enabled()  # gradients of gradients are asked for
    with torch.enable_grad():
        leaves = [
            x if x is None or (again and x.requires_grad) else x.detach().requires_grad_(need)
            for x, need in zip(tensors, wanted, strict=True)
        ]
        asked = [x for x, need in zip(leaves, wanted, strict=True) if x is not None and need]
        out = reference(*leaves, *rest)
        if not out.requires_grad:  # nothing of them is in it, as where no token has an expert
            out = out + sum(x.sum() * 0 for x in asked)
        found = iter(torch.autograd.grad(out, asked, slope, create_graph=again))
    return [next(found) if x is not None and need else None for x, need in zip(leaves, wanted, strict=True)]


def last(
    name: str, found: Sequence[torch.Tensor | None], given: Sequence[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """Return gradients that have none of their own, so that whoever asks for one is told.

    Torch would take it for zero where a sum has other terms that have one, and so would `once_differentiable` where the
    gradient by an input is asked for, as `torch.autograd.grad` does.

    Args:
        name: The op, as the message calls it.
        found: Its gradients.
        given: What they were computed from.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> (x.square() + last("mine", [x.detach()], [x])[0]).sum().backward()
        Traceback (most recent call last):
        NotImplementedError: mine has no second derivatives
    """
    if not torch.is_grad_enabled() or _functorch.peek_interpreter_stack() is not None:
        return list(found)
    given = [x for x in given if x is not None and x.requires_grad]
    if not given:
        return list(found)
    return [x if x is None else _Last.apply(name, x, *given) for x in found]  # type: ignore[no-untyped-call]  # torch has no types for it


class _Last(torch.autograd.Function):
    """The first of some tensors; it depends on all of them, in a way that is not known."""

    @staticmethod
    def forward(ctx: Any, name: str, found: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        ctx.name = name
        return found.view_as(found)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[None, ...]:
        raise NotImplementedError(f"{ctx.name} has no second derivatives")
