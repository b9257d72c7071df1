"""Graph → the operations that any kernel must do, by unit; counted low if a faster algorithm is known."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..records import Workload
from ..tasks.capture import Graph, Node, Ref
from ._algebra import CONVOLUTION, MATRIX, Algebra, is_pointwise, operand, stem_of
from ._layers import attention, is_attention, is_recurrent, recurrent
from ._masks import of_triangles, triangular_of
from ._views import VIEWS

_HIDES = frozenset(
    {"where", "masked_fill", "tril", "triu", "diag_embed", "eye", "scatter", "index_put", "eq"}
)
_COMPARES = frozenset(f"aten.{name}.Scalar" for name in ("gt", "ge", "lt", "le"))
_MIXES = frozenset({"mm", "bmm", "addmm", "baddbmm", "convolution", "sum", "mean", "native_layer_norm"})
_TRANSCENDENTAL = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh",
    "sigmoid", "erf", "gelu", "pow", "atan", "asin", "acos", "sinh", "cosh", "_softmax",
    "_log_softmax", "logsumexp",
})  # fmt: skip
_SIMPLE = frozenset({
    "add", "sub", "mul", "div", "sqrt", "rsqrt", "reciprocal", "maximum", "minimum", "relu",
    "clamp", "abs", "neg", "leaky_relu", "elu", "hardtanh", "sum", "mean", "amax", "amin", "max",
    "min", "argmax", "argmin", "var", "cumsum", "cumprod", "prod", "linalg_vector_norm",
    "native_layer_norm", "native_group_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
})  # fmt: skip
_SIMPLE_FLOP = 0.5
"""A simple operation is half a multiply-add: adders and multipliers work in parallel."""
_TRANSCENDENTAL_FLOP = 4.0
"""Well below the polynomial of any vector library, which takes 8 or more multiply-adds."""
_VECTOR_UNIT = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}


def work(graph: Graph, workload: Workload) -> dict[str, float]:
    """Count floating-point operations by unit: `tensor-DTYPE` for products, `float32` for the rest.

    Covers: known structure (triangles, masks, diagonals), fast convolution, sums of products, chains.
    Does not cover: fast matrix multiplication (Strassen), which no kernel here uses.
    """
    counts: dict[str, float] = {}
    triangular = triangular_of(workload)
    algebra = Algebra(graph)
    for node in graph.ops:
        for unit, flop in _node_work(algebra, node, triangular):
            if flop > 0:
                counts[unit] = counts.get(unit, 0.0) + flop * algebra.share(node)
    return {unit: flop for unit, flop in counts.items() if flop}


def products_by_definition(graph: Graph) -> float:
    """Count multiply-adds of products and convolutions as they stand, whatever a faster algorithm saves.

    For comparison with bounds that count so; it is no bound, since a kernel may do less.
    """
    algebra = Algebra(graph)
    return sum(
        node.elements * _own_width(algebra, node)
        for node in graph.ops
        if node.op in MATRIX or node.op == CONVOLUTION
    )


@dataclass(frozen=True)
class Saved:
    """A product or convolution of which the bound counts less than stands there."""

    op: str
    """The operation, such as `aten.mm.default`."""
    by_definition: float
    """Multiply-adds as it stands."""
    counted: float
    """Multiply-adds in the bound."""
    rule: str
    """Why a kernel may do less."""


def savings(graph: Graph, workload: Workload) -> tuple[Saved, ...]:
    """Return the products of which `work` counts less than stands there, each with the rule that says why."""
    algebra, triangular = Algebra(graph), triangular_of(workload)
    found = []
    for node in graph.ops:
        if algebra.is_product(node):
            stands = node.elements * _own_width(algebra, node)
            counted = sum(flop for _, flop in _node_work(algebra, node, triangular)) * algebra.share(node) / 2
            if counted < stands:
                found.append(Saved(node.op, stands, counted, _rule(algebra, node, triangular)))
    return tuple(found)


def _rule(algebra: Algebra, node: Node, triangular: frozenset[str]) -> str:
    if algebra.share(node) < 1:
        return "some of its results are not read, repeat others or depend on no input"
    if algebra.ends_in_sum(node):
        return "only sums of its results are used"
    if node.op == CONVOLUTION:
        is_merged = _width(algebra, node) < _own_width(algebra, node)
        return "it is merged with another product" if is_merged else "a convolution by transforms"
    share, rule = _needed_share(algebra, node, triangular)
    return rule if share < 1 else "it is merged with another product"


def _node_work(algebra: Algebra, node: Node, triangular: frozenset[str]) -> Iterator[tuple[str, float]]:
    graph, stem = algebra.graph, stem_of(node)
    if node.op in MATRIX:
        share, _ = _needed_share(algebra, node, triangular)
        yield f"tensor-{node.dtype}", 2.0 * node.elements * _width(algebra, node) * share
    elif node.op == CONVOLUTION:
        yield f"tensor-{node.dtype}", _convolution(algebra, node)
    elif is_attention(node):
        yield f"tensor-{graph.node(operand(node, 0)).dtype}", attention(graph, node)
    elif is_recurrent(node):
        yield f"tensor-{graph.node(operand(node, 0)).dtype}", recurrent(graph, node)
    elif stem in _TRANSCENDENTAL | _SIMPLE:
        elements, dtype = _largest(graph, node)
        if dtype in _VECTOR_UNIT:
            is_hard = stem in _TRANSCENDENTAL and not _is_product(node)
            each = _TRANSCENDENTAL_FLOP if is_hard else _SIMPLE_FLOP
            yield _VECTOR_UNIT[dtype], each * elements


def _is_product(node: Node) -> bool:
    """Whether a power is one of a whole number, which a kernel multiplies."""
    power = node.args[1] if stem_of(node) == "pow" else None
    return isinstance(power, int | float) and float(power).is_integer()


def _needed_share(algebra: Algebra, node: Node, triangular: frozenset[str]) -> tuple[float, str]:
    """Return the share of the full product's operations that no known shortcut saves, and why it is not all."""
    graph, operands = algebra.graph, algebra.factors(node)
    if algebra.ends_in_sum(node):
        return 0.0, "only sums of its results are used"
    if any(_is_structured(graph, o) for o in operands):
        return 0.0, "zeros may have been put into a factor"
    if (share := of_triangles(algebra, node, triangular)) < 1.0:
        return share, "a factor is a triangle"
    users = [*algebra.users_through(node)]
    stems = {stem_of(u) for u in users}
    if any(stem_of(u) in ("where", "masked_fill") and not _decides(algebra, node, u) for u in users):
        return 0.0, "a mask may hide its results"
    return (1 / 2, "half of its results are dropped") if stems & {"tril", "triu"} else (1.0, "")


