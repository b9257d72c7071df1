"""Graph → the bytes that any kernel must read and write, whatever its algorithm."""

import math
from dataclasses import dataclass

from ..records import Contract, TensorSpec, Workload
from ..tasks.capture import Graph, Node, Ref
from ._algebra import Algebra
from ._views import PARTS, ROWS, VIEWS, WINDOWS, as_int, covered

_SCATTERS = frozenset(
    f"aten.{name}"
    for name in (
        "slice_scatter.default", "select_scatter.default", "index_put.default", "scatter.src", "scatter.value",
        "scatter_add.default", "index_add.default", "index_copy.default", "copy.default",
    )
)  # fmt: skip
_MAY_STOP_EARLY = frozenset({"aten.any.default", "aten.any.dim", "aten.all.default", "aten.all.dim"})
_HALVES = frozenset({"aten.tril.default", "aten.triu.default"})
_POOLS = {
    "aten.max_pool2d_with_indices.default": 2, "aten.max_pool3d_with_indices.default": 3,
    "aten.avg_pool2d.default": 2, "aten.avg_pool3d.default": 3,
}  # fmt: skip


@dataclass(frozen=True)
class Traffic:
    """Unavoidable bytes of one call."""

    read_bytes: int
    """Bytes of inputs and state, each once, and only what can affect the result."""
    written_bytes: int
    """Bytes of outputs and of inputs and state that change."""

    @property
    def total_bytes(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes


def traffic(graph: Graph, workload: Workload, contract: Contract) -> Traffic:
    """Count the bytes that must cross between a kernel and its arguments, state and outputs.

    Covers: unused inputs, slices, rows that indices select, windows with gaps, triangular inputs,
    outputs that may alias an input; parameters that sums and products ahead of the calls make smaller.
    Does not cover: intermediate results (a fused kernel has none) and the granularity of cache lines.
    """
    reader = _Reader(graph, workload, contract)
    read = sum(reader.touched(name) for name in dict.fromkeys([*filter(None, graph.inputs), *graph.state]))
    written = sum(reader.written(name) for name in dict.fromkeys(graph.outputs))
    written += sum(reader.changed(new) for _, new in graph.mutations)
    return Traffic(read_bytes=math.floor(read), written_bytes=math.floor(written))


class _Reader:
    def __init__(self, graph: Graph, workload: Workload, contract: Contract) -> None:
        self.graph, self.workload, self.contract = graph, workload, contract
        self.algebra = Algebra(graph)
        self.specs = {a.name: a for a in workload.arguments if isinstance(a, TensorSpec)}

    def touched(self, name: str) -> float:
        """Bytes of a node's result that are needed."""
        node = self.graph.node(name)
        size = float(node.size_bytes)
        if name in self.specs and self.specs[name].distribution.kind == "triangular":
            size /= 2
        if name in self.graph.outputs and not (node.op in ("input", "state") and self.contract.may_alias):
            return size
        users = self.graph.users(name)
        windows = [u for u in users if u.op in WINDOWS and u.args[0] == Ref(name)]
        needs = [self._needed(node, user) for user in users if user not in windows]
        seen = [u for u in windows if self.touched(u.name)]
        needed = max([*needs, size * covered(node, seen)], default=0.0)
        return min(size * self.algebra.read[name], needed)

    def _needed(self, node: Node, user: Node) -> float:
        size = float(node.size_bytes)
        first = bool(user.args) and user.args[0] == Ref(node.name)
        if first and user.op == "aten.copy.default":
            return 0.0
        if node.name in self.algebra.lasting:
            if user.name in self.algebra.lasting:
                return min(size, self.touched(user.name))
            if self._is_merged(node, user):
                return 0.0
        if first and user.op in VIEWS:
            return self._needed_by_view(size, user)
        if user.op in ROWS and user.args[ROWS[user.op][0]] == Ref(node.name):
            return self._rows(node, user)
        if first and user.op == "aten.index.Tensor":
            return 0.0 if self.workload.regime != "declared" else min(size, user.elements)
        if first and user.op in PARTS:
            return min(size, user.size_bytes)
        if user.op in _MAY_STOP_EARLY or (first and (node.name, user.name) in self.graph.mutations):
            return 0.0 if user.op in _MAY_STOP_EARLY | _SCATTERS else size
        if user.op in _HALVES:
            return size / 2
        if user.op in ("aten.where.self", "aten.masked_fill.Scalar") and self._is_structural_mask(node, user):
            return 0.0
        return size * _window_share(user) if first else size

    def _is_merged(self, node: Node, user: Node) -> bool:
        """Whether parameters of a product are summed, or multiplied with others, ahead of the calls."""
        if not self.algebra.is_product(user):
            return False
        others = [factor for factor in self.algebra.factors(user) if factor.name != node.name]
        return self.algebra.ends_in_sum(user) or any(any(self.algebra.behind(one)) for one in others)

    def _needed_by_view(self, size: float, user: Node) -> float:
        if user.name in self.graph.outputs:
            return 0.0 if self.contract.may_alias and user.op != "aten.clone.default" else size
        share = self.touched(user.name) / user.size_bytes if user.size_bytes else 0.0
        return size * share

    def _rows(self, table: Node, user: Node) -> float:
        """Expected bytes of distinct rows under random indices; one row's worth is safe otherwise."""
        position = ROWS[user.op][1]
        index = user.args[position]
        if self.workload.regime != "declared" or not isinstance(index, Ref):
            return 0.0
        drawn = self.specs.get(index.name)
        if drawn is None or drawn.distribution.kind not in ("integers", "permutation") or not table.shape:
            return 0.0
        if drawn.distribution.kind == "permutation":
            return min(float(table.size_bytes), float(user.size_bytes))
        if user.op == "aten.gather.default":
            choices, picks = table.elements, user.elements
        else:
            axis = 0 if user.op == "aten.embedding.default" else as_int(user.args[1])
            choices, picks = table.shape[axis], self.graph.node(index.name).elements
        span = drawn.distribution.high - drawn.distribution.low
        choices = max(1, min(choices, int(span))) if user.op != "aten.gather.default" else max(1, choices)
        unit = table.size_bytes / (table.elements if user.op == "aten.gather.default" else table.shape[axis])
        return choices * -math.expm1(picks * math.log1p(-1 / choices)) * unit if choices > 1 else unit

    def _is_structural_mask(self, node: Node, user: Node) -> bool:
        """Whether the mask depends on no input, so that a kernel knows what it hides."""
        mask = user.args[0] if user.op == "aten.where.self" else user.args[1]
        if not isinstance(mask, Ref) or mask.name == node.name:
            return False
        waiting, seen = [mask.name], set()
        while waiting:
            name = waiting.pop()
            if self.graph.node(name).op == "input":
                return False
            if name not in seen:
                seen.add(name)
                waiting.extend(self.graph.node(name).refs())
        return True

    def written(self, name: str) -> float:
        """Bytes of an output that must be stored beyond what changes in place."""
        node = self.graph.node(name)
        size = float(node.size_bytes)
        changed = {new for _, new in self.graph.mutations}
        through = (VIEWS | WINDOWS) - {"aten.clone.default"}
        while node.name not in changed and node.op in through and isinstance(node.args[0], Ref):
            node = self.graph.node(node.args[0].name)
            size = min(size, node.size_bytes)
        outside = node.op in ("input", "state") and self.contract.may_alias
        return 0.0 if node.name in changed or outside else size

    def changed(self, name: str) -> float:
        """Bytes that change of an input or of state; for a scatter only the updates."""
        node = self.graph.node(name)
        if node.op not in _SCATTERS:
            return float(node.size_bytes)
        parts = [self.graph.node(r).size_bytes for r in list(node.refs())[1:]]
        return float(min(parts, default=0))


def _window_share(user: Node) -> float:
    """Share of the input under windows that may leave gaps: pooling and convolution."""
    given = user.arguments() if user.op in _POOLS or user.op == "aten.convolution.default" else {}
    if not given or given.get("transposed"):
        return 1.0
    stride = given["stride"] or given.get("kernel_size")
    kernel = given.get("kernel_size")
    if kernel is None:
        return math.prod(1 / as_int(s) for s in _ints(stride))
    rank = _POOLS[user.op]
    return math.prod(
        min(1.0, k / s)
        for k, s in zip(_spread(_ints(kernel), rank), _spread(_ints(stride), rank), strict=True)
    )


def _spread(values: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return values * rank if len(values) == 1 else values


def _ints(value: object) -> tuple[int, ...]:
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else (as_int(value),)
