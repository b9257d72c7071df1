"""Matrix products: vectors, few rows, small batches, thin inner sizes, triangles, diagonals, with an epilogue."""

from ._match import match
from ._operand import Operand, in_memory_order, operand

__all__ = ["Operand", "in_memory_order", "match", "operand"]
