"""Segmented scatters: updates sorted by index first, so that every result is computed by one thread."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Constant, Expand, Graph, Node, Order, Point, Reshape, Scan, Scatter, Segment, sources_of
from ._state import State


@dataclass(frozen=True)
class Segments:
    """Combine by segment instead of by update: updates are read in sorted order, and nothing is written twice.

    A counting sort of the positions takes a pass over the index; scatters with the same index share it.
    Then segments are independent, updates are computed where they are used, and neighbours of a row are
    read together. Legal for sums, products and extrema by a one-dimensional index along the first dimension.
    """

    name = "segments"

    def sites(self, state: State) -> Iterator[str]:
        """Yield scatters that combine, and `all` if there are several."""
        sorted_ = {n.offsets for n in state.graph.nodes if isinstance(n, Order)}
        counts = {s for offsets in sorted_ for s in sources_of(offsets)}
        open_ = [n for n in state.graph.nodes if isinstance(n, Scatter) and n not in counts]
        found = [n.name for n in open_ if _keys(n) is not None]
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Sort the index, and combine by segment."""
        for name in [s for s in self.sites(state) if s != "all"] if site == "all" else [site]:
            state = self._one(state, name)
        return state

    @staticmethod
    def _one(state: State, site: str) -> State:
        node = next(n for n in state.graph.nodes if n.name == site)
        assert isinstance(node, Scatter)
        index = _keys(node)
        assert index is not None and node.combine != "set"
        order, offsets = plan(state.graph, index, node.shape[0])
        new = Segment(
            name=site, shape=node.shape, dtype=node.dtype, base=node.base, updates=node.updates, order=order,
            offsets=offsets, combine=node.combine,
        )  # fmt: skip
        before = state.decisions.before | {order.name, offsets.name}
        decisions = replace(state.decisions, before=before)
        return replace(state, graph=state.graph.rewritten({node: new}), decisions=decisions)


def _keys(node: Scatter) -> Node | None:
    """Return the one-dimensional index that a scatter combines by; None if it does not."""
    if node.combine == "set" or node.dim != 0 or node.updates.shape[1:] != node.shape[1:]:
        return None
    index = node.index
    while len(index.shape) > 1 and isinstance(index, Expand | Reshape):
        if isinstance(index, Reshape) and index.elements != int(index.shape[0]):
            return None
        index = index.source
    return index if len(index.shape) == 1 and index.elements == int(node.updates.shape[0]) else None


def plan(graph: Graph, index: Node, segments: int) -> tuple[Order, Node]:
    """Return the order of positions and the beginnings of segments: those that are there, or new ones."""
    for node in graph.nodes:
        if isinstance(node, Order) and node.name == f"{index.name}_order_{segments}":
            return node, node.offsets
    ends = f"{index.name}_{segments}"

    def point(name: str, op: str, dtype: str, *args: Node | int) -> Point:
        return Point(name=f"{name}_{ends}", shape=index.shape, dtype=dtype, op=op, args=args)

    negative = point("negative", "lt", "bool", index, 0)
    keys = point(
        "keys", "where", "int64", negative, point("from_end", "add", "int64", index, segments), index
    )
    none = Constant(name=f"none_{ends}", shape=(segments + 1,), dtype="int64", values=(0,))
    ones = Constant(name=f"ones_{ends}", shape=index.shape, dtype="int64", values=(1,))
    counts = Scatter(
        name=f"counts_{ends}", shape=none.shape, dtype="int64", base=none,
        index=point("after", "add", "int64", keys, 1),
        updates=ones, dim=0, aligned=False, combine="sum",
    )  # fmt: skip
    offsets = Scan(
        name=f"offsets_{ends}", shape=none.shape, dtype="int64", source=counts, dim=0, monoid="sum"
    )
    order = Order(
        name=f"{index.name}_order_{segments}", shape=index.shape, dtype="int64", keys=keys, offsets=offsets
    )
    return order, offsets
