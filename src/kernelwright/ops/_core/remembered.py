"""Calls alike of public functions → straight to the kernel, past all that is written in Python."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from .explain import listeners, paused, plans, watched
from .served import Served, served_calls

_P = ParamSpec("_P")
_R = TypeVar("_R")


def remembered(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Remember the calls of a function that one run of a kernel answered; calls alike go straight to it.

    The function may look at no values of tensors: what it gives the kernel, and what it refuses, depends on numbers,
    words, shapes, dtypes and strides alone. What it gives is its arguments, views of them and `fixed` tensors; what it
    returns is what the kernel wrote. Other calls of it are not remembered, nor those in which two tensors share memory.

    Example:
        >>> from kernelwright.ops import activations
        >>> x = torch.tensor([0.0, -9.0])
        >>> activations.silu(x).tolist() == activations.silu(x.clone()).tolist()
        True
    """
    served: Served | None = None

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        nonlocal served
        if is_compiling():
            return function(*args, **kwargs)
        if (
            served is not None
            and not listeners
            and not plans
            and not paused
            and forward_ad._current_level < 0
        ):
            found: _R | None = served(*args, **kwargs)
            if found is not None:
                return found
        with watched() as ran:
            result = function(*args, **kwargs)
        if len(ran) == 1 and ran[0].kernel and not paused:
            made = served_calls()
            if served is None and made is not None:
                served = made(True)
            if served is not None:
                one = ran[0]
                served.remember(one.kernel, args, kwargs, one.arguments, one.outputs, result, one.number)
        return result

    return call


def fixed(x: torch.Tensor) -> torch.Tensor:
    """Mark a tensor that a `remembered` function makes of numbers and shapes alone, and nobody writes to.

    Example:
        >>> fixed(torch.arange(3)).tolist()
        [0, 1, 2]
    """
    if not is_compiling():
        x.is_fixed = True  # type: ignore[attr-defined]  # `served.cpp` looks for it
    return x
