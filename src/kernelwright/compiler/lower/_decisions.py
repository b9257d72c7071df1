"""What actions decide about a lowering."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..tile import Kind, Move, Tiling
from ._loops import Layout


@dataclass(frozen=True)
class Decisions:
    """What actions decide about a lowering, beyond rewriting the graph."""

    native: frozenset[str] = frozenset()
    """Captured operations that torch computes."""
    store: frozenset[str] = frozenset()
    """Nodes that are stored though they could be fused."""
    ahead: frozenset[str] = frozenset()
    """Nodes that follow from weights alone, and are computed when the weights change rather than in every call."""
    before: frozenset[str] = frozenset()
    """Nodes that a kernel of their own stores, before all that reads them."""
    apart: bool = False
    """Whether every node runs on its own: no fusion at all."""
    loops: bool = False
    """Whether products are plain loops rather than contractions."""
    layout: Layout = field(default_factory=Layout)
    """How loops are arranged, kernel by kernel alike."""
    tilings: Mapping[str, Tiling] = field(default_factory=dict)
    """Product by its node's name → how its loops run; those that are not named run as plain loops."""
    accumulate: Mapping[str, Kind] = field(default_factory=dict)
    """Sum by its node's name → what it is kept in; those of floats that are not named in `float64`."""
    moves: tuple[Move, ...] = ()
    """Changes of single loops, in order, after all else is arranged."""
