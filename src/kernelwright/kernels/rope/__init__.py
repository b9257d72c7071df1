"""Rotary position embedding, halves rotated or neighbours rotated, one or several tensors at once."""

from ._match import Row, match, rows_of
from ._parts import Dialect

__all__ = ["Dialect", "Row", "match", "rows_of"]
