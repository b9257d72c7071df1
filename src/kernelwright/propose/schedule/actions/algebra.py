"""Algebra: the same value from less work, within rounding."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Node, Point, Reduce
from ._state import State


@dataclass(frozen=True)
class Commute:
    """Multiply after summing: `sum(x * c)` becomes `sum(x) * c` for a number `c`."""

    name = "commute"

    def sites(self, state: State) -> Iterator[str]:
        """Yield sums of products with a number."""
        yield from (n.name for n in state.graph.nodes if _scaled(n) is not None)

    def apply(self, state: State, site: str) -> State:
        """Move the factor behind the sum."""
        total = next(n for n in state.graph.nodes if n.name == site)
        found = _scaled(total)
        assert isinstance(total, Reduce) and found is not None
        source, op, factor = found
        plain = replace(total, name=f"{site}_plain", source=source)
        new = Point(name=site, shape=total.shape, dtype=total.dtype, op=op, args=(plain, factor))
        return replace(state, graph=state.graph.rewritten({total: new}))


def _scaled(node: Node) -> tuple[Node, str, float | int] | None:
    """Return the tensor, the operator and the number where the node sums a scaled tensor."""
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
