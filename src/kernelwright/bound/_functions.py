"""Graph → elements by function: what the vector units must compute, fused into one pass."""

from collections.abc import Iterator

from ..tasks.capture import Graph, Node, Ref
from ._algebra import Algebra, stem_of
from ._masks import Masks

SIMPLE = "simple"
"""One vector instruction an element: an addition, a comparison, a conversion."""
_AS_THEY_ARE = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "sigmoid", "silu", "softplus", "mish",
    "sqrt", "sin", "cos",
})  # fmt: skip
_WRITTEN_OUT = {
    "rsqrt": {"sqrt": 1.0, "div": 1.0}, "reciprocal": {"div": 1.0},
    "_softmax": {"exp": 1.0, SIMPLE: 3.0}, "_log_softmax": {"exp": 1.0, SIMPLE: 3.0},
    "logsumexp": {"exp": 1.0, SIMPLE: 2.0}, "native_layer_norm": {SIMPLE: 4.0}, "native_group_norm": {SIMPLE: 3.0},
    "_native_batch_norm_legit": {SIMPLE: 3.0}, "_native_batch_norm_legit_functional": {SIMPLE: 3.0},
    "_native_batch_norm_legit_no_training": {SIMPLE: 1.0}, "var": {SIMPLE: 2.0}, "elu": {"expm1": 1.0, SIMPLE: 1.0},
    "leaky_relu": {SIMPLE: 2.0}, "hardtanh": {SIMPLE: 2.0}, "clamp": {SIMPLE: 2.0},
    "linalg_vector_norm": {SIMPLE: 1.0},
}  # fmt: skip
"""What others are made of, for each element that goes in; a multiplication and an addition are one."""
_ONE = frozenset({
    "add", "sub", "mul", "maximum", "minimum", "relu", "abs", "neg", "sum", "mean", "amax", "amin", "max", "min",
    "argmax", "argmin", "cumsum", "cumprod", "prod", "where", "eq", "ne", "lt", "le", "gt", "ge",
})  # fmt: skip
_ROOT, _SQUARE, _MOST_MULTIPLIED = 0.5, 2.0, 16.0
_NARROW = ("float32", "float16", "bfloat16")


def functions(graph: Graph, algebra: Algebra, masks: Masks) -> dict[str, float]:
    """Count elements by function, over all elementwise operations, reductions and norms of narrow floats.

    Covers: what is written out of simpler ones (`rsqrt` is a root and a division), or simpler as a whole (mish); a
    division by a number or by what is smaller than the result, which a kernel turns into products; roots, and a value
    times itself, that are written as powers; an addition that takes a product in; what algebra saves, and what masks
    hide.
    Does not cover: float64 and integers.
    """
    counts: dict[str, float] = {}
    for node in graph.ops:
        elements, dtype = _most(graph, node)
        if dtype not in _NARROW:
            continue
        share = algebra.share(node) * masks.seen(node) * (not _is_taken_in(graph, node))
        for name, each in _parts(graph, node).items():
            counts[name] = counts.get(name, 0.0) + each * elements * share
    for node in _mishes(graph):
        count = node.elements * algebra.share(node) * masks.seen(node)
        counts["mish"] = counts.get("mish", 0.0) + count
        for part in ("exp", "log1p", "tanh"):
            counts[part] -= count
    return {name: count for name, count in counts.items() if count}


def _mishes(graph: Graph) -> Iterator[Node]:
    """Yield every `tanh(log(1 + e^x))`: as one function it takes one exponential."""
    for node in graph.ops:
        if stem_of(node) == "tanh" and node.dtype in _NARROW:
            chosen = _of(graph, node, 0)
            log = _of(graph, chosen, 2) if chosen is not None and stem_of(chosen) == "where" else None
            power = _of(graph, log, 0) if log is not None and stem_of(log) == "log1p" else None
            if power is not None and stem_of(power) == "exp":
                yield node


def _is_taken_in(graph: Graph, node: Node) -> bool:
    """Whether a multiplication, or a bias after a product, is half of a multiply-add that is counted elsewhere."""
    users = graph.users(node.name)
    if stem_of(node) == "mul":
        return bool(users) and all(stem_of(u) in ("add", "sub", "sum", "mean") for u in users)
    return False


def _of(graph: Graph, node: Node, position: int) -> Node | None:
    by = node.args[position]
    return graph.node(by.name) if isinstance(by, Ref) else None


def _parts(graph: Graph, node: Node) -> dict[str, float]:
    stem = stem_of(node)
    if stem in _AS_THEY_ARE:
        return {stem: 1.0}
    if stem == "gelu":
        return {"gelu" if node.arguments().get("approximate") == "none" else "gelu_tanh": 1.0}
    if stem == "div":
        return {"div" if _divides_each(graph, node) else SIMPLE: 1.0}
    if stem == "pow":
        power = node.args[1]
        if isinstance(power, int | float) and float(power) in (_SQUARE, _ROOT, -_ROOT):
            return {SIMPLE: 1.0} if power == _SQUARE else {"sqrt": 1.0}
        if isinstance(power, int | float) and power == int(power) and _SQUARE < power <= _MOST_MULTIPLIED:
            return {SIMPLE: float(int(power).bit_length() + int(power).bit_count() - 2)}
        return {"pow": 1.0}
    return _WRITTEN_OUT.get(stem) or ({SIMPLE: 1.0} if stem in _ONE else {})


def _divides_each(graph: Graph, node: Node) -> bool:
    by = node.args[1]
    return isinstance(by, Ref) and graph.node(by.name).elements >= node.elements


def _most(graph: Graph, node: Node) -> tuple[int, str]:
    """Elements and dtype of the largest operand or result."""
    nodes = [n for n in (node, *(graph.node(name) for name in node.refs())) if n.dtype != "tuple"]
    chosen = max(nodes, key=lambda n: n.elements, default=node)
    return chosen.elements, chosen.dtype
