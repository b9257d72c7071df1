"""A layer's own forward, and the kernel in place of it where both compute the same: for `kernels.kernelize`.

Covers: a layer whose forward is not the reference, as with another epsilon: its first call in each mode is compared
with the reference, and it stays as it is, with a warning, where they differ; gradients, autocast, transforms of
torch.func, and whatever the guard does not admit, which are the layer's own; weights that change.
Does not cover: code, numbers, parts and tensors outside the state of a layer that change after its first call; hooks on
parts and their modes.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.compiler import is_compiling

from .dispatch import Dispatcher
from .operators import is_native, is_transformed
from .sampling import compared

_COMPARED = "_kernelwright_compared"
"""Attribute of a layer: for each mode whether its forward is the reference, and yields one tensor."""


def served(
    layer: torch.nn.Module,
    arguments: tuple[Any, ...],
    operator: Callable[..., Any],
    dispatcher: Dispatcher,
    state: Sequence[str],
) -> Any:
    """Answer a call of a layer by the kernel, or by the layer's own forward.

    Args:
        layer: The layer; its class has its own forward.
        arguments: What it is called with.
        operator: The kernel as an operator, for graphs.
        dispatcher: The kernel behind its guard.
        state: Names of the parameters and buffers that the kernel takes after the arguments.
    """

    def own(*_: Any) -> Any:
        return type(layer).forward(layer, *arguments)

    weights = _weights(layer, state)
    agreed = vars(layer).get(_COMPARED, {}).get(layer.training)
    if weights is None or agreed == "no":
        return own()
    given = (*arguments, *weights)
    if is_transformed() or is_native(given):
        return own()
    if agreed is None:
        return own() if is_compiling() else _first(layer, own, dispatcher, given)
    result = operator(*given) if is_compiling() else dispatcher.answer(given, own)
    return result[0] if agreed == "one" and not isinstance(result, torch.Tensor) else result


def _first(
    layer: torch.nn.Module, own: Callable[..., Any], dispatcher: Dispatcher, given: tuple[Any, ...]
) -> Any:
    """Answer by the layer's own forward; where the guard admits the call, note whether that is the reference."""
    chosen = dispatcher.admitting(given)
    if chosen is None:
        return own()
    result, wrong = own(), "it draws random numbers"
    if chosen.get("tolerance"):
        try:
            _, wrong = compared(lambda *_: result, dispatcher.native, given, chosen["tolerance"])
        except (ValueError, AttributeError):
            wrong = "its results are others"
    if wrong:
        said = f"a {type(layer).__name__} keeps its own forward, which is not what the kernel was verified on: {wrong}"
        warnings.warn(said, RuntimeWarning, stacklevel=4)
    one = isinstance(result, torch.Tensor)
    agreed = "no" if wrong or not (one or isinstance(result, tuple)) else "one" if one else "several"
    vars(layer)[_COMPARED] = {**vars(layer).get(_COMPARED, {}), layer.training: agreed}
    return result


def _weights(layer: torch.nn.Module, state: Sequence[str]) -> list[torch.Tensor] | None:
    """Return the layer's weights, by their names in the reference, which may be a wrapper around it; None without."""
    found = []
    for name in state:
        value: Any = layer
        for part in name.removeprefix("" if hasattr(layer, "inner") else "inner.").split("."):
            value = getattr(value, part, None)
        if not isinstance(value, torch.Tensor):
            return None
        found.append(value)
    return found
