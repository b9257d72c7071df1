"""Reassociate products of three factors: the same result from fewer multiplications."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from string import ascii_lowercase

from ..graph import Contract, Graph, Node, Reshape, same
from ._state import State
from .product import plain_products


@dataclass(frozen=True)
class Reassociate:
    """Multiply three factors in the order that takes fewer multiplications: `(q @ k) @ v` becomes `q @ (k @ v)`.

    Legal in float32, if nothing else reads the product between and neither has a form yet. Sums are rounded in
    another order, as every product's are.
    """

    name = "reassociate"

    def sites(self, state: State) -> Iterator[str]:
        """Yield products of products that the other order makes cheaper."""
        open_ = {p.name for p in plain_products(state)}
        for node in state.graph.nodes:
            if node.name in open_ and isinstance(node, Contract):
                chain = _chain(state.graph, node)
                if chain is not None and chain.inner.name in open_ and _cheapest(node, chain) is not None:
                    yield node.name

    def apply(self, state: State, site: str) -> State:
        """Multiply the last factor into the nearer one first."""
        node = next(n for n in state.graph.nodes if n.name == site)
        assert isinstance(node, Contract)
        chain = _chain(state.graph, node)
        assert chain is not None
        new = _cheapest(node, chain)
        assert new is not None
        return replace(state, graph=state.graph.rewritten({node: new}))


Factor = tuple[Node, str]
"""A factor, and a label for each of its dimensions."""


@dataclass(frozen=True)
class _Chain:
    """A product of a product: three factors whose labels say the whole sum."""

    inner: Contract
    pair: tuple[Factor, Factor]
    rest: Factor


def _chain(graph: Graph, outer: Contract) -> _Chain | None:
    one, two, out = outer.labels
    sides = ((outer.left, one, outer.right, two), (outer.right, two, outer.left, one))
    for factor, labels, other, rest in sides:
        inner = _behind_views(graph, factor)
        if inner is None or not outer.dtype == inner.dtype == other.dtype == "float32":
            continue
        free = (c for c in ascii_lowercase if c not in one + two + out)
        names = dict(zip(inner.labels[2], labels, strict=True))
        names |= {c: next(free) for c in dict.fromkeys(inner.labels[0] + inner.labels[1]) if c not in names}
        first, second = ("".join(names[c] for c in part) for part in inner.labels[:2])
        return _Chain(inner, ((inner.left, first), (inner.right, second)), (other, rest))
    return None


def _behind_views(graph: Graph, node: Node) -> Contract | None:
    """Return the product that a factor is, under views that end in its own shape again."""
    shape = node.shape
    while isinstance(node, Reshape) and graph.read_once(node):
        node = node.source
    fits = isinstance(node, Contract) and len(node.shape) == len(shape) and all(map(same, node.shape, shape))
    return node if isinstance(node, Contract) and fits and graph.read_once(node) else None


def _cheapest(outer: Contract, chain: _Chain) -> Contract | None:
    """Return the product in the other order that multiplies least; None if this one does."""
    out, (one, two) = outer.labels[2], chain.pair
    now = _multiplications(*chain.pair) + _multiplications(
        (outer.left, outer.labels[0]), (outer.right, outer.labels[1])
    )
    best = None
    for far, near in ((one, two), (two, one)):
        kept = "".join(c for c in dict.fromkeys(far[1] + chain.rest[1]) if c in near[1] + out)
        first = _product(f"{outer.name}_first", far, chain.rest, kept)
        count = _multiplications(far, chain.rest) + _multiplications(near, (first, kept))
        if count < now:
            now, best = count, _product(outer.name, near, (first, kept), out)
    return best


def _product(name: str, left: Factor, right: Factor, out: str) -> Contract:
    sizes = dict(zip(left[1], left[0].shape, strict=True)) | dict(zip(right[1], right[0].shape, strict=True))
    return Contract(
        name=name, shape=tuple(sizes[c] for c in out), dtype="float32", left=left[0], right=right[0],
        labels=(left[1], right[1], out),
    )  # fmt: skip


def _multiplications(left: Factor, right: Factor) -> int:
    sizes = dict(zip(left[1], left[0].shape, strict=True)) | dict(zip(right[1], right[0].shape, strict=True))
    return prod(int(size) for size in sizes.values())
