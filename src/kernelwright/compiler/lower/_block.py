"""Blocks of statements that a kernel is built from, and the requests that building one may raise."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..graph import Node
from ..tile import Expression, Kind, Loop, Statement, number
from ._index import Index

_FLOATS = ("float32", "float16", "bfloat16")


class NeedsStore(Exception):
    """A value cannot be computed where it is used without being recomputed many times."""

    def __init__(
        self, node: Node, first: frozenset[str] = frozenset(), last: str = "", *, cheap: bool = False
    ) -> None:
        super().__init__(node.name)
        self.node = node
        self.first = first
        """Loops over these axes, outside all others, would solve it."""
        self.last = last
        """A loop over this axis, inside all others, would solve it."""
        self.cheap = cheap
        """Cheap enough to be recomputed if no loop order works."""


class Unlowered(Exception):
    """The node has no form in tiles."""


def kind_of(dtype: str) -> Kind:
    """Return what elements of a dtype compute in."""
    if dtype in _FLOATS:
        return "float32"
    if dtype in ("bool", "float64"):
        return dtype
    if dtype in ("int64", "int32", "int16", "int8", "uint8"):
        return "int64"
    raise Unlowered(f"dtype {dtype}")


@dataclass(eq=False)
class Block:
    """The body of a loop while it is built."""

    parent: "Block | None" = None
    axis: str = ""
    size: int = 1
    ordered: bool = False
    bounds: tuple[Expression, Expression] | None = None
    """Where the loop begins and ends, if that is computed from data; `size` is what to expect then."""
    guard: bool = False
    """Runs under a condition: nothing in it may be computed outside."""
    body: list[Statement] = field(default_factory=list)
    known: dict[tuple[int, Index], Expression] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def chain(self) -> "list[Block]":
        """Return the blocks around this one and itself, outermost first."""
        return [*(self.parent.chain() if self.parent else []), self]

    def close(self) -> None:
        """Add the loop to its parent block."""
        assert self.parent is not None
        begin, end = self.bounds or (number(0), number(self.size))
        expected_extent = int(self.size) if self.bounds else 0
        loop = Loop(
            self.axis, end, tuple(self.body), begin, ordered=self.ordered, expected_extent=expected_extent
        )
        self.parent.body.append(loop)


class Lowering(Protocol):
    """What the lowering of one node may ask of the kernel that is built; `Builder` does it."""

    accumulate: Mapping[str, Kind]
    again: Collection[Node] | None

    def element(self, node: Node, index: Index, block: Block) -> Expression:
        """Return the value of one element, named in the outermost block that knows the index."""
        ...

    def lazily(self, node: Node, index: Index, block: Block) -> Expression:
        """Return a value as one expression, nothing named outside."""
        ...

    def home(self, index: Index, block: Block) -> Block:
        """Return the outermost block in which all that an index refers to is known."""
        ...

    def let(self, hint: str, value: Expression, block: Block) -> Expression:
        """Name a value in a block."""
        ...

    def fresh(self, hint: str) -> str:
        """Make a name that no other value of the kernel has."""
        ...

    def loops(self, name: str, size: int, block: Block, *, ordered: bool = False) -> tuple[Expression, Block]:
        """Open the loops of an axis; returns its position and the innermost block."""
        ...
