"""One element of a node without loops: operators, constants, positions, parts, lookups."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import MOST_TABLE, Cat, Constant, Gather, Node, Number, Point, Ramp, Real, Size
from ..tile import Call, Expression, Kind, Literal, Variable, arith, number
from ._block import Block, Lowering, Unlowered, kind_of
from ._index import Index, broadcast, compare, guarded, joined


def point(b: Lowering, node: Point, index: Index, block: Block) -> Expression:
    """Apply the operator to the operands' elements."""
    kind = kind_of(node.dtype)
    inner = "bool" if kind == "bool" else kind
    args: list[Expression | None] = []
    operands = [a for a in node.args if isinstance(a, Node)]
    wide = _widest([kind_of(a.dtype) for a in operands]) if kind == "bool" else inner
    for a in node.args:
        if isinstance(a, Node):
            args.append(b.element(a, broadcast(index, a.shape, node.shape), block))
        else:
            args.append(None if a is None else _literal(a, wide))
    if node.op == "cast":
        (value,) = args
        assert value is not None
        return value if value.kind == kind else Call("cast", (value,), (), kind)
    fixed = [_same_kind(node.op, place, a, wide) for place, a in enumerate(args)]
    return Call(node.op, tuple(fixed), node.options, kind)


def _same_kind(op: str, place: int, arg: Expression | None, wide: Kind) -> Expression | None:
    """Convert an operand to what the operation computes in; conditions and masks stay."""
    if arg is None or arg.kind == wide or (op == "where" and place == 0):
        return arg
    if op.startswith("logical_"):
        return arg
    if isinstance(arg, Literal):
        return Literal(arg.value, wide)
    return Call("cast", (arg,), (), wide)


def constant(node: Constant, values: tuple[Number, ...], index: Index) -> Expression:
    """Return the number, or choose it from a small table by position."""
    kind = kind_of(node.dtype)
    if isinstance(values[0], Size | Real):
        return _literal(values[0], kind)
    if len(values) == 1:
        return Literal(typed(values[0], node.dtype), kind)
    if len(values) > MOST_TABLE:
        raise Unlowered("a large table of constants")
    flat = joined(list(zip(index, node.shape, strict=True)))
    found: Expression = Literal(typed(values[-1], node.dtype), kind)
    for place in range(len(values) - 2, -1, -1):
        here = Literal(typed(values[place], node.dtype), kind)
        found = Call("where", (compare("eq", flat, number(place)), here, found), (), kind)
    return found


def ramp(node: Ramp, index: Index) -> Expression:
    """Compute the number from the position."""
    kind = kind_of(node.dtype)
    at: Expression = index[node.dim]
    if kind == "int64":
        return arith("+", arith("*", at, number(int(node.step))), number(int(node.start)))
    at = Call("cast", (at,), (), kind)
    scaled = at if node.step == 1 else Call("mul", (at, Literal(node.step, kind)), (), kind)
    return scaled if node.start == 0 else Call("add", (scaled, Literal(node.start, kind)), (), kind)


def cat(b: Lowering, node: Cat, index: Index, block: Block) -> Expression:
    """Choose the part by position; only the chosen one is read."""
    starts: list[int] = [0]
    for source in node.sources:
        starts.append(starts[-1] + source.shape[node.dim])
    found: Expression | None = None
    for source, start in reversed(list(zip(node.sources, starts, strict=False))):
        at = list(index)
        at[node.dim] = arith("-", index[node.dim], number(start))
        value = b.lazily(source, tuple(at), block)
        end = number(start + source.shape[node.dim])
        found = value if found is None else guarded([compare("lt", index[node.dim], end)], value, found)
    assert found is not None
    return found


def gather(b: Lowering, node: Gather, index: Index, block: Block) -> Expression:
    """Read at a computed position; a negative one counts from the end."""
    size = number(node.source.shape[node.dim])
    if node.aligned:
        at, rest = b.element(node.index, index, block), list(index)
    else:
        rank = len(node.index.shape)
        at = b.element(node.index, index[node.dim : node.dim + rank], block)
        rest = [*index[: node.dim], number(0), *index[node.dim + rank :]]
    if not isinstance(at, Variable):
        at = b.let(f"{node.name}_at", at, b.home((at,), block))
    negative = compare("lt", at, number(0))
    rest[node.dim] = Call("where", (negative, arith("+", at, size), at), (), "int64")
    return b.element(node.source, tuple(rest), block)


def _literal(value: Number, kind: Kind) -> Expression:
    if isinstance(value, Size):
        return Call("cast", (number(value),), (), kind) if kind != "int64" else number(value)
    if isinstance(value, Real):
        return _computed(value, kind)
    if isinstance(value, bool):
        return Literal(value, "bool")
    return Literal(float(value) if kind.startswith("float") else value, kind)


def _computed(value: Real, kind: Kind) -> Expression:
    """Compute `factor * size ** power`."""
    size: Expression = Call("cast", (number(Size(value.size, value.sizes)),), (), kind)
    if abs(value.power) < 1:
        size = Call("sqrt", (size,), (), kind)
    op = "div" if value.power < 0 else "mul"
    return Call(op, (Literal(value.factor, kind), size), (), kind)


def typed(value: Number, dtype: str) -> Number:
    """Return the number as Python's type of what the dtype computes in."""
    if dtype == "bool":
        return bool(value)
    return float(value) if kind_of(dtype).startswith("float") else int(value)


def _widest(kinds: Sequence[Kind]) -> Kind:
    order = ("bool", "int64", "float32", "float64")
    return max(kinds, key=order.index, default="float32")
