"""Stored nodes → one traversal kernel: loops, accumulators, values named once in the outermost possible block."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..graph import (
    RESERVED,
    Cat,
    Constant,
    Expand,
    Gather,
    Input,
    Node,
    Pad,
    Permute,
    Point,
    Ramp,
    Reduce,
    Reshape,
    Scan,
    Segment,
    Slice,
    Window,
    product,
    same,
)  # fmt: skip
from ..tile import (
    Call,
    Expression,
    Kind,
    Let,
    Literal,
    Load,
    Position,
    Result,
    Store,
    Variable,
    walk,
)  # fmt: skip
from ._block import Block, NeedsStore, kind_of
from ._elements import cat, constant, gather, point, ramp, typed
from ._index import (
    PARTS,
    Index,
    guarded,
    joined,
    through_expand,
    through_pad,
    through_permute,
    through_reshape,
    through_slice,
    through_window,
)  # fmt: skip
from ._reductions import reduce, scan
from ._segments import segment

_MOST_INLINED = 300
"""Expressions within one guard."""


@dataclass
class Builder:
    """Builds one kernel. `element` returns the value of a node at an index, emitting what it needs."""

    stored: Mapping[Node, str]
    """Nodes that are in a buffer, and its name."""
    splits: Mapping[str, Sequence[int]]
    """Axis → sizes of the loops that it runs as."""
    roots: frozenset[Node]
    """Nodes that this kernel computes."""
    accumulate: Mapping[str, Kind] = field(default_factory=dict)
    """Sum by its node's name → its accumulator type, if decided."""
    again: Collection[Node] | None = None
    """Reductions of few elements that independent loops may repeat; any, inside a product."""
    done: set[Node] = field(default_factory=set)
    """Roots whose store is emitted."""
    axes: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    @cached_property
    def buffers(self) -> frozenset[str]:
        """The names of all buffers."""
        return frozenset(self.stored.values())

    # Values --------------------------------------------------------------------------------------------

    def element(self, node: Node, index: Index, block: Block) -> Expression:
        """Return the value of one element, named in the outermost block that knows the index."""
        home = self.home(index, block)
        key = (id(node), index)
        if key in home.known:
            return home.known[key]
        if node in self.stored and node not in self.roots:
            found: Expression = Load(self.stored[node], index, kind_of(node.dtype))
        else:
            found = self._computed(node, index, home)
        if isinstance(found, Call | Load) and not _simple(node, found):
            found = self.let(node.name, found, home)
        home.known[key] = found
        wanted = node in self.roots and node in self.stored and node not in self.done
        if wanted and self._covers(node, index):
            self._store(node, index, found, home)
        return found

    def _covers(self, node: Node, index: Index) -> bool:
        """Whether the index runs over all elements exactly once: whole axes, each in one dimension."""
        used: list[str] = []
        for at, size in zip(index, node.shape, strict=True):
            axes = [e.axis for e in walk(at) if isinstance(e, Position)]
            if any(isinstance(e, Variable | Load | Result | Call) for e in walk(at)):
                return False
            whole = joined([(Position(a), self.axes[a]) for a in axes])
            if at != whole or not same(product([self.axes[a] for a in axes]), size):
                return False
            used += axes
        return len(set(used)) == len(used)

    def _store(self, node: Node, index: Index, value: Expression, home: Block) -> None:
        bound = {b.axis for b in home.chain() if b.axis}
        needed = {e.axis for at in index for e in walk(at) if isinstance(e, Position)}
        if bound != needed:
            return
        home.body.append(Store(self.stored[node], index, value))
        self.done.add(node)

    def home(self, index: Index, block: Block) -> Block:
        """Return the outermost block in which all that an index refers to is known."""
        needed, names = _referred(index)
        chain = block.chain()
        guard = max((place for place, b in enumerate(chain) if b.guard), default=0)
        axes, known = set[str](), set[str]()
        for place, candidate in enumerate(chain):
            axes.add(candidate.axis)
            known |= candidate.named
            if place >= guard and needed <= axes and names <= known:
                return candidate
        return block

    def let(self, hint: str, value: Expression, block: Block) -> Expression:
        """Name a value in a block."""
        name = self.fresh(hint)
        block.body.append(Let(name, value))
        block.named.add(name)
        return Variable(name, value.kind)

    def fresh(self, hint: str) -> str:
        """Make a name that no other value of the kernel has."""
        name, count = hint, 1
        while name in self.names or name in self.buffers or name in RESERVED:
            count += 1
            name = f"{hint}_v{count}"
        self.names.add(name)
        return name

    def loops(self, name: str, size: int, block: Block, *, ordered: bool = False) -> tuple[Expression, Block]:
        """Open the loops of an axis; returns its position and the innermost block."""
        parts = self.splits.get(name)
        if not parts:
            self.axes[name] = size
            return Position(name), Block(block, name, size, ordered)
        digits: list[tuple[Expression, int]] = []
        for number_, part in enumerate(parts):
            axis = f"{name}_{PARTS[number_]}"
            self.axes[axis] = part
            digits.append((Position(axis), part))
            block = Block(block, axis, part, ordered)
        return joined(digits), block

    def _computed(self, node: Node, index: Index, block: Block) -> Expression:
        match node:
            case Point():
                return point(self, node, index, block)
            case Constant(values=values):
                return constant(node, values, index)
            case Ramp():
                return ramp(node, index)
            case Reshape(source=source):
                return self.element(source, through_reshape(node, index, self.axes), block)
            case Permute(source=source):
                return self.element(source, through_permute(node, index), block)
            case Expand(source=source):
                return self.element(source, through_expand(node, index), block)
            case Slice(source=source):
                return self.element(source, through_slice(node, index), block)
            case Window(source=source):
                return self.element(source, through_window(node, index), block)
            case Pad(source=source, value=value):
                inside, conditions = through_pad(node, index)
                read = self.lazily if conditions else self.element
                other = Literal(typed(value, node.dtype), kind_of(node.dtype))
                return guarded(conditions, read(source, inside, block), other)
            case Cat():
                return cat(self, node, index, block)
            case Gather():
                return gather(self, node, index, block)
            case Reduce():
                return reduce(self, node, index, block)
            case Scan():
                return scan(self, node, index, block)
            case Segment():
                return segment(self, node, index, block)
            case Input():
                return Load(self.stored[node], index, kind_of(node.dtype))
            case _:
                raise NeedsStore(node)

    def lazily(self, node: Node, index: Index, block: Block) -> Expression:
        """Return a value as one expression, nothing named outside: what may only be computed under a guard."""
        if node in self.stored and node not in self.roots:
            return Load(self.stored[node], index, kind_of(node.dtype))
        shadow = Block(block, guard=True)
        before = set(self.names), set(self.done)
        found = self._computed(node, index, shadow)
        lets = {s.name: s.value for s in shadow.body if isinstance(s, Let)}
        if len(lets) != len(shadow.body):
            self.names, self.done = before
            raise NeedsStore(node)
        self.names -= set(lets)
        whole = _inlined(found, lets)
        if sum(1 for _ in walk(whole)) > _MOST_INLINED:
            raise NeedsStore(node)
        return whole


def _referred(index: Index) -> tuple[set[str], set[str]]:
    """Name the axes that an index runs along, and the values and accumulators in it."""
    axes, names = set[str](), set[str]()
    for at in index:
        for e in walk(at):
            match e:
                case Position(axis):
                    axes.add(axis)
                case Variable(name) | Result(name):
                    names.add(name)
    return axes, names


def _simple(node: Node, found: Expression) -> bool:
    """Whether a value needs no name: views, constants."""
    return isinstance(node, Constant | Ramp) or isinstance(found, Literal)


def _inlined(expression: Expression, lets: Mapping[str, Expression]) -> Expression:
    from ..tile import substitute

    def by(e: Expression) -> Expression | None:
        return _inlined(lets[e.name], lets) if isinstance(e, Variable) and e.name in lets else None

    return substitute(expression, by)
