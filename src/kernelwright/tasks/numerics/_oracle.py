"""Run a reference in float64, through casts that the reference itself makes to narrower floats."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...system.dispatch_mode import DispatchMode
from ._grouped import grouped_mm

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


class Widen(DispatchMode):
    """Turn every narrower float dtype that an operator is asked for into float64."""

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
    """Turn a narrower float tensor into float64; everything else passes."""
    return value.double() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value


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
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value
