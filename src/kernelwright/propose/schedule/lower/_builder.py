"""Stored nodes → one traversal kernel: loops, accumulators, values named once at the outermost place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..graph import (
    RESERVED,
    Cat,
    Constant,
    Expand,
    Gather,
    Input,
    Node,
    Number,
    Pad,
    Permute,
    Point,
    Ramp,
    Reduce,
    Reshape,
    Scan,
    Size,
    Slice,
    Window,
    product,
    same,
)  # fmt: skip
from ..tile import (
    Begin,
    Call,
    Expression,
    Kind,
    Let,
    Literal,
    Load,
    Loop,
    Position,
    Result,
    Statement,
    Store,
    Update,
    Variable,
    arith,
    number,
    walk,
)  # fmt: skip
from ._index import (
    Index,
    broadcast,
    compare,
    guarded,
    joined,
    through_expand,
    through_pad,
    through_permute,
    through_reshape,
    through_slice,
    through_window,
)  # fmt: skip

_FLOATS = ("float32", "float16", "bfloat16")
_WIDE = ("sum", "prod")
_MOST_RECOMPUTED = 64
"""Elements of a reduction that may be folded again rather than stored."""
_MOST_TABLE = 16
_MOST_INLINED = 300
"""Expressions within one guard."""


class NeedsStore(Exception):
    """A value cannot be computed where it is used without computing it again and again."""

    def __init__(self, node: Node, first: frozenset[str] = frozenset(), last: str = "") -> None:
        super().__init__(node.name)
        self.node = node
        self.first = first
        """Loops over these axes, outside all others, would do."""
        self.last = last
        """A loop over this axis, inside all others, would do."""


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
    guard: bool = False
    """Runs under a condition: nothing in it may be computed outside."""
    body: list[Statement] = field(default_factory=list)
    known: dict[tuple[int, Index], Expression] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def chain(self) -> "list[Block]":
        """Return the blocks around this one and itself, outermost first."""
        return [*(self.parent.chain() if self.parent else []), self]

    def close(self) -> None:
        """Put the loop into the block around it."""
        assert self.parent is not None
        loop = Loop(self.axis, number(self.size), tuple(self.body), ordered=self.ordered)
        self.parent.body.append(loop)


@dataclass
class Builder:
    """Builds one kernel. `element` gives the value of a node at an index, emitting what it needs."""

    stored: Mapping[Node, str]
    """Nodes that lie in a buffer, and its name."""
    splits: Mapping[str, Sequence[int]]
    """Axis → sizes of the loops that it runs as."""
    roots: frozenset[Node]
    """Nodes that this kernel computes."""
    done: set[Node] = field(default_factory=set)
    """Roots whose store is emitted."""
    axes: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

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
            found = self._let(node.name, found, home)
        home.known[key] = found
        wanted = node in self.roots and node in self.stored and node not in self.done
        if wanted and self._covers(node, index):
            self._store(node, index, found, home)
        return found

    def _covers(self, node: Node, index: Index) -> bool:
        """Tell whether the index runs over all elements exactly once: whole axes, each in one dimension."""
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
        needed = {e.axis for at in index for e in walk(at) if isinstance(e, Position)}
        names = {
            n for at in index for e in walk(at) for n in [getattr(e, "name", None)] if isinstance(e, Variable)
        }
        names |= {e.accumulator for at in index for e in walk(at) if isinstance(e, Result)}
        chain = block.chain()
        guards = [place for place, b in enumerate(chain) if b.guard]
        for place, candidate in enumerate(chain):
            if guards and place < guards[-1]:
                continue
            inside = chain[: place + 1]
            axes = {b.axis for b in inside}
            known = {n for b in inside for n in b.named}
            if needed <= axes and names <= known:
                return candidate
        return block

    def _let(self, hint: str, value: Expression, block: Block) -> Expression:
        name = self.fresh(hint)
        block.body.append(Let(name, value))
        block.named.add(name)
        return Variable(name, value.kind)

    def fresh(self, hint: str) -> str:
        """Make a name that no other value of the kernel has."""
        name, count = hint, 1
        while name in self.names or name in self.stored.values() or name in RESERVED:
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
            axis = f"{name}_{'abcdefgh'[number_]}"
            self.axes[axis] = part
            digits.append((Position(axis), part))
            block = Block(block, axis, part, ordered)
        return joined(digits), block

    def _computed(self, node: Node, index: Index, block: Block) -> Expression:
        match node:
            case Point():
                return self._point(node, index, block)
            case Constant(values=values):
                return self._constant(node, values, index)
            case Ramp():
                return self._ramp(node, index)
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
                other = Literal(_typed(value, node.dtype), kind_of(node.dtype))
                return guarded(conditions, read(source, inside, block), other)
            case Cat():
                return self._cat(node, index, block)
            case Gather():
                return self._gather(node, index, block)
            case Reduce():
                return self._reduce(node, index, block)
            case Scan():
                return self._scan(node, index, block)
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

    def _point(self, node: Point, index: Index, block: Block) -> Expression:
        kind = kind_of(node.dtype)
        inner = "bool" if kind == "bool" else kind
        args: list[Expression | None] = []
        operands = [a for a in node.args if isinstance(a, Node)]
        wide = _widest([kind_of(a.dtype) for a in operands]) if kind == "bool" else inner
        for a in node.args:
            if isinstance(a, Node):
                args.append(self.element(a, broadcast(index, a.shape, node.shape), block))
            else:
                args.append(None if a is None else _literal(a, wide))
        if node.op == "cast":
            (value,) = args
            assert value is not None
            return value if value.kind == kind else Call("cast", (value,), (), kind)
        fixed = [self._same_kind(node.op, place, a, wide) for place, a in enumerate(args)]
        return Call(node.op, tuple(fixed), node.options, kind)

    @staticmethod
    def _same_kind(op: str, place: int, arg: Expression | None, wide: Kind) -> Expression | None:
        """Convert an operand to what the operation computes in; conditions and masks stay."""
        if arg is None or arg.kind == wide or (op == "where" and place == 0):
            return arg
        if op.startswith(("logical_", "bitwise_")):
            return arg
        if isinstance(arg, Literal):
            return Literal(arg.value, wide)
        return Call("cast", (arg,), (), wide)

    def _constant(self, node: Constant, values: tuple[Number, ...], index: Index) -> Expression:
        kind = kind_of(node.dtype)
        if isinstance(values[0], Size):
            return _literal(values[0], kind)
        if len(values) == 1:
            return Literal(_typed(values[0], node.dtype), kind)
        if len(values) > _MOST_TABLE:
            raise Unlowered("a large table of constants")
        flat = joined(list(zip(index, node.shape, strict=True)))
        found: Expression = Literal(_typed(values[-1], node.dtype), kind)
        for place in range(len(values) - 2, -1, -1):
            here = Literal(_typed(values[place], node.dtype), kind)
            found = Call("where", (compare("eq", flat, number(place)), here, found), (), kind)
        return found

    def _ramp(self, node: Ramp, index: Index) -> Expression:
        kind = kind_of(node.dtype)
        at: Expression = index[node.dim]
        if kind == "int64":
            return arith("+", arith("*", at, number(int(node.step))), number(int(node.start)))
        at = Call("cast", (at,), (), kind)
        scaled = at if node.step == 1 else Call("mul", (at, Literal(node.step, kind)), (), kind)
        return scaled if node.start == 0 else Call("add", (scaled, Literal(node.start, kind)), (), kind)

    def _cat(self, node: Cat, index: Index, block: Block) -> Expression:
        starts: list[int] = [0]
        for source in node.sources:
            starts.append(starts[-1] + source.shape[node.dim])
        found: Expression | None = None
        for source, start in reversed(list(zip(node.sources, starts, strict=False))):
            at = list(index)
            at[node.dim] = arith("-", index[node.dim], number(start))
            value = self.lazily(source, tuple(at), block)
            end = number(start + source.shape[node.dim])
            found = value if found is None else guarded([compare("lt", index[node.dim], end)], value, found)
        assert found is not None
        return found

    def _gather(self, node: Gather, index: Index, block: Block) -> Expression:
        size = number(node.source.shape[node.dim])
        if node.aligned:
            at, rest = self.element(node.index, index, block), list(index)
        else:
            rank = len(node.index.shape)
            at = self.element(node.index, index[node.dim : node.dim + rank], block)
            rest = [*index[: node.dim], number(0), *index[node.dim + rank :]]
        if not isinstance(at, Variable):
            at = self._let(f"{node.name}_at", at, self.home((at,), block))
        negative = compare("lt", at, number(0))
        rest[node.dim] = Call("where", (negative, arith("+", at, size), at), (), "int64")
        return self.element(node.source, tuple(rest), block)

    # Reductions ----------------------------------------------------------------------------------------

    def _reduce(self, node: Reduce, index: Index, block: Block) -> Expression:
        self._check_worth(node, index, block)
        name = self.fresh(node.name)
        kind = kind_of(node.source.dtype)
        wide: Kind = "float64" if node.monoid in _WIDE and kind == "float32" else kind
        if node.monoid in ("sum", "prod") and kind == "bool":
            wide = "int64"
        if node.monoid in ("any", "all"):
            wide = "bool"
        block.body.append(Begin(name, node.monoid, wide))
        block.named.add(name)
        inner, at, kept = block, list[Expression](), iter(index)
        for d, size in enumerate(node.source.shape):
            if d in node.dims:
                position, inner = self.loops(f"{name}_{d}", size, inner)
                at.append(position)
            else:
                at.append(next(kept))
        value = self.element(node.source, tuple(at), inner)
        if value.kind != wide and node.monoid in ("any", "all", "sum", "prod"):
            value = Call("cast", (value,), (), wide)
        where = (
            joined([(at[d], node.source.shape[d]) for d in node.dims]) if "arg" in node.monoid else number(0)
        )
        inner.body.append(Update(name, value, where))
        while inner is not block:
            inner.close()
            assert inner.parent is not None
            inner = inner.parent
        return self._finished(node, name, wide, block)

    def _check_worth(self, node: Reduce, index: Index, block: Block) -> None:
        """Raise `NeedsStore` where loops around, on which the result does not depend, would repeat it."""
        needed = {e.axis for at in index for e in walk(at) if isinstance(e, Position)}
        idle = [b for b in block.chain() if b.axis and b.axis not in needed]
        folded = product([node.source.shape[d] for d in node.dims])
        repeated = product([b.size for b in idle])
        if int(repeated) > 1 and (int(folded) > _MOST_RECOMPUTED or int(repeated) > _MOST_RECOMPUTED):
            raise NeedsStore(node, first=frozenset(needed))

    def _finished(self, node: Reduce, name: str, wide: Kind, block: Block) -> Expression:
        kind = kind_of(node.dtype)
        match node.monoid:
            case "argmax" | "argmin":
                found: Expression = Result(name, "index", "int64")
            case "variance":
                count = product([node.source.shape[d] for d in node.dims])
                rest = Call("maximum", (Literal(0.0), Call("sub", (_real(count), Literal(node.correction)))))
                found = Call("div", (Result(name, "squares", wide), rest), (), kind)
            case "logsumexp":
                top = Result(name, "top", wide)
                total = Call("log", (Result(name, "total", wide),), (), wide)
                endless = Call("isinf", (top,), (), "bool")
                found = Call("where", (endless, top, Call("add", (top, total), (), wide)), (), kind)
            case "sumexp":
                found = _total(Result(name, "top", wide), Result(name, "total", wide), kind)
            case _:
                found = Result(name, "value", wide)
        if found.kind != kind:
            found = Call("cast", (found,), (), kind)
        return self._let(f"{node.name}_result", found, block)

    def _scan(self, node: Scan, index: Index, block: Block) -> Expression:
        """Fold along an ordered loop that is open, begun in the block around it."""
        at = index[node.dim]
        if not isinstance(at, Position) or block.guard:
            raise NeedsStore(node)
        if block.axis != at.axis or not block.ordered:
            raise NeedsStore(node, last=at.axis)
        others = {
            e.axis for d, e in enumerate(index) if d != node.dim for e in walk(e) if isinstance(e, Position)
        }
        assert block.parent is not None
        if at.axis in others or not others <= {b.axis for b in block.parent.chain()}:
            raise NeedsStore(node)
        kind = kind_of(node.dtype)
        wide: Kind = "float64" if node.monoid in _WIDE and kind == "float32" else kind
        name = self.fresh(f"{node.name}_fold")
        block.parent.body.append(Begin(name, node.monoid, wide))
        block.parent.named.add(name)
        value = self.element(node.source, index, block)
        if value.kind != wide and node.monoid in _WIDE:
            value = Call("cast", (value,), (), wide)
        block.body.append(Update(name, value))
        if node.monoid == "logsumexp":
            total = Call("log", (Result(name, "total", wide),), (), wide)
            found: Expression = Call("add", (Result(name, "top", wide), total), (), wide)
        else:
            found = Result(name, "value", wide)
        if wide != kind:
            found = Call("cast", (found,), (), kind)
        return self._let(f"{node.name}_here", found, block)


def _total(top: Expression, total: Expression, kind: Kind) -> Expression:
    """Return a sum of powers relative to the largest; not a number where the largest is infinite."""
    endless = Call("isinf", (top,), (), "bool")
    return Call("where", (endless, Call("sub", (top, top), (), top.kind), total), (), kind)


def _literal(value: Number, kind: Kind) -> Expression:
    if isinstance(value, Size):
        return Call("cast", (number(value),), (), kind) if kind != "int64" else number(value)
    if isinstance(value, bool):
        return Literal(value, "bool")
    return Literal(float(value) if kind.startswith("float") else value, kind)


def _real(count: int) -> Expression:
    return Call("cast", (number(count),), (), "float32")


def _typed(value: Number, dtype: str) -> Number:
    if dtype == "bool":
        return bool(value)
    return float(value) if kind_of(dtype).startswith("float") else int(value)


def _widest(kinds: Sequence[Kind]) -> Kind:
    order = ("bool", "int64", "float32", "float64")
    return max(kinds, key=order.index, default="float32")


def _simple(node: Node, found: Expression) -> bool:
    """Tell whether a value is not worth a name: views, constants."""
    return isinstance(node, Constant | Ramp) or isinstance(found, Literal)


def _inlined(expression: Expression, lets: Mapping[str, Expression]) -> Expression:
    from ..tile import substitute

    def by(e: Expression) -> Expression | None:
        return _inlined(lets[e.name], lets) if isinstance(e, Variable) and e.name in lets else None

    return substitute(expression, by)
