"""A product of a softmax of another product → the weights of an attention: scores are computed where they are read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..graph import Contract, Expand, Node, Permute, Point, Reduce, Reshape
from ..tile import Axis, Call, Expression, Guard, Position, Tiling, Weights, positions, walk
from ._block import Block, NeedsStore
from ._index import Index
from ._product import Epilogue, Flat, NotContraction, product_behind, products_behind, summed_axes

_MINUS_INFINITY = float("-inf")


@dataclass(frozen=True)
class Attended:
    """The softmax that a product multiplies."""

    weights: Node
    scores: Node
    dim: int
    """Along which weights add up to one."""
    safe: bool
    is_right: bool
    """Whether they are the right factor."""


def attended_by(product: Contract) -> Attended | None:
    """Return the softmax that a product of floats multiplies; none where neither factor is one."""
    for factor, is_right in ((product.left, False), (product.right, True)):
        node = factor
        while isinstance(node, Reshape | Permute | Expand) or (isinstance(node, Point) and node.op == "cast"):
            (node,) = [
                n for n in (node.args if isinstance(node, Point) else (node.source,)) if isinstance(n, Node)
            ]
        found = softmax_at(node, is_right=is_right)
        if found is not None:
            return found
    return None


def softmax_at(weights: Node, *, is_right: bool) -> Attended | None:
    """Read `exp(x - max(x)) / sum(exp(x - max(x)))` along one dimension; zero where the largest is -inf."""
    node: object = weights
    dead: object = None
    if isinstance(node, Point) and node.op == "where" and node.args[1] == 0:
        dead, node = node.args[0], node.args[2]
    if not (isinstance(node, Point) and node.op == "div" and isinstance(node.args[0], Point)):
        return None
    power, total = node.args[0], _kept(node.args[1])
    away = power.args[0] if power.op == "exp" else None
    if not (isinstance(away, Point) and away.op == "sub" and not away.options and isinstance(total, Reduce)):
        return None
    scores, top = away.args[0], _kept(away.args[1])
    one = isinstance(top, Reduce) and top.monoid == "max" and top.source is scores and len(top.dims) == 1
    summed = (total.monoid, total.source) in (("sum", power), ("sumexp", scores))
    if not (
        one and summed and isinstance(top, Reduce) and total.dims == top.dims and isinstance(scores, Node)
    ):
        return None
    if dead is not None and not (
        isinstance(dead, Point)
        and dead.op == "eq"
        and _kept(dead.args[0]) is top
        and dead.args[1] == _MINUS_INFINITY
    ):
        return None
    return Attended(weights, scores, top.dims[0], dead is not None, is_right)


def _kept(value: object) -> object:
    """Return the reduction that was broadcast over what it reduced."""
    while isinstance(value, Reshape | Expand):
        value = value.source
    return value


def scores_in(nodes: Iterable[Node], tilings: Mapping[str, Tiling]) -> frozenset[Node]:
    """Return the products whose results are scores of an attention in one pass, which computes them on the way."""
    found = (
        attended_by(n)
        for n in nodes
        if isinstance(n, Contract) and n.name in tilings and tilings[n.name].form == "online"
    )
    return frozenset(product for a in found if a for product in products_behind(a.scores, ()))


def weights_of(
    found: Attended, at: Index | None, keys: Sequence[Axis], builder: Epilogue, flat: Flat
) -> Weights:  # fmt: skip
    """Build the scores of an attention.

    Args:
        found: The softmax.
        at: Where the product reads it.
        keys: The inner axes of that product.
        builder: What builds that product.
        flat: Evaluates its factors.

    Raises:
        NotContraction: there is no product behind the scores, or they are not its elements one by one.
        NeedsStore: an operand must be stored before.
    """
    if at is None or len(keys) != 1:
        raise NotContraction("weights along several axes")
    (key,) = keys
    if at[found.dim] != Position(key.name) or any(
        key.name in positions(e) for d, e in enumerate(at) if d != found.dim
    ):
        raise NotContraction("weights that are multiplied along another axis than they add up along")
    product = product_behind(found.scores, set(builder.stored))
    scorer = Epilogue(builder.stored, builder.splits, frozenset([found.scores, product]), axes=builder.axes)
    scorer.product_of, scorer.members = product, {}
    score = scorer.lazily(found.scores, at, Block())
    if len(scorer.members) != 1 or scorer.at is None:
        raise NotContraction("scores of several elements of a product")
    one, two, out = product.labels
    summed = summed_axes(product)
    depth = tuple(summed.values())
    builder.axes |= {axis.name: axis.size for axis in depth}
    index: Mapping[str, Expression] = dict(zip(out, scorer.at, strict=True)) | {
        c: Position(axis.name) for c, axis in summed.items()
    }
    sides = [
        flat.operand(node, tuple(index[c] for c in labels), depth)
        for node, labels in ((product.left, one), (product.right, two))
    ]
    for node, side in zip((product.left, product.right), sides, strict=True):
        if _is_long(side) and (base := _viewed(node)) not in builder.stored:
            raise NeedsStore(base)
    query, keyed = sorted(sides, key=lambda e: key.name in positions(e))
    if key.name in positions(query) or key.name not in positions(keyed):
        raise NotContraction("scores that are not of a query and a key")
    return Weights(
        found.weights.name, depth, query, keyed, f"{product.name}_sum", score, found.safe
    )  # fmt: skip


def _is_long(side: Expression) -> bool:
    """Tell whether a factor of the scores is better computed once: each tile of rows reads all keys again."""
    within = list(walk(side))
    computed = sum(isinstance(e, Call) and e.kind == "float32" for e in within)
    return computed > 1 or any(isinstance(e, Guard) for e in within)


def _viewed(node: Node) -> Node:
    while isinstance(node, Reshape | Permute | Expand):
        node = node.source
    return node


__all__ = ["Attended", "attended_by", "scores_in", "softmax_at", "weights_of"]
