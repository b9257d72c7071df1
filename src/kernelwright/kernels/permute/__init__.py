"""Contiguous copies of permuted tensors, with tiles that read and write whole cache lines."""

from ._match import match

__all__ = ["match"]
