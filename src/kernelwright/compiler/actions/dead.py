"""Dead code elimination: operations that change nothing, and results that are not read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import ascii_lowercase

from ..graph import Contract, Graph, Node, Point, Reduce, Reshape, Size, Slice, product, same, text_of
from ._state import State

_NEVER_NEGATIVE = frozenset({"relu", "abs", "exp", "exp2", "sigmoid"})
_ONE_IS_ALL = frozenset({"sum", "prod", "max", "min", "logsumexp"})


@dataclass(frozen=True)
class Drop:
    """Remove no-ops, and compute only the part of a product that is read.

    A factor or divisor of one, a cast to the same dtype, `relu` of what is never negative, a reduction over one
    element; and a slice of a product, with what is elementwise between, becomes a product of slices: the last row of
    a sequence costs a row. Legal if every element keeps its value, NaN included, and nothing else reads
    what is cut.
    """

    name = "drop"

    def sites(self, state: State) -> Iterator[str]:
        """Yield operations without an effect, and slices of products."""
        yield from (n.name for n in state.graph.nodes if _without(state.graph, n) is not None)

    def apply(self, state: State, site: str) -> State:
        """Remove the operation, or slice before it."""
        node = next(n for n in state.graph.nodes if n.name == site)
        new = _without(state.graph, node)
        assert new is not None
        return replace(state, graph=state.graph.rewritten({node: new}))


def _without(graph: Graph, node: Node) -> Node | None:
    """Return what stands for a node when its dead work is dropped; None if it has none."""
    match node:
        case Point():
            source = _unchanged(node)
            return None if source is None else _named(source, node)
        case Reduce():
            alone = all(not isinstance(s, Size) and s == 1 for s in (node.source.shape[d] for d in node.dims))
            if not alone or node.monoid not in _ONE_IS_ALL or node.dtype != node.source.dtype:
                return None
            return _named(node.source, node)
        case Slice():
            fewer = node.elements < node.source.elements
            return _cut(graph, node.source, node, node.name) if fewer else None
        case _:
            return None


def _named(source: Node, node: Node) -> Reshape:
    """Return a value under the name and shape of another."""
    return Reshape(name=node.name, shape=node.shape, dtype=node.dtype, source=source)


def _unchanged(node: Point) -> Node | None:
    """Return the operand that an operation returns unchanged."""
    x, *more = node.args
    if not isinstance(x, Node) or x.dtype != node.dtype or node.options:
        return None
    if not _alike(x.shape, node.shape):
        return None
    number = more[0] if len(more) == 1 and type(more[0]) in (int, float) else None  # the same for every size
    match node.op:
        case "cast":
            return x
        case "mul" | "div" | "pow" if number == 1:
            return x
        case "sub" if number == 0:
            return x
        case "relu" | "abs" if isinstance(x, Point) and x.op in _NEVER_NEGATIVE:
            return x
        case "neg" if isinstance(x, Point) and x.op == "neg" and isinstance(x.args[0], Node):
            return x.args[0] if x.args[0].shape == node.shape else None
        case _:
            return None


def in_parts(graph: Graph, source: Node) -> dict[Node, Node]:
    """Return the parts that a product, or what is elementwise behind one, is read in, each a product of its own.

    Nothing where anything reads all of it, or two read the same: the parts together then multiply more.
    """
    parts = [user for user in graph.users.get(source, ()) if isinstance(user, Slice)]
    along = len(source.shape) - 1
    if len(parts) < 2 or len(parts) < len(graph.users[source]) or source in graph.roots:
        return {}
    if not all(p.steps[along] == 1 and all(_is_whole(p, d) for d in range(along)) for p in parts):
        return {}
    ends = sorted((p.starts[along], p.starts[along] + p.shape[along]) for p in parts)
    if any(isinstance(e, Size) for pair in ends for e in pair):
        return {}
    if any(one[1] > two[0] for one, two in pairwise(ends)):
        return {}
    new: dict[Node, Node] = {}
    for part in parts:
        made = _cut(graph, source, part, part.name, parts=True)
        if made is None:
            return {}
        new[part] = made
    return new


def _cut(
    graph: Graph, source: Node, cut: Slice, name: str, lead: int = 1, *, parts: bool = False
) -> Node | None:
    """Return a slice of a product, or of what is elementwise behind one, as an operation on slices.

    Args:
        graph: Where the nodes are read.
        source: What is sliced, under a view that splits its first dimension.
        cut: The slice.
        name: What to call the result.
        lead: Into how many dimensions the first one is split.
        parts: Whether other readers use other parts.
    """
    if not parts and not graph.read_once(source):
        return None
    match source:
        case Contract():
            return _product_of_slices(source, cut, name, lead)
        case Reshape(source=inner) if lead == 1 and (more := _leading(inner, source)):
            return _cut(graph, inner, cut, name, more)
        case Point():
            return _elementwise(graph, source, cut, name, lead)
        case _:
            return None


def _elementwise(graph: Graph, source: Point, cut: Slice, name: str, lead: int) -> Point | None:
    """Return an operation on slices if one operand is a product, or comes from one."""
    args, found = list(source.args), False
    for i, a in enumerate(source.args):
        if not isinstance(a, Node):
            continue
        whole = _alike(a.shape, source.shape)
        part = _cut(graph, a, cut, f"{name}_{i}", lead) if whole else None
        if part is None and lead > 1 and len(a.shape) == len(source.shape):
            return None
        args[i] = part or _broadcast_slice(a, cut, f"{name}_{i}")
        found = found or part is not None
    return replace(source, name=name, shape=cut.shape, args=tuple(args)) if found else None


def _product_of_slices(found: Contract, cut: Slice, name: str, lead: int) -> Contract:
    """Return the product of the slices that a slice of it needs."""
    one, two, out = found.labels
    first, sizes = out[:1], cut.source.shape[:lead]
    letters = first + "".join(c for c in ascii_lowercase if c not in one + two)[: lead - 1]
    place = {c: d for d, c in enumerate(letters + out[1:])}

    def sliced(factor: Node, labels: str, side: str) -> tuple[Node, str]:
        if lead > 1 and first in labels:
            d = labels.index(first)
            shape = (*factor.shape[:d], *sizes, *factor.shape[d + 1 :])
            factor = Reshape(name=f"{name}_{side}_rows", shape=shape, dtype=factor.dtype, source=factor)
            labels = labels.replace(first, letters)
        return _sliced(factor, [place.get(c) for c in labels], cut, f"{name}_{side}"), labels

    left, one = sliced(found.left, one, "left")
    right, two = sliced(found.right, two, "right")
    labels = (one, two, letters + out[1:])
    return replace(found, name=name, shape=cut.shape, left=left, right=right, labels=labels)


def _leading(inner: Node, view: Reshape) -> int:
    """Return into how many dimensions a view splits the first one; zero for any other view."""
    lead = len(view.shape) - len(inner.shape) + 1
    fits = lead > 1 and bool(inner.shape) and _alike(inner.shape[1:], view.shape[lead:])
    return lead if fits and same(product(view.shape[:lead]), inner.shape[0]) else 0


def _alike(one: Sequence[int], two: Sequence[int]) -> bool:
    return len(one) == len(two) and all(map(same, one, two))


def _broadcast_slice(a: Node, cut: Slice, name: str) -> Node:
    """Slice an operand that is broadcast: along its dimensions that are not one."""
    rank = len(a.shape)
    first = len(cut.shape) - rank
    return _sliced(a, [None if text_of(s) == "1" else d + first for d, s in enumerate(a.shape)], cut, name)


def _sliced(node: Node, dims: list[int | None], cut: Slice, name: str) -> Node:
    """Slice a node whose dimension `d` is dimension `dims[d]` of what is cut; none for those that stay whole."""
    if all(d is None or _is_whole(cut, d) for d in dims):
        return node
    return Slice(
        name=name, dtype=node.dtype, source=node,
        shape=tuple(s if d is None else cut.shape[d] for s, d in zip(node.shape, dims, strict=True)),
        starts=tuple(0 if d is None else cut.starts[d] for d in dims),
        steps=tuple(1 if d is None else cut.steps[d] for d in dims),
    )  # fmt: skip


def _is_whole(cut: Slice, dim: int) -> bool:
    """Whether a slice takes all of a dimension, in order."""
    return (cut.starts[dim], cut.steps[dim]) == (0, 1) and same(cut.shape[dim], cut.source.shape[dim])
