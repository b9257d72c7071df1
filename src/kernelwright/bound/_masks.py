"""Graph → the share of each result that a mask lets through, where the mask depends on no input."""

from collections.abc import Mapping

import torch

from ..records import TensorSpec, Workload
from ..tasks.capture import Argument, Graph, Node, Ref
from ._algebra import MATRIX, Algebra, is_pointwise, stem_of
from ._views import VIEWS

_MOST_ELEMENTS = 1 << 24
"""Elements of a mask above which it is not computed."""
_ROWS = frozenset({"_softmax", "_log_softmax", "_safe_softmax"})


def triangular_of(workload: Workload) -> frozenset[str]:
    """Return the names of arguments that are drawn as triangles."""
    specs = (a for a in workload.arguments if isinstance(a, TensorSpec))
    return frozenset(a.name for a in specs if a.distribution.kind == "triangular")


def of_triangles(algebra: Algebra, node: Node, triangular: frozenset[str]) -> float:
    """Return the share of a product's operations that triangles among its factors leave."""
    count = sum(_source(algebra.graph, factor).name in triangular for factor in algebra.factors(node))
    return (1.0, 1 / 2, 1 / 6)[count]


def _source(graph: Graph, node: Node) -> Node:
    while node.op in VIEWS and isinstance(node.args[0], Ref):
        node = graph.node(node.args[0].name)
    return node


class Masks:
    """What masks hide of a graph's results: a kernel that knows a mask skips what it hides.

    Covers: masks made of sizes alone, set by `where` or added as minus infinity; triangles, of inputs too.
    Does not cover: masks that are inputs or buffers: of those nothing is known here, and all counts as seen.
    """

    def __init__(self, graph: Graph, algebra: Algebra, workload: Workload | None = None) -> None:
        self.graph, self._algebra = graph, algebra
        self.triangular = triangular_of(workload) if workload is not None else frozenset[str]()
        self._made: dict[str, torch.Tensor | None] = {}
        self._shares: dict[str, float] = {}
        for node in graph.nodes:
            self._shares[node.name] = self._share(node)

    def seen(self, node: Node) -> float:
        """Return the share of an op's work on what a mask lets through."""
        if not self._algebra.is_product(node):
            return self._shares[node.name]
        ends = [self._shares[u.name] for u in self._algebra.users_through(node) if u.name in self._shares]
        factors = [self._shares[factor.name] for factor in self._algebra.factors(node)]
        if node.op in MATRIX:
            factors.append(of_triangles(self._algebra, node, self.triangular))
        return min(max(ends, default=1.0) if node.name not in self.graph.outputs else 1.0, *factors)

    def _share(self, node: Node) -> float:
        if node.name in self._algebra.lasting:
            return 1.0
        refs = [self.graph.node(name) for name in node.refs()]
        before = min((self._shares[r.name] for r in refs), default=1.0)
        stem = stem_of(node)
        if stem in ("tril", "triu"):
            return before * self._triangle(node)
        if stem == "where":
            return before * self._let_through(node)
        if stem == "add" and len(refs) == 2:
            added = [made for r in refs if (made := self._value(r)) is not None]
            return before * min((float((m != -torch.inf).double().mean()) for m in added), default=1.0)
        passes = is_pointwise(node) or node.op in VIEWS or stem in _ROWS
        return before if passes else 1.0

    def _triangle(self, node: Node) -> float:
        rows, columns = node.shape[-2:]
        if rows * columns > _MOST_ELEMENTS:
            return 0.0
        keep = getattr(torch, stem_of(node))
        return float(keep(torch.ones(rows, columns), int(str(node.arguments()["diagonal"]))).mean())

    def _let_through(self, node: Node) -> float:
        chosen = node.args[0]
        mask = self._value(self.graph.node(chosen.name)) if isinstance(chosen, Ref) else None
        numbers = [
            isinstance(a, Ref) and self._value(self.graph.node(a.name)) is not None for a in node.args[1:3]
        ]
        if mask is None or all(numbers) or not any(numbers):
            return 1.0
        share = float(mask.double().mean())
        return 1.0 - share if numbers[0] else share

    def _value(self, node: Node) -> torch.Tensor | None:
        """Compute a small tensor that depends on nothing but sizes."""
        if node.name not in self._made:
            self._made[node.name] = self._computed(node)
        return self._made[node.name]

    def _computed(self, node: Node) -> torch.Tensor | None:
        if (
            node.elements > _MOST_ELEMENTS
            or node.dtype == "tuple"
            or node.op in ("input", "state", "getitem")
        ):
            return None
        if node.name not in self._algebra.lasting:
            return None
        if node.op == "constant":
            value = dict(node.kwargs).get("value")
            if not isinstance(value, tuple):
                return None
            return torch.tensor(value, dtype=getattr(torch, node.dtype)).reshape(node.shape)
        values = {name: self._value(self.graph.node(name)) for name in node.refs()}
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) < len(values):
            return None
        _, packet, overload = node.op.split(".")
        args = [_real(a, known) for a in node.args]
        kwargs = {k: _real(v, known) for k, v in node.kwargs if k not in ("device", "layout", "pin_memory")}
        found = getattr(getattr(torch.ops.aten, packet), overload)(*args, **kwargs)
        return found if isinstance(found, torch.Tensor) else None


def _real(argument: Argument, known: Mapping[str, torch.Tensor]) -> object:
    if isinstance(argument, Ref):
        return known[argument.name]
    if isinstance(argument, tuple):
        return [_real(a, known) for a in argument]
    if isinstance(argument, str) and isinstance(getattr(torch, argument, None), torch.dtype):
        return getattr(torch, argument)
    return argument
