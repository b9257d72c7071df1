"""A grouped GEMM → one kernel: for every type, a dense product of its rows."""

from collections.abc import Mapping

from ..graph import Node, Size, TypedLinear, values_of
from ..tile import (
    Axis,
    Contraction,
    Expression,
    Kernel,
    Let,
    Load,
    Loop,
    Position,
    Store,
    Tiling,
    Variable,
    arith,
    number,
)
from ._block import Block, NeedsStore
from ._builder import Builder
from ._index import Index, NeedsSplit

_MANY = 16
"""Types from which each gets a thread; fewer share the threads of each product."""


def build_typed(node: TypedLinear, stored: Mapping[Node, str], tiling: Tiling) -> Kernel:
    """Build the loop over types: rows are read in sorted order, multiplied, and stored at their original positions.

    Raises:
        NeedsStore: the order is not stored, or a factor has no form at a computed row.
    """
    for needed in (node.order, node.offsets):
        if needed not in stored:
            raise NeedsStore(needed)
    name, order, offsets = (stored[n] for n in (node, node.order, node.offsets))
    kind, row, inner, column = (Position(f"{name}_{role}") for role in ("type", "row", "inner", "column"))
    first, count = Variable(f"{name}_first", "int64"), _count(node, f"{name}_count")
    at = Load(order, (arith("+", first, row),), "int64")
    sizes = {kind.axis: node.weights.shape[0], inner.axis: node.source.shape[1], column.axis: node.shape[1]}
    left = _factor(node.source, (at, inner), stored, sizes)
    right = _factor(node.weights, (kind, inner, column), stored, sizes)
    here, total = Variable(f"{name}_at", "int64"), Variable(f"{name}_sum")
    product = Contraction(
        name=name, batch=(), rows=(Axis(row.axis, count),), columns=(Axis(column.axis, node.shape[1]),),
        inner=(Axis(inner.axis, node.source.shape[1]),), left=left, right=right, accumulator=total.name,
        epilogue=(Let(here.name, at), Store(name, (here, column), total)), tiling=tiling,
    )  # fmt: skip
    ends = (Load(offsets, (place,), "int64") for place in (kind, arith("+", kind, number(1))))
    begin, end = ends
    body = (Let(first.name, begin), Let(str(count), arith("-", end, first)), product)
    types = node.weights.shape[0]
    loop = Loop(kind.axis, number(types), body, parallel=int(types) >= _MANY)
    return Kernel(f"{name}_kernel", (loop,), f"{name}: the rows of every type times its matrix")


def _count(node: TypedLinear, name: str) -> Size:
    """Return the rows of a type, a number computed in the kernel; an even share of the rows is expected."""
    types = node.weights.shape[0]
    workloads = max(len(s.values) if isinstance(s, Size) else 1 for s in (*node.shape, *node.weights.shape))
    pairs = zip(values_of(node.shape[0], workloads), values_of(types, workloads), strict=True)
    return Size(name, [max(1, rows // max(1, each)) for rows, each in pairs])


def _factor(node: Node, index: Index, stored: Mapping[Node, str], sizes: Mapping[str, int]) -> Expression:
    builder = Builder(stored, {}, frozenset(), axes=dict(sizes))
    try:
        return builder.lazily(node, index, Block())
    except NeedsSplit:
        raise NeedsStore(node) from None
