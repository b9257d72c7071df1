"""Sums of linear maps: sum first, then map."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Contract, Expand, Graph, Node, Point, Reduce
from ._state import State
from ._windows import summed_windows


@dataclass(frozen=True)
class Commute:
    """Sum before a linear map: `sum(x * c)` becomes `sum(x) * c`, `sum(x @ w)` over rows `sum(x) @ w`.

    A sum over the columns of a product sums those of its weights first; one over an axis of both factors is one more
    axis that the product sums. A bias between is summed apart. Legal for a number `c`, and in float32 for products
    that nothing else reads: half precision would round the sum of a factor, whose elements it rounds already.
    """

    name = "commute"

    def sites(self, state: State) -> Iterator[str]:
        """Yield sums of what a linear map gives."""
        yield from (n.name for n in state.graph.nodes if _commuted(state.graph, n) is not None)

    def apply(self, state: State, site: str) -> State:
        """Move the map behind the sum."""
        total = next(n for n in state.graph.nodes if n.name == site)
        new = _commuted(state.graph, total)
        assert new is not None
        return replace(state, graph=state.graph.rewritten({total: new}))


def _commuted(graph: Graph, total: Node) -> Node | None:
    """Return a sum as the map of a sum; None if it sums no linear map."""
    if not isinstance(total, Reduce) or total.monoid != "sum":
        return None
    if (found := _scaled(total)) is not None:
        source, op, factor = found
        plain: Node = replace(total, name=f"{total.name}_plain", source=source)
        plain = _commuted(graph, plain) or plain
        return Point(name=total.name, shape=total.shape, dtype=total.dtype, op=op, args=(plain, factor))
    return _multiplied(graph, total) or _apart(graph, total)


def _multiplied(graph: Graph, total: Reduce) -> Contract | None:
    """Return the sum of a product as a product of sums."""
    found = total.source
    single = isinstance(found, Contract) and total.dtype == found.dtype == "float32"
    if not isinstance(found, Contract) or not single or not graph.read_once(found):
        return None
    one, two, out = found.labels
    summed = "".join(out[d] for d in total.dims)
    alone = "".join(c for c in summed if c not in two)
    dims = tuple(d for d, c in enumerate(one) if c in alone)
    windows = summed_windows(graph, found, dims, f"{total.name}_left")
    if windows is not None:
        left, one = windows, "".join(c for c in one if c not in alone)
    else:
        left, one = _summed(found.left, one, alone, f"{total.name}_left")
    right, two = _summed(found.right, two, "".join(c for c in summed if c not in one), f"{total.name}_right")
    kept = "".join(c for c in out if c not in summed)
    return replace(found, name=total.name, shape=total.shape, left=left, right=right, labels=(one, two, kept))


def _summed(factor: Node, labels: str, gone: str, name: str) -> tuple[Node, str]:
    """Sum a factor over axes that only it has; returns it with the remaining labels."""
    dims = tuple(d for d, c in enumerate(labels) if c in gone)
    if not dims:
        return factor, labels
    shape = tuple(size for d, size in enumerate(factor.shape) if d not in dims)
    summed = Reduce(name=name, shape=shape, dtype=factor.dtype, source=factor, dims=dims, monoid="sum")
    return summed, "".join(c for c in labels if c not in gone)


def _apart(graph: Graph, total: Reduce) -> Point | None:
    """Return the sum of a product and a bias as the sum of each."""
    source = total.source
    if (
        not isinstance(source, Point)
        or source.op not in ("add", "sub")
        or source.options
        or len(source.args) != 2
    ):
        return None
    parts = []
    for place, term in enumerate(source.args):
        if not isinstance(term, Node) or term.dtype != source.dtype:
            return None
        wide = term if term.shape == source.shape else Expand(
            name=f"{term.name}_wide", shape=source.shape, dtype=term.dtype, source=term
        )  # fmt: skip
        parts.append(replace(total, name=f"{total.name}_term{place}", source=wide))
    if not graph.read_once(source):
        return None
    maps = [_multiplied(graph, part) for part in parts]
    if not any(maps):
        return None
    terms = tuple(new or part for new, part in zip(maps, parts, strict=True))
    return Point(name=total.name, shape=total.shape, dtype=total.dtype, op=source.op, args=terms)


def _scaled(node: Node) -> tuple[Node, str, float | int] | None:
    """Return the tensor, the operator and the number if the node sums a scaled tensor."""
    if not (isinstance(node, Reduce) and node.monoid == "sum" and isinstance(node.source, Point)):
        return None
    scaled = node.source
    if scaled.op not in ("mul", "div") or len(scaled.args) != 2 or scaled.options:
        return None
    x, factor = scaled.args
    fits = isinstance(x, Node) and x.shape == scaled.shape and x.dtype == scaled.dtype
    if not fits or not isinstance(x, Node) or isinstance(factor, Node | bool) or factor is None:
        return None
    return x, scaled.op, factor
