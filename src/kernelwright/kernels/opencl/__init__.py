"""OpenCL kernels: pointwise chains, and rows with reductions (softmax, RMSNorm)."""

from ._match import match

__all__ = ["RANK", "match"]

RANK = 70
