"""Reductions: in one pass, in two, or split into partial reductions that are combined."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from ..graph import Constant, Expand, Graph, Monoid, Node, Pad, Point, Reduce, Reshape, Size, product
from ._state import State
from .product import attended


@dataclass(frozen=True)
class SinglePass:
    """Find the largest and the sum of powers relative to it in one pass: the online softmax.

    `sum(exp(x - max(x)))` becomes one monoid (`sumexp`) that shares its pass over `x` with the largest: a pass
    over memory less, an exponential more per element.
    """

    name = "single-pass"

    def sites(self, state: State) -> Iterator[str]:
        """Yield sums of powers below their largest."""
        inside = attended(state)
        yield from (n.name for n in state.graph.nodes if n not in inside and _largest(n) is not None)

    def apply(self, state: State, site: str) -> State:
        """Replace the sum."""
        total = _node(state.graph, site)
        source = _largest(total)
        assert isinstance(total, Reduce) and source is not None
        new = replace(total, source=source, monoid="sumexp")
        return replace(state, graph=state.graph.rewritten({total: new}))


def _largest(node: Node) -> Node | None:
    """Return x if the node is sum(exp(x - max(x)))."""
    if not (isinstance(node, Reduce) and node.monoid == "sum" and isinstance(node.source, Point)):
        return None
    power = node.source
    if power.op != "exp" or not isinstance(power.args[0], Point) or power.args[0].op != "sub":
        return None
    x, top = power.args[0].args[0], power.args[0].args[1]
    while isinstance(top, Reshape | Expand):
        top = top.source
    matches = isinstance(top, Reduce) and top.monoid == "max" and top.source is x and top.dims == node.dims
    return x if matches and isinstance(x, Node) and not power.args[0].options else None


@dataclass(frozen=True)
class TwoPasses:
    """Find the mean first and the mean square distance from it in a second pass, instead of Welford's one.

    A second pass over a row that stays in cache is cheaper than a division per vector.
    """

    name = "two-passes"

    def sites(self, state: State) -> Iterator[str]:
        """Yield variances."""
        yield from (n.name for n in state.graph.nodes if isinstance(n, Reduce) and n.monoid == "variance")

    def apply(self, state: State, site: str) -> State:
        """Replace the variance."""
        node = _node(state.graph, site)
        assert isinstance(node, Reduce)
        x = node.source
        count = product([x.shape[d] for d in node.dims])
        total = self._sum_of(state.graph, node) or Reduce(
            name=f"{site}_total", shape=node.shape, dtype=node.dtype, source=x, dims=node.dims, monoid="sum"
        )
        mean = _point(f"{site}_mean", "div", total, total, count)
        kept = tuple(1 if d in node.dims else s for d, s in enumerate(x.shape))
        wide = Reshape(name=f"{site}_wide", shape=kept, dtype=node.dtype, source=mean)
        away = Point(name=f"{site}_away", shape=x.shape, dtype=node.dtype, op="sub", args=(x, wide))
        square = Point(name=f"{site}_square", shape=x.shape, dtype=node.dtype, op="mul", args=(away, away))
        squares = Reduce(
            name=f"{site}_squares",
            shape=node.shape,
            dtype=node.dtype,
            source=square,
            dims=node.dims,
            monoid="sum",
        )
        twins = [n for n in state.graph.nodes if _is_twin(n, node)]
        return replace(
            state, graph=state.graph.rewritten({n: self._divided(n, squares, count) for n in twins})
        )

    @staticmethod
    def _divided(node: Reduce, squares: Reduce, count: int) -> Node:
        """Return the squares over their count, less what the variance is corrected by."""
        site = node.name
        less = Constant(name=f"{site}_less", shape=(), dtype=node.dtype, values=(-node.correction,))
        rest = _point(f"{site}_rest", "maximum", less, _point(f"{site}_count", "add", less, less, count), 0)
        return replace(_point(site, "div", squares, squares, rest), name=site)

    @staticmethod
    def _sum_of(graph: Graph, node: Reduce) -> Reduce | None:
        """Return a sum over the same elements that is there already."""
        for other in graph.nodes:
            sums = isinstance(other, Reduce) and other.monoid == "sum" and other.source is node.source
            if sums and isinstance(other, Reduce) and other.dims == node.dims:
                return other
        return None


def _is_twin(node: Node, other: Reduce) -> TypeGuard[Reduce]:
    """Tell whether a node is a variance of the same elements, perhaps with another correction."""
    alike = isinstance(node, Reduce) and node.monoid == "variance" and node.source is other.source
    return alike and isinstance(node, Reduce) and node.dims == other.dims


@dataclass(frozen=True)
class Shares:
    """Split a reduction: store partial results, then reduce those: if there are fewer results than threads.

    Legal for long sums, products, extrema and log-sum-exps of floats with few results; on a GPU, with its many
    `programs`, for shorter ones with more results. A dimension that has about as many elements as there should be parts
    is left for the second reduction; another is cut, and padded with neutral elements. Partial results are stored in
    float32, whatever the dtype.
    """

    programs: bool = False
    name = "shares"

    def sites(self, state: State) -> Iterator[str]:
        """Yield long reductions with few results."""
        yield from (n.name for n in state.graph.nodes if isinstance(n, Reduce) and self._cut(n) is not None)

    def _cut(self, node: Reduce) -> tuple[int, int] | None:
        """Return the dimension to split, and in how many parts; none if splitting does not pay."""
        shape = [int(s) for s in node.source.shape]
        kept = product([s for d, s in enumerate(shape) if d not in node.dims])
        folded = product([shape[d] for d in node.dims])
        if node.monoid not in _NEUTRAL or node.source.dtype not in _FLOATS or kept <= 1:
            return None
        if not self.programs:
            dim = max(node.dims, key=lambda d: shape[d])
            pays = kept < _PARTS and folded >= _LONG and shape[dim] >= _MANY * _PARTS
            return (dim, _PARTS) if pays else None
        if kept > _MOST_RESULTS or folded < _LONG_OF_PROGRAMS or node.name.endswith(_PART):
            return None
        parts = min(_MOST_PARTS, max(_PARTS, 1 << (_PROGRAMS // kept).bit_length()))
        whole = [d for d in node.dims if _PARTS <= shape[d] <= 4 * parts and folded // shape[d] >= _FEW]
        dim = whole[0] if whole else max(node.dims, key=lambda d: shape[d])
        parts = shape[dim] if whole else min(parts, 1 << (max(1, shape[dim] // _FEW).bit_length() - 1))
        return (dim, parts) if parts >= _PARTS else None

    def apply(self, state: State, site: str) -> State:
        """Reduce the parts first, then their results."""
        node = _node(state.graph, site)
        assert isinstance(node, Reduce)
        cut = self._cut(node)
        assert cut is not None
        dim, count = cut
        part = _part(node, dim, count)
        new = replace(node, source=part, dims=(dim - sum(d < dim for d in node.dims),))
        apart = {part.name, new.name} if self.programs else {part.name}
        decisions = replace(state.decisions, before=state.decisions.before | apart)
        return replace(state, graph=state.graph.rewritten({node: new}), decisions=decisions)


def _part(node: Reduce, dim: int, count: int) -> Reduce:
    """Return the partial results: `(..., count, ...)`, each of `length / count` elements and those along `dims`."""
    source, shape = node.source, list(node.source.shape)
    size = shape[dim]
    if int(size) == count:
        dims = tuple(d for d in node.dims if d != dim)
        left = tuple(s for d, s in enumerate(shape) if d not in dims)
        name = f"{node.name}{_PART}"
        return Reduce(name=name, shape=left, dtype="float32", source=source, dims=dims, monoid=node.monoid)
    if isinstance(size, Size) or size % count:
        shape[dim] = (size // count + 1) * count
        source = Pad(
            name=f"{node.name}_filled", shape=tuple(shape), dtype=source.dtype, source=source,
            low=(0,) * len(shape), value=_NEUTRAL[node.monoid],
        )  # fmt: skip
    cut = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    apart = Reshape(name=f"{node.name}_apart", shape=cut, dtype=source.dtype, source=source)
    dims = tuple(d + (d >= dim) for d in node.dims)
    left = tuple(s for d, s in enumerate(cut) if d not in dims)
    return Reduce(
        name=f"{node.name}{_PART}", shape=left, dtype="float32", source=apart, dims=dims, monoid=node.monoid
    )


_FLOATS = ("float32", "bfloat16", "float16")
_PART = "_shares"
_PARTS, _MOST_PARTS = 16, 256
_LONG, _MANY = 1 << 16, 64
"""Least elements per result for which splitting pays, and least elements of a part."""
_PROGRAMS, _MOST_RESULTS, _LONG_OF_PROGRAMS, _FEW = 2048, 1 << 16, 1 << 12, 32
"""On a GPU: programs that keep it busy, most results, least elements of each, least elements of a part."""
_NEUTRAL: Mapping[Monoid, float] = {
    "sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "logsumexp": -math.inf,
}  # fmt: skip


def _node(graph: Graph, name: str) -> Node:
    return next(n for n in graph.nodes if n.name == name)


def _point(name: str, op: str, like: Node, *args: "Node | float | int") -> Point:
    return Point(name=name, shape=like.shape, dtype=like.dtype, op=op, args=args)
