"""Run a reference in float64, through casts that the reference itself makes to narrower floats."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...system.dispatch_mode import DispatchMode
from ._grouped import grouped_mm

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_NARROW_COMPLEX = (torch.complex64, torch.complex32)


class Widen(DispatchMode):
    """Turn every narrower dtype that an operator is asked for into float64 or complex128."""

    def __init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator with float64 in the place of narrower dtypes."""
        wide = {k: _wide(v) for k, v in (kwargs or {}).items()}
        func = grouped_mm if func is torch.ops.aten._grouped_mm.default else func
        return func(*(_wide(a) for a in args), **wide)


def widen(value: Any) -> Any:
    """Turn a narrower tensor of floats into float64, one of complex numbers into complex128; everything else passes.

    Example:
        >>> widen(torch.ones(2)).dtype, widen(torch.ones(2, dtype=torch.complex64)).dtype, widen(3)
        (torch.float64, torch.complex128, 3)
    """
    return value.to(_wide(value.dtype)) if isinstance(value, torch.Tensor) else value


def narrow_to_float32(value: Any) -> Any:
    """Turn a half-precision tensor into float32; everything else passes."""
    half = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if half else value


def in_float64(call: Callable[[], Any], mode: Widen | None = None) -> Any:
    """Call with float64 as the default dtype and narrower dtypes widened; raises what the call raises."""
    with _default_dtype(torch.float64), mode or Widen():
        return call()


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _wide(value: Any) -> Any:
    if not isinstance(value, torch.dtype):
        return value
    return torch.float64 if value in _NARROW else torch.complex128 if value in _NARROW_COMPLEX else value
