"""Let a file make its inputs and module for real for as long as they are small.

On the meta device nothing is allocated, but torch imports its compiler and runs Python for it: two seconds,
which a file of a few small tensors need not spend.
"""

import itertools
import math
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

_BY_SIZE: Final = frozenset(
    {torch.rand, torch.randn, torch.zeros, torch.ones, torch.empty, torch.full, torch.randint}
)
_ASKED: Final = frozenset(
    {"__get__", "__len__", "device", "dim", "is_complex", "is_floating_point", "manual_seed", "numel", "size"}
)
"""Functions that make no tensor."""
_POINTWISE: Final = frozenset(
    {
        "abs", "add", "bfloat16", "bool", "clamp", "clone", "contiguous", "div", "double", "exp", "float", "half",
        "int", "long", "mul", "neg", "pow", "radd", "rdiv", "rmul", "rpow", "rsub", "rtruediv", "sigmoid", "softmax",
        "sqrt", "sub", "tanh", "to", "tril", "triu", "truediv",
    }
)  # fmt: skip
"""Functions and operators that make a tensor as large as those that they take together."""
_UNKNOWN: Final = 1 << 62


class NotSmallError(Exception):
    """What is made is not known to be small."""


class Small(TorchFunctionMode):
    """Run functions that make tensors of a known size, pointwise ones, and those in place; any other ends it.

    Args:
        most: Elements that may be made in all.
        known: Whether what makes tensors of sizes that are not known ends it too.

    Example:
        >>> with Small(100) as small:
        ...     _ = torch.randn(8, 8).mul_(2)
        >>> small.refused
        False
        >>> with Small(100) as small:
        ...     try:
        ...         _ = torch.ones(8, 16)
        ...     except NotSmallError:
        ...         print(small.refused)
        True
    """

    def __init__(self, most: int, *, known: bool = True) -> None:
        super().__init__()
        self._left, self._known = most, known
        self.refused = False
        """Whether something was not run, whatever the code made of the error."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the call, or raise."""
        name = getattr(func, "__name__", "")
        in_place = name.endswith("_") and not name.endswith("__")
        if func in _BY_SIZE:
            self._left -= _elements(func, args, kwargs or {})
        elif name.strip("_") in _POINTWISE and not in_place:
            self._left -= _together(args)
        elif self._known and name not in _ASKED and not in_place:
            self._left = -1
        if self._left < 0:
            self.refused = True
            raise NotSmallError(f"{name} may make much")
        return func(*args, **(kwargs or {}))


def _together(args: tuple[Any, ...]) -> int:
    """Count the elements that a pointwise result has at most; where shapes do not fit, the call will say so.

    `torch.broadcast_shapes` imports SymPy, which takes a second.
    """
    shapes = [arg.shape[::-1] for arg in args if isinstance(arg, torch.Tensor)]
    return math.prod(map(max, itertools.zip_longest(*shapes, fillvalue=1)))


def _elements(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Count the elements that a call makes; very many where its size is not plain."""
    bounds = 2 if func is torch.randint else 0
    size = kwargs.get("size", next((a for a in args if isinstance(a, list | tuple)), args[bounds:]))
    if func is torch.full:
        size = kwargs.get("size", args[0] if args else None)
    if not isinstance(size, list | tuple) or not all(isinstance(n, int) for n in size):
        return _UNKNOWN
    return math.prod(size)
