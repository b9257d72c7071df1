"""Decisions of actions about a lowering."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..tile import Kind, Move, Tiling
from ._loops import Layout


@dataclass(frozen=True)
class Decisions:
    """Decisions of actions about a lowering, other than graph rewrites."""

    native: frozenset[str] = frozenset()
    """Captured operations that torch computes."""
    store: frozenset[str] = frozenset()
    """Nodes that are stored though they could be fused."""
    ahead: frozenset[str] = frozenset()
    """Nodes that depend on weights only, computed when the weights change rather than in every call."""
    before: frozenset[str] = frozenset()
    """Nodes stored by a separate kernel, before all readers."""
    apart: bool = False
    """Whether every node runs on its own: no fusion at all."""
    loops: bool = False
    """Whether products are plain loops rather than contractions."""
    layout: Layout = field(default_factory=Layout)
    """How loops are arranged, the same for every kernel."""
    tilings: Mapping[str, Tiling] = field(default_factory=dict)
    """Product by its node's name → its tiling; products that are not named run as plain loops."""
    accumulate: Mapping[str, Kind] = field(default_factory=dict)
    """Sum by its node's name → its accumulator type; `float64` for floats that are not named."""
    moves: tuple[Move, ...] = ()
    """Changes of single loops, in order, after all else is arranged."""
