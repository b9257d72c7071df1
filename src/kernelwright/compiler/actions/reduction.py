"""Reductions: in one pass, in two, or split into partial reductions that are combined."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

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
        less = Constant(name=f"{site}_less", shape=(), dtype=node.dtype, values=(-node.correction,))
        rest = _point(f"{site}_rest", "maximum", less, _point(f"{site}_count", "add", less, less, count), 0)
        new = replace(_point(site, "div", squares, squares, rest), name=site)
        return replace(state, graph=state.graph.rewritten({node: new}))

    @staticmethod
    def _sum_of(graph: Graph, node: Reduce) -> Reduce | None:
        """Return a sum over the same elements that is there already."""
        for other in graph.nodes:
            sums = isinstance(other, Reduce) and other.monoid == "sum" and other.source is node.source
            if sums and isinstance(other, Reduce) and other.dims == node.dims:
                return other
        return None


@dataclass(frozen=True)
class Shares:
    """Split a reduction: store partial results, then reduce those: if there are fewer results than threads.

    Legal for long sums, products, extrema and log-sum-exps of floats with few results. The last part is padded
    with neutral elements; partial results are stored in float32, whatever the dtype.
    """

    name = "shares"
    count = 16

    def sites(self, state: State) -> Iterator[str]:
        """Yield long reductions with few results."""
        yield from (n.name for n in state.graph.nodes if isinstance(n, Reduce) and self._dim(n) is not None)

    def _dim(self, node: Reduce) -> int | None:
        """Return the dimension to split: the longest; None if splitting does not pay."""
        kept = product([int(s) for d, s in enumerate(node.source.shape) if d not in node.dims])
        folded = product([int(node.source.shape[d]) for d in node.dims])
        few = 1 < kept < self.count and folded >= _LONG and node.source.dtype in _FLOATS
        longest = max(node.dims, key=lambda d: int(node.source.shape[d]), default=0)
        worth = few and node.monoid in _NEUTRAL and int(node.source.shape[longest]) >= _MANY * self.count
        return longest if worth else None

    def apply(self, state: State, site: str) -> State:
        """Reduce the parts first, then their results."""
        node = _node(state.graph, site)
        assert isinstance(node, Reduce)
        dim = self._dim(node)
        assert dim is not None
        part = self._part(node, dim)
        new = replace(node, source=part, dims=(dim - sum(d < dim for d in node.dims),))
        decisions = replace(state.decisions, before=state.decisions.before | {part.name})
        return replace(state, graph=state.graph.rewritten({node: new}), decisions=decisions)

    def _part(self, node: Reduce, dim: int) -> Reduce:
        """Return the partial results: `(..., count, length / count, ...)`, reduced except along `count`."""
        source, shape = node.source, list(node.source.shape)
        size = shape[dim]
        if isinstance(size, Size) or size % self.count:
            shape[dim] = (size // self.count + 1) * self.count
            source = Pad(
                name=f"{node.name}_filled", shape=tuple(shape), dtype=source.dtype, source=source,
                low=(0,) * len(shape), value=_NEUTRAL[node.monoid],
            )  # fmt: skip
        cut = (*shape[:dim], self.count, shape[dim] // self.count, *shape[dim + 1 :])
        apart = Reshape(name=f"{node.name}_apart", shape=cut, dtype=source.dtype, source=source)
        dims = tuple(d + (d >= dim) for d in node.dims)
        left = tuple(s for d, s in enumerate(cut) if d not in dims)
        return Reduce(
            name=f"{node.name}_shares",
            shape=left,
            dtype="float32",
            source=apart,
            dims=dims,
            monoid=node.monoid,
        )


_FLOATS = ("float32", "bfloat16", "float16")
_LONG, _MANY = 1 << 16, 64
"""Least elements per result for which splitting pays, and least elements of a part."""
_NEUTRAL: Mapping[Monoid, float] = {
    "sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "logsumexp": -math.inf,
}  # fmt: skip


def _node(graph: Graph, name: str) -> Node:
    return next(n for n in graph.nodes if n.name == name)


def _point(name: str, op: str, like: Node, *args: "Node | float | int") -> Point:
    return Point(name=name, shape=like.shape, dtype=like.dtype, op=op, args=args)
