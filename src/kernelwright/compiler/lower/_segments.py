"""Segments: positions sorted by them, and one element of what they are combined to."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph import Node, Order, Segment
from ..tile import (
    Begin,
    Buffer,
    Call,
    Expression,
    Kernel,
    Kind,
    Let,
    Load,
    Loop,
    Position,
    Result,
    Row,
    Store,
    Update,
    Variable,
    arith,
    number,
)
from ._block import Block, Lowering, NeedsStore, kind_of
from ._index import Index

_JOINED = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


def segment(b: Lowering, node: Segment, index: Index, block: Block) -> Expression:
    """Combine the updates of a segment, found by their order, with the base.

    Raises:
        NeedsStore: the element would be computed more than once.
    """
    axes = [at.axis for at in index if isinstance(at, Position)]
    around = {inner.axis for inner in block.chain() if inner.axis}
    if len(axes) != len(index) or len(set(axes)) < len(axes) or around - set(axes) or block.guard:
        raise NeedsStore(node)
    kind = kind_of(node.dtype)
    wide: Kind = "float64" if kind == "float32" and node.combine in ("sum", "prod") else kind
    name = b.fresh(f"{node.name}_all")
    first, last = (
        b.element(node.offsets, (at,), block) for at in (index[0], arith("+", index[0], number(1)))
    )
    block.body.append(Begin(name, node.combine, wide))
    block.named.add(name)
    axis = b.fresh(f"{node.name}_at")
    size = max(1, int(node.updates.shape[0]) // max(1, int(node.shape[0])))
    inner = Block(block, axis, size, bounds=(first, last))
    row = b.element(node.order, (Position(axis),), inner)
    value = b.element(node.updates, (row, *index[1:]), inner)
    inner.body.append(Update(name, value if value.kind == wide else Call("cast", (value,), (), wide)))
    inner.close()
    found: Expression = Result(name, "value", wide)
    found = found if wide == kind else Call("cast", (found,), (), kind)
    base = b.element(node.base, index, block)
    return b.let(f"{node.name}_joined", Call(_JOINED[node.combine], (base, found), (), kind), block)


def build_order(node: Order, stored: Mapping[Node, str]) -> tuple[Kernel, Buffer]:
    """Build the counting sort: one pass over positions, each written at its segment's next free position."""
    name, keys, offsets = (stored[n] for n in (node, node.keys, node.offsets))
    count = node.offsets.shape[0]
    room = Buffer(f"{name}_next", "int64", (count,), "row")
    here, key, place = Position("position"), Variable("key", "int64"), Variable("place", "int64")
    copied = Load(offsets, (Position("segment"),), "int64")
    copy = Loop("segment", number(count), (Store(room.name, (Position("segment"),), copied),))
    put = Loop(
        "position", number(node.shape[0]), (
            Let("key", Load(keys, (here,), "int64")),
            Let("place", Load(room.name, (key,), "int64")),
            Store(name, (place,), here),
            Store(room.name, (key,), arith("+", place, number(1))),
        ), ordered=True,
    )  # fmt: skip
    body = (Row(room.name), copy, put)
    return Kernel(f"{name}_kernel", body, f"{name}: positions sorted by segment, one after another"), room
