"""Graph → Program: what is stored, what is fused, and how the loops run."""

from ._block import NeedsStore, Unlowered, kind_of
from ._decisions import Decisions
from ._loops import Arranged, Layout
from ._lower import NotLowered, lower

__all__ = ["Arranged", "Decisions", "Layout", "NeedsStore", "NotLowered", "Unlowered", "kind_of", "lower"]
