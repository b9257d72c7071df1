"""Triton kernels: rows (softmax, norms), losses, GLU, RoPE and matrix products.

They run on CUDA tensors, and on CPU tensors under the interpreter.
"""

from ._match import match

__all__ = ["RANK", "match"]

RANK = 60
