"""Peak: the highest rate a device reaches for one resource."""

from typing import Literal

from ..records import Record


class Peak(Record):
    """One peak rate."""

    value: float
    """Units a second."""
    unit: Literal["bytes", "flop", "launches", "elements"]
    """What is counted."""
    source: str
    """A document with its table, or how it was measured."""
