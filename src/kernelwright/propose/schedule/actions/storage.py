"""What is stored and what is computed where it is used."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Constant, Input, Point, Reduce
from ._state import State

_COSTLY = frozenset({
    "exp", "log", "sigmoid", "tanh", "erf", "gelu", "silu", "mish", "softplus", "pow", "sin", "cos", "expm1", "log1p",
})  # fmt: skip


@dataclass(frozen=True)
class Store:
    """Store a value that several users read, instead of computing it again for each: traffic for operations."""

    name = "store"

    def sites(self, state: State) -> Iterator[str]:
        """Yield costly values with several users, and reductions, that are not stored yet."""
        for node in state.graph.nodes:
            known = node.name in state.decisions.store or isinstance(node, Input | Constant)
            costly = isinstance(node, Reduce) or (isinstance(node, Point) and node.op in _COSTLY)
            if not known and costly and len(state.graph.users[node]) > 1:
                yield node.name

    def apply(self, state: State, site: str) -> State:
        """Store the value."""
        return replace(state, decisions=replace(state.decisions, store=state.decisions.store | {site}))


@dataclass(frozen=True)
class Fuse:
    """Compute a stored value where it is used: the inverse of `store`."""

    name = "fuse"

    def sites(self, state: State) -> Iterator[str]:
        """Yield what `store` stored."""
        yield from sorted(state.decisions.store)

    def apply(self, state: State, site: str) -> State:
        """Store the value no more."""
        return replace(state, decisions=replace(state.decisions, store=state.decisions.store - {site}))
