"""Hoist work out of gathers and broadcasts: compute on each value once, then repeat."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Contract, Expand, Gather, Graph, Node, Number, Point, broadcast, text_of
from ._state import State

_FLOATS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Hoist:
    """Compute before a gather or a broadcast repeats: `f(x[index])` becomes `f(x)[index]`.

    One product per edge becomes one product per node. Legal for elementwise operations and products of
    floats whose every operand is repeated alike or not at all, if that leaves fewer elements to compute; what a
    gather then reads is stored before.
    """

    name = "hoist"

    def sites(self, state: State) -> Iterator[str]:
        """Yield operations on repeated values."""
        decided = {*state.decisions.tilings, *state.decisions.ahead}
        for node in state.graph.nodes:
            if node.name not in decided and _hoisted(state.graph, node) is not None:
                yield node.name

    def apply(self, state: State, site: str) -> State:
        """Compute once, then repeat."""
        node = next(n for n in state.graph.nodes if n.name == site)
        new = _hoisted(state.graph, node)
        assert new is not None
        before = state.decisions.before
        if isinstance(new, Gather):
            before = before | {new.source.name}
        graph = state.graph.rewritten({node: new})
        return replace(state, graph=graph, decisions=replace(state.decisions, before=before))


def _hoisted(graph: Graph, node: Node) -> Gather | Expand | None:
    """Return the operation on what is repeated, repeated; None if that saves nothing."""
    if node.dtype not in _FLOATS:
        return None
    match node:
        case Point():
            return _once(node) or _point(node)
        case Contract():
            return _product(graph, node)
        case _:
            return None


def _once(node: Point) -> Expand | None:
    """Return an operation on broadcast values as the broadcast of one."""
    if not any(isinstance(a, Expand) for a in node.args):
        return None
    args = tuple(a.source if isinstance(a, Expand) else a for a in node.args)
    shape = broadcast([a.shape for a in args if isinstance(a, Node)])
    if tuple(map(text_of, shape)) == tuple(map(text_of, node.shape)):
        return None
    core = replace(node, name=f"{node.name}_once", shape=shape, args=args)
    return Expand(name=node.name, shape=node.shape, dtype=node.dtype, source=core)


def _point(node: Point) -> Gather | None:
    """Return an elementwise operation on gathered values as a gather of its results."""
    gathers = [a for a in node.args if isinstance(a, Gather) and a.shape == node.shape]
    first = gathers[0] if gathers else None
    if first is None or not _saves(first) or not all(_repeats_alike(a, first) for a in node.args):
        return None
    args = tuple(a.source if isinstance(a, Gather) and a in gathers else a for a in node.args)
    core = replace(node, name=f"{node.name}_once", shape=first.source.shape, args=args)
    return _again(node, core, first, first.dim)


def _repeats_alike(a: Node | Number | None, first: Gather) -> bool:
    """Whether an operand is gathered by the same index, or is the same at every position of it."""
    if isinstance(a, Gather) and a.index is first.index and a.dim == first.dim and not a.aligned:
        return list(map(text_of, a.source.shape)) == list(map(text_of, first.source.shape))
    return not isinstance(a, Node) or len(a.shape) < len(first.source.shape) - first.dim


def _product(graph: Graph, node: Contract) -> Gather | None:
    """Return a product with gathered rows as a gather from the product with all rows."""
    one, two, out = node.labels
    for factor, labels, other in ((node.left, one, two), (node.right, two, one)):
        if not isinstance(factor, Gather) or not _saves(factor) or not graph.read_once(factor):
            continue
        rank = len(factor.index.shape)
        rows = labels[factor.dim : factor.dim + rank]
        if rank < 1 or rows not in out or any(c in other for c in rows):
            continue
        dim, fewer = out.index(rows), rows[:1]
        shape = (*node.shape[:dim], factor.source.shape[factor.dim], *node.shape[dim + rank :])
        less = tuple(part.replace(rows, fewer) for part in node.labels)
        core = replace(
            node, name=f"{node.name}_once", shape=shape, labels=(less[0], less[1], less[2]),
            left=factor.source if factor is node.left else node.left,
            right=factor.source if factor is node.right else node.right,
        )  # fmt: skip
        return _again(node, core, factor, dim)
    return None


def _saves(gather: Gather) -> bool:
    """Whether a gather of floats repeats: that it has more elements than it reads from."""
    floats = not gather.aligned and gather.dtype in _FLOATS
    return floats and gather.elements > gather.source.elements


def _again(node: Node, core: Node, gather: Gather, dim: int) -> Gather:
    return replace(gather, name=node.name, shape=node.shape, dtype=node.dtype, source=core, dim=dim)
