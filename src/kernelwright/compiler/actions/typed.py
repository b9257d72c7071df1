"""Grouped GEMM: rows sorted by the type that selects their matrix, one dense product per type."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Contract, Gather, Node, Permute, Reshape, TypedLinear, text_of
from ..tile import Tiling
from ._state import State
from .product import plain_products, tiled
from .segments import plan

_Found = tuple[Node, Node, Gather]
"""Rows, the matrices with the summed axis in the middle, and the gather of a row's own."""


@dataclass(frozen=True)
class Typed:
    """Multiply the rows of each type together: `x[i] @ w[types[i]]` in as many dense products as there are types.

    A counting sort of the rows by type takes a pass over the types; operations with the same types share it. Every
    matrix is read once per call instead of once per row. Legal for floats, if a product takes one row at a time and
    its matrix by a one-dimensional index, and no form is chosen for it yet.
    """

    name = "typed"

    def sites(self, state: State) -> Iterator[str]:
        """Yield products with gathered matrices."""
        yield from (p.name for p in plain_products(state) if _typed(p) is not None)

    def apply(self, state: State, site: str) -> State:
        """Sort by type, and multiply type by type."""
        product = next(p for p in plain_products(state) if p.name == site)
        found = _typed(product)
        assert found is not None
        rows, weights, gather = found
        order, offsets = plan(state.graph, gather.index, gather.source.shape[0])
        new = TypedLinear(
            name=f"{site}_typed", shape=(rows.shape[0], weights.shape[2]), dtype=product.dtype, source=rows,
            weights=weights, order=order, offsets=offsets,
        )  # fmt: skip
        result = Reshape(name=site, shape=product.shape, dtype=product.dtype, source=new)
        decisions = replace(
            state.decisions, before=state.decisions.before | {order.name, offsets.name, new.name}
        )
        after = replace(state, graph=state.graph.rewritten({product: result}), decisions=decisions)
        return tiled(after, {new.name: Tiling("panels")})


def _typed(product: Contract) -> _Found | None:
    """Return what a product of rows and gathered matrices multiplies; None if it is anything else."""
    return _gathered(product, on_left=False) or _gathered(product, on_left=True)


def _gathered(product: Contract, *, on_left: bool) -> _Found | None:
    """Return rows, matrices and gather where one factor is a matrix for each row of the other one."""
    one, two, out = product.labels
    sides = (product.left, one), (product.right, two)
    (matrices, labels), (other, rest) = sides if on_left else sides[::-1]
    gather, order = _behind_turns(matrices)
    if not isinstance(gather, Gather) or gather.aligned or gather.dim != 0 or len(gather.index.shape) != 1:
        return None
    if len(labels) != 3 or order[0] != 0:
        return None
    sizes = zip(rest, other.shape, strict=True)
    ones = {c for c, size in sizes if text_of(size) == "1" and c not in labels}
    item, pair = labels[0], labels[1:]
    summed, column = (next((c for c in pair if (c in out) == kept), "") for kept in (False, True))
    left, stay = ([c for c in these if c not in ones] for these in (rest, out))
    if left != [item, summed] or stay != [item, column]:
        return None
    weights = _turned(gather.source, [0, *(order[labels.index(c)] for c in (summed, column))], product.name)
    rows = Reshape(
        name=f"{product.name}_rows", dtype=other.dtype, source=other,
        shape=tuple(size for c, size in zip(rest, other.shape, strict=True) if c not in ones),
    )  # fmt: skip
    return rows, weights, gather


def _behind_turns(node: Node) -> tuple[Node, list[int]]:
    """Return what is permuted, and which of its dimensions each one of the node is."""
    order = list(range(len(node.shape)))
    while isinstance(node, Permute):
        order, node = [node.order[d] for d in order], node.source
    return node, order


def _turned(weights: Node, order: list[int], name: str) -> Node:
    """Return the matrices with the summed axis before the columns."""
    if order == [0, 1, 2]:
        return weights
    shape = tuple(weights.shape[d] for d in order)
    return Permute(
        name=f"{name}_matrices", shape=shape, dtype=weights.dtype, source=weights, order=tuple(order)
    )
