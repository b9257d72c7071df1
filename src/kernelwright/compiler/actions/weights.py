"""Weights: values that depend on weights only are computed once, in the layout that the loops read."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from string import ascii_lowercase

from ..graph import Contract, Expand, Graph, Input, Node, Permute, Reshape, Size, Slice, sources_of
from ..tile import Tiling
from ._state import State
from .product import plain_products, tiled

_VIEWS = (Reshape, Permute, Expand, Slice)
_PANELS = (32, 16)
"""Contiguous columns of a panel: whole register tiles."""


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
    memory sequentially; in whole rows otherwise. Legal if the factor depends on weights only and holds the last
    axis of the result. The weights of a convolution hold its rows, and have the right layout already.
    """

    name = "pack"

    def sites(self, state: State) -> Iterator[str]:
        """Yield products whose weights have another layout."""
        yield from (p.name for p in plain_products(state) if _packed(state.graph, p) is not None)

    def apply(self, state: State, site: str) -> State:
        """Pack, and read the packed factor."""
        found = next(p for p in plain_products(state) if p.name == site)
        new = _packed(state.graph, found)
        assert new is not None
        weights, multiplied = new
        result = Reshape(name=site, shape=found.shape, dtype=found.dtype, source=multiplied)
        packed = replace(state, graph=state.graph.rewritten({found: result}))
        return tiled(ahead(packed, weights.name), {multiplied.name: Tiling("direct")})


def ahead(state: State, *names: str) -> State:
    """Return the state in which values are computed ahead."""
    return replace(state, decisions=replace(state.decisions, ahead=state.decisions.ahead.union(names)))


def _computed(graph: Graph) -> list[str]:
    """Name the last values that depend on weights only: those that something else reads."""
    read = {s for n in graph.nodes if n not in graph.lasting for s in sources_of(n)}
    return [n.name for n in graph.nodes if n in read & graph.lasting and not isinstance(_viewed(n), Input)]


def _viewed(node: Node) -> Node:
    """Return what a chain of views looks at."""
    while isinstance(node, _VIEWS):
        node = node.source
    return node


def _packed(graph: Graph, found: Contract) -> tuple[Node, Contract] | None:
    """Return the packed weights and the product that reads them; None if they have that layout already."""
    one, two, out = found.labels
    if not out or (found.left in graph.lasting) == (found.right in graph.lasting):
        return None
    on_left, last = found.left in graph.lasting, out[-1]
    weights, labels = (found.left, one) if on_left else (found.right, two)
    if last not in labels:
        return None
    size = weights.shape[labels.index(last)]
    width = next((w for w in _PANELS if not isinstance(size, Size) and size % w == 0), 0)
    panel = next(c for c in ascii_lowercase if c not in one + two) if width else ""
    order = [c for c in labels if c in out and c != last] + list(panel) + [c for c in labels if c not in out]
    if [*order, last] == list(labels) and isinstance(weights, Input):
        return None
    wanted = "".join([*order, last])
    packed = _turned(weights, labels, wanted, panel, width, f"{found.name}_packed")
    return packed, replace(
        found, name=f"{found.name}_panels", shape=(*found.shape[:-1], *_cut(size, width)),
        left=packed if on_left else found.left, right=found.right if on_left else packed,
        labels=(wanted if on_left else one, two if on_left else wanted, out[:-1] + panel + last),
    )  # fmt: skip


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
    return (size // width, width) if width else (size,)
