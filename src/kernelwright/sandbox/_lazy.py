"""Sizes of a candidate's lazy layers, which a first call tells."""

from typing import Any

import torch
from torch.nn.parameter import is_lazy


def sized(module: torch.nn.Module, arguments: list[Any], device: str) -> torch.nn.Module:
    """Return a module, called once where layers of it are lazy: on ones, and zeros for whole numbers.

    Example:
        >>> asked = [{"shape": [4, 3], "dtype": "float32"}, {"value": None}]
        >>> sized(torch.nn.LazyLinear(2), asked[:1], "cpu").weight.shape
        torch.Size([2, 3])
    """
    if not any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        return module
    values = [_value(argument, device) for argument in arguments]
    with torch.no_grad():
        module(*values)
    return module


def _value(argument: Any, device: str) -> Any:
    if "shape" not in argument:
        return argument["value"]
    dtype = getattr(torch, argument["dtype"])
    filled = torch.ones if dtype.is_floating_point else torch.zeros
    return filled(argument["shape"], dtype=dtype, device=device)
