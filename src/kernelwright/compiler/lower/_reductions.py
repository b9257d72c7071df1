"""One element of a reduction or a scan: an accumulator, and the loops that fold into it."""

from __future__ import annotations

from ..graph import Reduce, Scan, product
from ..tile import Begin, Call, Expression, Kind, Literal, Position, Result, Update, number, walk
from ._block import Block, Lowering, NeedsStore, kind_of
from ._index import Index, joined

_WIDE = ("sum", "prod")
MOST_REPEATED = 32
"""Most elements, over all repetitions, of a reduction that is recomputed: about the cost of storing its result."""
_MOST_IN_PRODUCT = 400
"""The same inside a product, whose factors are stored whole if that is better."""


def reduce(b: Lowering, node: Reduce, index: Index, block: Block) -> Expression:
    """Begin an accumulator and fold everything into it, in this block."""
    _check_worth(b, node, index, block)
    name = b.fresh(node.name)
    kind = kind_of(node.source.dtype)
    wide = _kept_in(b, node, kind)
    if node.monoid in ("sum", "prod") and kind == "bool":
        wide = "int64"
    if node.monoid in ("any", "all"):
        wide = "bool"
    block.body.append(Begin(name, node.monoid, wide))
    block.named.add(name)
    inner, at, kept = block, list[Expression](), iter(index)
    for d, size in enumerate(node.source.shape):
        if d in node.dims:
            position, inner = b.loops(f"{name}_{d}", size, inner)
            at.append(position)
        else:
            at.append(next(kept))
    value = b.element(node.source, tuple(at), inner)
    if value.kind != wide and node.monoid in ("any", "all", "sum", "prod"):
        value = Call("cast", (value,), (), wide)
    where = joined([(at[d], node.source.shape[d]) for d in node.dims]) if "arg" in node.monoid else number(0)
    inner.body.append(Update(name, value, where))
    while inner is not block:
        inner.close()
        assert inner.parent is not None
        inner = inner.parent
    return _finished(b, node, name, wide, block)


def _kept_in(b: Lowering, node: Reduce | Scan, kind: Kind) -> Kind:
    """Return the accumulator type of a sum or product of floats: double precision unless decided otherwise."""
    sums = node.monoid in _WIDE and kind == "float32"
    return b.accumulate.get(node.name, "float64") if sums else kind


def _check_worth(b: Lowering, node: Reduce, index: Index, block: Block) -> None:
    """Raise `NeedsStore` if outer loops on which the result does not depend would repeat it."""
    needed = {e.axis for at in index for e in walk(at) if isinstance(e, Position)}
    folded = product([node.source.shape[d] for d in node.dims])
    repeated = product([around.size for around in block.chain() if around.axis and around.axis not in needed])
    cheap = int(repeated) * int(folded) <= (_MOST_IN_PRODUCT if b.again is None else MOST_REPEATED)
    if int(repeated) > 1 and not (cheap and (b.again is None or node in b.again)):
        raise NeedsStore(node, first=frozenset(needed), cheap=cheap)


def _finished(b: Lowering, node: Reduce, name: str, wide: Kind, block: Block) -> Expression:
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
    return b.let(f"{node.name}_result", found, block)


def scan(b: Lowering, node: Scan, index: Index, block: Block) -> Expression:
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
    wide = _kept_in(b, node, kind)
    name = b.fresh(f"{node.name}_fold")
    block.parent.body.append(Begin(name, node.monoid, wide))
    block.parent.named.add(name)
    value = b.element(node.source, index, block)
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
    return b.let(f"{node.name}_here", found, block)


def _total(top: Expression, total: Expression, kind: Kind) -> Expression:
    """Return a sum of powers relative to the largest; NaN if the largest is infinite."""
    endless = Call("isinf", (top,), (), "bool")
    return Call("where", (endless, Call("sub", (top, top), (), top.kind), total), (), kind)


def _real(count: int) -> Expression:
    return Call("cast", (number(count),), (), "float32")
