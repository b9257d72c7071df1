"""Weights: values that depend on weights only are computed once, in the layout that the loops read."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from string import ascii_lowercase

from ..graph import (
    Contract,
    Expand,
    Graph,
    Input,
    Node,
    Permute,
    Point,
    Reshape,
    Size,
    Slice,
    parts,
    product,
    same,
    sources_of,
)
from ..tile import Tiling
from ._state import State
from .product import plain_products, tiled

_VIEWS = (Reshape, Permute, Expand, Slice)
_PANELS = (32, 16)
"""Contiguous columns of a panel: whole register tiles."""
_UNEVEN = range(24, 257)
"""Columns of a panel where neither divides them."""
_FILLED = 0.75
"""Share of the lanes of such a panel's tiles that must hold columns."""


PACKED = Tiling("packed", block=0)
"""The form that multiplies weights in panels."""


@dataclass(frozen=True)
class Ahead:
    """Compute values that depend on weights only when weights change, not in every call.

    Legal if operations that are more than views read nothing but parameters and buffers.
    """

    name = "ahead"

    def sites(self, state: State) -> Iterator[str]:
        """Yield what can be computed ahead and is not yet, and `all` if there are several."""
        found = [name for name in self._open(state) if name not in state.decisions.ahead]
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Compute it ahead."""
        return ahead(state, *(self._open(state) if site == "all" else [site]))

    @staticmethod
    def _open(state: State) -> list[str]:
        """Name the values, except those that stand for transformed weights, which are never computed."""
        spread = {name for name, tiling in state.decisions.tilings.items() if tiling.is_spread}
        back = {s.name for n in state.graph.nodes if n.name in spread for s in sources_of(n)}
        return [name for name in _computed(state.graph) if name not in back]


@dataclass(frozen=True)
class Pack:
    """Lay the weights of a product out as its register tiles read them, once, and multiply without packing.

    Columns of the result are contiguous: in panels of 32 or 16 if that divides them, so that a tile reads
    memory sequentially; otherwise in panels of another width that fills lanes, or in whole rows. Legal if the factor
    depends on weights only and holds the last axis of the result. The weights of a convolution hold its rows, and have
    the right layout already.
    """

    name = "pack"

    def sites(self, state: State) -> Iterator[str]:
        """Yield products whose weights have another layout, and `all` if there are several."""
        found = [p.name for p in plain_products(state) if _packed(state.graph, p) is not None]
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Pack, and read the packed factor."""
        if site == "all":
            for name in [name for name in self.sites(state) if name != site]:
                state = self.apply(state, name)
            return state
        found = next(p for p in plain_products(state) if p.name == site)
        new = _packed(state.graph, found)
        assert new is not None
        weights, multiplied, guard = new
        result = Reshape(name=site, shape=found.shape, dtype=found.dtype, source=multiplied)
        graph = state.graph.rewritten({found: result})
        packed = replace(state, graph=replace(graph, guards=tuple(dict.fromkeys((*graph.guards, *guard)))))
        return finished(tiled(ahead(packed, weights.name), {multiplied.name: PACKED}), multiplied.name)


def ahead(state: State, *names: str) -> State:
    """Return the state in which values are computed ahead."""
    return replace(state, decisions=replace(state.decisions, ahead=state.decisions.ahead.union(names)))


def finished(state: State, product: str) -> State:
    """Return the state in which what is elementwise after a product of panels is stored by the product's kernel.

    A network's products would reach memory one by one else, and what follows them run where it is read.
    """
    end = last_of(state, product)
    if end.name == product or end in state.graph.roots:
        return state
    return replace(state, decisions=replace(state.decisions, before=state.decisions.before | {end.name}))


