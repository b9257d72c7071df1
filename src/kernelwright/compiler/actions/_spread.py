"""Weights of a convolution, transformed for `winograd` once: `G g G^T` is kept, and `g` is read from it.

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), section 4.1, F(2x2, 3x3).
"""

from collections.abc import Sequence
from dataclasses import replace

from ..graph import Cat, Contract, Graph, Node, Permute, Point, Slice

Rows = tuple[tuple[float, ...], ...]
SPREAD: Rows = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
BACK: Rows = ((1, 0, 0, 0), (0, 1, -1, 0), (0, 0, 0, 1))
"""The inverse: it multiplies by ones only, so that reading through it is exact."""


def spread_weights(graph: Graph, product: Contract) -> tuple[Node, Contract] | None:
    """Return what to keep of the weights of a convolution with windows of 3 by 3, and the product that reads it.

    Returns:
        The transformed weights, ((groups,) 4, 4, rows, channels), and the same product over what they come from; none
        if the weights are not parameters.
    """
    on_left = product.left in graph.lasting
    weights = product.left if on_left else product.right
    if weights not in graph.lasting or (product.left in graph.lasting and product.right in graph.lasting):
        return None
    rank = len(weights.shape)
    name, rows, columns = f"{product.name}_spread", rank - 2, rank - 1
    wide = spread_both(weights, SPREAD, name, ("rows", "columns"))
    kept = _permuted(wide, (*range(rank - 4), rows, columns, rank - 4, rank - 3), name)
    seen = _permuted(kept, (*range(rank - 4), rank - 2, rank - 1, rank - 4, rank - 3), f"{name}_seen")
    back = spread_both(seen, BACK, name, ("up", "back"))
    return kept, replace(product, left=back) if on_left else replace(product, right=back)


def spread_both(node: Node, rows: Rows, name: str, parts: tuple[str, str]) -> Node:
    """Multiply a matrix with both of the last dimensions."""
    rank = len(node.shape)
    first = _mixed(node, rank - 2, rows, f"{name}_{parts[0]}")
    return _mixed(first, rank - 1, rows, f"{name}_{parts[1]}")


def _permuted(node: Node, order: Sequence[int], name: str) -> Node:
    shape = tuple(node.shape[d] for d in order)
    return Permute(name=name, shape=shape, dtype=node.dtype, source=node, order=tuple(order))


def _mixed(node: Node, dim: int, rows: Rows, name: str) -> Node:
    """Multiply a matrix with a dimension: each row gives one of its elements."""
    one = tuple(1 if d == dim else size for d, size in enumerate(node.shape))
    parts = []
    for row, factors in enumerate(rows):
        total: Node | None = None
        for place, factor in enumerate(factors):
            if factor:
                taken = _taken(node, dim, place, one, f"{name}{row}{place}")
                total = _added(total, taken, factor, f"{name}{row}{place}")
        assert total is not None
        parts.append(total)
    shape = tuple(len(rows) if d == dim else size for d, size in enumerate(node.shape))
    return Cat(name=name, shape=shape, dtype=node.dtype, sources=tuple(parts), dim=dim)


def _taken(node: Node, dim: int, place: int, shape: tuple[int, ...], name: str) -> Node:
    starts = tuple(place if d == dim else 0 for d in range(len(shape)))
    return Slice(
        name=f"{name}_part",
        shape=shape,
        dtype=node.dtype,
        source=node,
        starts=starts,
        steps=(1,) * len(shape),
    )


def _added(total: Node | None, part: Node, factor: float, name: str) -> Node:
    """Return the sum so far and so much of a part."""

    def point(op: str, *args: Node | float) -> Node:
        return Point(name=f"{name}_{op}", shape=part.shape, dtype=part.dtype, op=op, args=args)

    scaled = part if abs(factor) == 1 else point("mul", part, abs(factor))
    if total is None:
        return scaled
    return point("add" if factor > 0 else "sub", total, scaled)