def _decides(algebra: Algebra, node: Node, user: Node) -> bool:
    """Whether a `where` compares results of the product themselves, as softplus does: each must be known for that."""
    asked = user.args[0] if user.op == "aten.where.self" else user.args[1]
    here = algebra.graph.node(asked.name) if isinstance(asked, Ref) else user
    if here.op not in _COMPARES:
        return False
    while here.name != node.name:
        sources = {*here.refs()}
        if len(sources) != 1 or not (is_pointwise(here) or here.op in VIEWS):
            return False
        here = algebra.graph.node(sources.pop())
    return True


def _width(algebra: Algebra, node: Node) -> float:
    """Products summed for a result; where a factor is itself a product, those of that one if they are fewer."""
    left, right = algebra.factors(node)
    own = _own_width(algebra, node)
    behind = {one.name: one for factor in (left, right) for one in algebra.behind(factor)}
    return min([own, *(_reach(algebra, one) for one in behind.values())])


def _own_width(algebra: Algebra, node: Node) -> float:
    left, right = algebra.factors(node)
    if node.op in MATRIX:
        return float(left.shape[-1])
    if node.arguments()["transposed"]:
        return left.elements / max(node.elements, 1) * math.prod(right.shape[1:])
    return float(math.prod(right.shape[1:]))


def _reach(algebra: Algebra, node: Node) -> float:
    """Products summed for a result by a map that is merged with another: windows may overlap."""
    if node.op in MATRIX:
        return _width(algebra, node)
    return min(_width(algebra, node), algebra.factors(node)[1].shape[1])


def _is_structured(graph: Graph, node: Node) -> bool:
    """Whether zeros may have been inserted since the last dense op."""
    waiting, seen = [node], set()
    while waiting:
        here = waiting.pop()
        stem = stem_of(here)
        if stem in _HIDES:
            return True
        if here.name not in seen and stem not in _MIXES:
            seen.add(here.name)
            waiting.extend(graph.node(name) for name in here.refs())
    return False


def _convolution(algebra: Algebra, node: Node) -> float:
    """Direct products, minus what Winograd and Fourier transforms save.

    Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), section 4:
    F(4, 3) saves a factor of 2 along each axis; long kernels gain more by transforms, about k / 2. With a stride, and
    transposed, windows of k / stride taps are what is left to transform.
    """
    given, weight = node.arguments(), algebra.factors(node)[1]
    kernel = weight.shape[2:]
    stride = given["stride"] if isinstance(given["stride"], tuple) else ()
    strides = (*(s for s in stride if isinstance(s, int)), *(1 for _ in kernel))
    taps = (math.ceil(k / s) for k, s in zip(kernel, strides, strict=False))
    savings = (max(2.0, k / 2) if k > 1 else 1.0 for k in taps)
    flop = 2.0 * node.elements * _width(algebra, node)
    return 0.0 if algebra.ends_in_sum(node) else flop / math.prod(savings)


def _largest(graph: Graph, node: Node) -> tuple[int, str]:
    """Elements and dtype of the largest operand or result of the op."""
    nodes = [node, *(graph.node(name) for name in node.refs())]
    chosen = max((n for n in nodes if n.dtype != "tuple"), key=lambda n: n.elements)
    return chosen.elements, chosen.dtype
