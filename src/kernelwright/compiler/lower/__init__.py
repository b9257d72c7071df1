"""Graph → Program: what is stored, what is fused, and how the loops run."""

from ._attention import attended_by
from ._block import NeedsStore, Unlowered, kind_of
from ._decisions import Decisions
from ._gradients import Differentiated, differentiated
from ._image import Convolved, convolved_by
from ._loops import Arranged, Layout
from ._lower import NotLowered, lower

__all__ = [
    "Arranged", "Convolved", "Decisions", "Differentiated", "Layout", "NeedsStore", "NotLowered", "Unlowered",
    "attended_by", "convolved_by", "differentiated", "kind_of", "lower",
]  # fmt: skip