def last_of(state: State, name: str) -> Node:
    """Return the last of what is elementwise after a product, by name: the product itself where nothing is."""
    graph, made = state.graph, state.decisions
    start = next(n for n in graph.nodes if n.name == name)
    held = {n for n in graph.nodes if n.name in made.before | made.store}
    held |= {graph.values[name] for name in made.native if name in graph.values}
    after, end = {start: {start}}, start
    for node in graph.nodes:
        within = [s for s in sources_of(node) if s in after]
        if not within or not isinstance(node, Point | Reshape | Slice) or _products(node, held) != {start}:
            continue
        if isinstance(node, Point) and not all(same(product(s.shape), product(node.shape)) for s in within):
            continue  # repeats what follows the product
        after[node] = {node}.union(*(after[s] for s in within))
        passed = after[node] - {node}
        leaves = any(user not in after[node] for n in passed for user in graph.users.get(n, ()))
        stored = (
            isinstance(node, Point) or node in graph.roots or (end is start and isinstance(node, Reshape))
        )
        if stored and not leaves and passed.isdisjoint(graph.roots):
            end = node
    return end


def _products(node: Node, held: Collection[Node]) -> set[Node]:
    """Return the products that a node is computed from, but for what is stored on the way."""
    found, seen, waiting = set[Node](), set[Node](), [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Contract):
            found.add(one)
        elif one not in seen and one not in held:
            seen.add(one)
            waiting.extend(sources_of(one))
    return found


def _computed(graph: Graph) -> list[str]:
    """Name the last values that depend on weights only: those that something else reads."""
    read = {s for n in graph.nodes if n not in graph.lasting for s in sources_of(n)}
    return [n.name for n in graph.nodes if n in read & graph.lasting and not isinstance(_viewed(n), Input)]


def _viewed(node: Node) -> Node:
    """Return what a chain of views looks at."""
    while isinstance(node, _VIEWS):
        node = node.source
    return node


def _packed(graph: Graph, found: Contract) -> tuple[Node, Contract, tuple[str, ...]] | None:
    """Return packed weights, the product of them and what must hold of sizes; None if they have that layout already."""
    one, two, out = found.labels
    if not out or (found.left in graph.lasting) == (found.right in graph.lasting):
        return None
    on_left, last = found.left in graph.lasting, out[-1]
    weights, labels = (found.left, one) if on_left else (found.right, two)
    if last not in labels:
        return None
    size = weights.shape[labels.index(last)]
    width = _width(size)
    panel = next(c for c in ascii_lowercase if c not in one + two) if width else ""
    order = [c for c in labels if c in out and c != last] + list(panel) + [c for c in labels if c not in out]
    if [*order, last] == list(labels) and isinstance(weights, Input):
        return None
    wanted = "".join([*order, last])
    packed = _turned(weights, labels, wanted, panel, width, f"{found.name}_packed")
    guard = parts(size, width)[1] if width else ""
    multiplied = replace(
        found, name=f"{found.name}_panels", shape=(*found.shape[:-1], *_cut(size, width)),
        left=packed if on_left else found.left, right=found.right if on_left else packed,
        labels=(wanted if on_left else one, two if on_left else wanted, out[:-1] + panel + last),
    )  # fmt: skip
    return packed, multiplied, (guard,) if guard else ()


def _width(columns: int) -> int:
    """Return the columns of a panel; 0 for whole rows. Of a size that differs, other multiples of it are left out."""
    for width in _PANELS:
        if int(columns) % width == 0:
            return width
    if isinstance(columns, Size):
        return 0
    filled = {w: w / (-(-w // _PANELS[-1]) * _PANELS[-1]) for w in _UNEVEN if columns % w == 0}
    best = max(filled, key=lambda w: filled[w], default=0)
    return best if best and filled[best] >= _FILLED else 0


def _turned(weights: Node, labels: str, wanted: str, panel: str, width: int, name: str) -> Node:
    """Return the weights with their axes in the order of `wanted`, the last one cut into panels."""
    shape, now = weights.shape, labels
    if panel:
        place = labels.index(wanted[-1])
        now = labels[:place] + panel + labels[place:]
        shape = (*shape[:place], *_cut(shape[place], width), *shape[place + 1 :])
        weights = Reshape(name=f"{name}_cut", shape=shape, dtype=weights.dtype, source=weights)
    turned = tuple(now.index(c) for c in wanted)
    return Permute(
        name=name, shape=tuple(shape[d] for d in turned), dtype=weights.dtype, source=weights, order=turned
    )


def _cut(size: int, width: int) -> tuple[int, ...]:
    return (parts(size, width)[0], width) if width else (size,)
