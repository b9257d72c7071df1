"""Two products of one input that are used together, as in a gated MLP: multiplied at once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from string import ascii_lowercase

from ..graph import Cat, Contract, Graph, Node, Permute, Point, Reshape, Size, Slice, same, text_of
from ..tile import Tiling
from ._state import State
from .dead import in_parts
from .product import nearest_products, plain_products, tiled
from .weights import ahead, finished

_PANEL = 16
"""Columns of each product that lie side by side in a panel of both."""
_VECTORS = Tiling("packed", vectors=1, block=0)


@dataclass(frozen=True)
class Dual:
    """Multiply two products of the same input at once, their weights side by side in panels, packed ahead.

    `silu(x @ w1) * (x @ w3)` reads `x` once, and neither product reaches memory. Two parts of one product are two
    products, of parts of its weights. Legal where both have weights of one
    shape and dtype whose columns are a multiple of 16, and something elementwise reads both products and no other.
    """

    name = "dual"

    def sites(self, state: State) -> Iterator[str]:
        """Yield the first of two such products, and `all` where there are several."""
        found = [one.name for one, _ in _pairs(_parted(state))]
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Multiply both at once."""
        state = _parted(state)
        names = {one.name for one, _ in _pairs(state)} if site == "all" else {site}
        for name in sorted(names):
            one, two = next(pair for pair in _pairs(state) if pair[0].name == name)
            state = _joined(state, one, two)
        return state


def _parted(state: State) -> State:
    """Return the state in which products that are read in two parts are two, where these can be multiplied at once."""
    for node in state.graph.nodes:
        if sum(isinstance(user, Slice) for user in state.graph.users.get(node, ())) == 2:
            new = in_parts(state.graph, node)
            parted = replace(state, graph=state.graph.rewritten(new)) if new else state
            if len(_pairs(parted)) > len(_pairs(state)):
                return _parted(parted)
    return state


def _pairs(state: State) -> list[tuple[Contract, Contract]]:
    """Return products that can be multiplied at once, each at most once."""
    plain = {id(p) for p in plain_products(state)}
    found: dict[int, tuple[Contract, Contract]] = {}
    for node in state.graph.nodes:
        if not isinstance(node, Point) or sum(isinstance(a, Node) for a in node.args) < 2:
            continue
        near = nearest_products(node)
        if len(near) == 2 and not {id(p) for p in near} & found.keys() and {id(p) for p in near} <= plain:
            one, two = sorted(near, key=state.graph.nodes.index)
            if _alike(state.graph, one, two):
                found |= {id(one): (one, two), id(two): (one, two)}
    return list({id(one): (one, two) for one, two in found.values()}.values())


def _alike(graph: Graph, one: Contract, two: Contract) -> bool:
    """Tell whether two products differ in their weights alone, which hold the columns."""
    if not _is_same(one.left, two.left) or one.labels != two.labels or one.dtype != two.dtype:
        return False
    left, right, out = one.labels
    a, b = one.right, two.right
    if not {a, b} <= graph.lasting or one.left in graph.lasting or a is b or a.dtype != b.dtype:
        return False
    if not out or out[-1] not in right or out[-1] in left or not all(map(same, a.shape, b.shape)):
        return False
    columns = one.shape[-1]
    return not isinstance(columns, Size) and columns % _PANEL == 0


def _is_same(one: Node, two: Node) -> bool:
    """Tell whether two nodes are one, or the same view of one: each use of an input has a view of its own."""
    while one is not two:
        if type(one) is not type(two) or not isinstance(one, Reshape | Permute):
            return False
        assert isinstance(two, Reshape | Permute)
        turned = isinstance(one, Permute) and isinstance(two, Permute) and one.order != two.order
        if turned or [*map(text_of, one.shape)] != [*map(text_of, two.shape)]:
            return False
        one, two = one.source, two.source
    return True


def _joined(state: State, one: Contract, two: Contract) -> State:
    """Return the state in which both are one product, and each a part of its result."""
    left, right, out = one.labels
    panel, member = [c for c in ascii_lowercase if c not in left + right][:2]
    order = "".join(c for c in right if c in out and c != out[-1]) + panel
    order += "".join(c for c in right if c not in out)
    parts = [_panels(p, panel, order) for p in (one, two)]
    rank = len(order)
    name = f"{one.name}_dual"
    weights = Cat(
        name=f"{name}_packed", shape=(*parts[0].shape[:rank], 2, _PANEL), dtype=one.right.dtype,
        sources=tuple(parts), dim=rank,
    )  # fmt: skip
    panels = one.shape[-1] // _PANEL
    both = replace(
        one, name=name, shape=(*one.shape[:-1], panels, 2, _PANEL), right=weights,
        labels=(left, order + member + out[-1], out[:-1] + panel + member + out[-1]),
    )  # fmt: skip
    new: dict[Node, Node] = {}
    for place, product in enumerate((one, two)):
        part = Slice(
            name=f"{product.name}_member", shape=(*one.shape[:-1], panels, 1, _PANEL), dtype=one.dtype,
            source=both, starts=(*(0 for _ in out), place, 0), steps=(1,) * (len(out) + 2),
        )  # fmt: skip
        new[product] = Reshape(name=product.name, shape=product.shape, dtype=product.dtype, source=part)
    joined = replace(state, graph=state.graph.rewritten(new))
    return finished(tiled(ahead(joined, weights.name), {name: _VECTORS}), name)


def _panels(product: Contract, panel: str, order: str) -> Node:
    """Return a product's weights in panels: the axes in order, one member, the columns of a panel."""
    weights, labels, last = product.right, product.labels[1], product.labels[2][-1]
    place = labels.index(last)
    cut = (*weights.shape[:place], product.shape[-1] // _PANEL, _PANEL, *weights.shape[place + 1 :])
    now = labels[:place] + panel + labels[place:]
    base = f"{product.name}_panels"
    apart = Reshape(name=f"{base}_cut", shape=cut, dtype=weights.dtype, source=weights)
    turned = tuple(now.index(c) for c in order + last)
    shape = tuple(cut[d] for d in turned)
    laid = Permute(name=base, shape=shape, dtype=weights.dtype, source=apart, order=turned)
    return Reshape(name=f"{base}_member", shape=(*shape[:-1], 1, _PANEL), dtype=weights.dtype, source=laid)
