"""The kernel as an operator of torch, so that torch.compile, torch.export, AOTInductor and torch.func work around it.

Covers: a fake implementation, which computes nothing; gradients of any order, which are the native op's, computed again
from the arguments where they are asked for; vmap, by one call for each element, because that is what was verified;
results in memory of their own.
Does not cover: gradients and vmap of an op that changes its arguments; torch.func's gradients of the operator itself,
which torch refuses, and its forward-mode derivatives, which are refused here: the package's function leaves both to the
native op.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

Call = Callable[..., Any]


def define(name: str, kernel: Call, native: Call, schema: str, mutates: Sequence[str]) -> Any:
    """Define the operator `kernelwright::NAME` and return it.

    Args:
        name: Its name.
        kernel: Computes it, inside its guard and outside.
        native: The native op.
        schema: Arguments and results, as torch writes them.
        mutates: Names of arguments that it changes.
    """

    def run(*arguments: Any) -> Any:
        if forward_ad._current_level >= 0:
            raise NotImplementedError(
                f"kernelwright::{name} has no forward-mode derivative; call {name}(...) of its package, which leaves "
                "that to the native op"
            )
        return apart(_flat(kernel(*arguments)), arguments)

    def fake(*arguments: Any) -> Any:
        mode = next((a.fake_mode for a in arguments if isinstance(a, FakeTensor)), None)
        if mode is None:
            return _like(_flat(native(*arguments)))
        before = mode.allow_non_fake_inputs
        mode.allow_non_fake_inputs = True  # what the native op holds is real
        try:
            return _like(_flat(native(*arguments)))
        finally:
            mode.allow_non_fake_inputs = before

    operator: Any = torch.library.custom_op(f"kernelwright::{name}", run, mutates_args=mutates, schema=schema)
    operator.register_fake(fake)
    if not mutates:
        operator.register_autograd(_backward(native), setup_context=_keep)
        operator.register_vmap(_vmap(operator))
    return operator


def is_transformed() -> bool:
    """Tell whether torch.func or forward-mode differentiation transforms the call: the native op knows how."""
    active: bool = torch._C._are_functorch_transforms_active()
    return active or forward_ad._current_level >= 0


def is_autocast() -> bool:
    """Tell whether autocast is on for any device: the native op then computes in another dtype."""
    on: bool = torch._C._is_any_autocast_enabled()
    return on


def is_native(arguments: Sequence[Any]) -> bool:
    """Tell whether a call is left to the native op: gradients are wanted of it, or autocast is on."""
    return is_autocast() or (
        torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments)
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001  the name is the protocol
    ctx.save_for_backward(*(a for a in inputs if isinstance(a, torch.Tensor)))
    ctx.others = [None if isinstance(a, torch.Tensor) else a for a in inputs]
    ctx.places = [i for i, a in enumerate(inputs) if isinstance(a, torch.Tensor)]


def _backward(native: Call) -> Call:
    """Return the backward pass: the native op's own, on the arguments of the forward pass."""

    def backward(ctx: Any, *of_results: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        arguments, wanted = list(ctx.others), dict[int, torch.Tensor]()
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
                arguments[place] = tensor
                if ctx.needs_input_grad[place]:
                    arguments[place] = wanted[place] = tensor.view_as(tensor) if again else _leaf(tensor)
            results = [r for r in pytree.tree_leaves(native(*arguments)) if isinstance(r, torch.Tensor)]
        pairs = [
            (r, g) for r, g in zip(results, of_results, strict=True) if r.requires_grad and g is not None
        ]
        found = torch.autograd.grad(
            [r for r, _ in pairs], list(wanted.values()), [g for _, g in pairs], create_graph=again, allow_unused=True
        )  # fmt: skip
        gradients = dict(zip(wanted, found, strict=True))
        return tuple(gradients.get(place) for place in range(len(arguments)))

    return backward


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_()


def _vmap(operator: Call) -> Call:
    def batched(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        moved = [a if d is None else a.movedim(d, 0) for a, d in zip(arguments, in_dims, strict=True)]
        found = [
            operator(*(a if d is None else a[i] for a, d in zip(moved, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        if isinstance(found[0], torch.Tensor):
            return torch.stack(found), 0
        columns = [torch.stack(column) for column in zip(*found, strict=True)]
        return tuple(columns), (0,) * len(columns)

    return batched


def single(results: Any) -> Any:
    """Return a result that is alone by itself, as operators do: references of whole models return tuples.

    Example:
        >>> single((1,)), single((1, 2)), single(1)
        (1, (1, 2), 1)
    """
    return results[0] if type(results) is tuple and len(results) == 1 else results


def apart(results: Any, arguments: Sequence[Any]) -> Any:
    """Give results memory of their own, contiguous, as the fake implementation says that they are."""
    known = {a.untyped_storage().data_ptr() for a in arguments if isinstance(a, torch.Tensor)}
    made = []
    for result in (results,) if isinstance(results, torch.Tensor) else results:
        own = result.contiguous()
        shared = own.numel() > 0 and own.untyped_storage().data_ptr() in known
        made.append(own.clone() if shared else own)
        known.add(made[-1].untyped_storage().data_ptr())
    return made[0] if isinstance(results, torch.Tensor) else tuple(made)


def _flat(results: Any) -> Any:
    """Return results as the schema has them: one tensor, or a tuple of tensors."""
    return single(tuple(r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)))


def _like(results: Any) -> Any:
    if isinstance(results, torch.Tensor):
        return results.new_empty(results.shape)
    return tuple(r.new_empty(r.shape) for r in results)
