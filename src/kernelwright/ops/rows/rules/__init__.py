"""Lowering rules of operators that are not elementwise, one file per family: ATen node → values."""

from . import loss, norm, reduce, shape, softmax

__all__ = ["loss", "norm", "reduce", "shape", "softmax"]
