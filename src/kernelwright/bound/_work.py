"""Graph → the operations that any kernel must do, by unit; counted low if a faster algorithm is known."""

import math
from collections.abc import Iterator

from ..records import TensorSpec, Workload
from ..tasks.capture import Graph, Node, Ref
from ._traffic import VIEWS

_MATRIX = {
    "aten.mm.default": (0, 1), "aten.bmm.default": (0, 1), "aten.addmm.default": (1, 2),
    "aten.baddbmm.default": (1, 2), "aten.dot.default": (0, 1), "aten.mv.default": (0, 1),
}  # fmt: skip
"""Matrix products, with the positions of their operands."""
_ATTENTION = (
    "aten.scaled_dot_product_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
)
_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_LINEAR = VIEWS | {
    "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Scalar", "aten.div.Scalar", "aten.add.Scalar", "aten.neg.default",
    "getitem",
}  # fmt: skip
_SUMS = frozenset({"aten.sum.dim_IntList", "aten.sum.default", "aten.mean.dim", "aten.mean.default"})
_HIDES = frozenset(
    {"where", "masked_fill", "tril", "triu", "diag_embed", "eye", "scatter", "index_put", "eq"}
)
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
    triangular = {
        a.name for a in workload.arguments
        if isinstance(a, TensorSpec) and a.distribution.kind == "triangular"
    }  # fmt: skip
    for node in graph.ops:
        for unit, flop in _node_work(graph, node, triangular):
            if flop > 0:
                counts[unit] = counts.get(unit, 0.0) + flop
    return counts


def products(graph: Graph) -> dict[str, float]:
    """Count the operations of products as the usual algorithms do them, by unit; a fast convolution saves nothing.

    Covers: products of matrices, convolutions, attention, recurrent layers; half of what is causal.
    Does not cover: what a fast algorithm or known structure would save; what is attainable counts them in full.
    """
    counts: dict[str, float] = {}
    for node in graph.ops:
        if node.op in _MATRIX:
            dtype, flop = (
                node.dtype,
                2.0 * node.elements * graph.node(_name(node, _MATRIX[node.op][0])).shape[-1],
            )
        elif node.op == "aten.convolution.default":
            weight = graph.node(_name(node, 1))
            base = graph.node(_name(node, 0)) if node.arguments()["transposed"] else node
            dtype, flop = node.dtype, 2.0 * base.elements * math.prod(weight.shape[1:])
        elif node.op in _ATTENTION:
            dtype, flop = graph.node(_name(node, 0)).dtype, _attention(graph, node)
        elif node.op.removeprefix("aten.").split(".")[0] in _RECURRENT:
            dtype, flop = graph.node(_name(node, 0)).dtype, _recurrent(graph, node)
        else:
            continue
        counts[f"tensor-{dtype}"] = counts.get(f"tensor-{dtype}", 0.0) + flop
    return counts


def _node_work(graph: Graph, node: Node, triangular: set[str]) -> Iterator[tuple[str, float]]:
    stem = node.op.removeprefix("aten.").split(".")[0]
    if node.op in _MATRIX:
        a, b = (graph.node(_name(node, position)) for position in _MATRIX[node.op])
        share = _needed_share(graph, node, (a, b), triangular)
        yield f"tensor-{node.dtype}", 2.0 * node.elements * a.shape[-1] * share
    elif node.op == "aten.convolution.default":
        yield f"tensor-{node.dtype}", _convolution(graph, node)
    elif node.op in _ATTENTION:
        yield f"tensor-{graph.node(_name(node, 0)).dtype}", _attention(graph, node)
    elif stem in _RECURRENT:
        yield f"tensor-{graph.node(_name(node, 0)).dtype}", _recurrent(graph, node)
    elif stem in _TRANSCENDENTAL | _SIMPLE:
        elements, dtype = _largest(graph, node)
        if dtype in _VECTOR_UNIT:
            each = _TRANSCENDENTAL_FLOP if stem in _TRANSCENDENTAL else _SIMPLE_FLOP
            yield _VECTOR_UNIT[dtype], each * elements


def _needed_share(graph: Graph, node: Node, operands: tuple[Node, Node], triangular: set[str]) -> float:
    """Share of the full product's operations that no known shortcut saves."""
    if _ends_in_sum(graph, node) or any(_is_structured(graph, o) for o in operands):
        return 0.0
    triangles = sum(_source(graph, o).name in triangular for o in operands)
    if triangles:
        return 1 / 2 if triangles == 1 else 1 / 6
    stems = {u.op.removeprefix("aten.").split(".")[0] for u in _users_through(graph, node)}
    if stems & {"where", "masked_fill"}:
        return 0.0
    return 1 / 2 if stems & {"tril", "triu"} else 1.0


def _ends_in_sum(graph: Graph, node: Node) -> bool:
    """Whether only sums or further products of the result are used: they can be reordered."""
    if any(name in graph.outputs for name in _linear_reach(graph, node)):
        return False
    ends = list(_users_through(graph, node))
    return bool(ends) and all(u.op in _SUMS or u.op in _MATRIX for u in ends)


def _linear_reach(graph: Graph, node: Node) -> Iterator[str]:
    waiting, seen = [node.name], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting.extend(u.name for u in graph.users(name) if _is_linear(u))


def _users_through(graph: Graph, node: Node) -> Iterator[Node]:
    """The first users that are not linear elementwise ops."""
    for name in _linear_reach(graph, node):
        yield from (u for u in graph.users(name) if not _is_linear(u))


def _is_linear(node: Node) -> bool:
    if node.op in ("aten.mul.Tensor", "aten.div.Tensor"):
        return not isinstance(node.args[1], Ref)
    return node.op in _LINEAR


def _is_structured(graph: Graph, node: Node) -> bool:
    """Whether zeros may have been inserted since the last dense op."""
    waiting, seen = [node], set()
    while waiting:
        here = waiting.pop()
        stem = here.op.removeprefix("aten.").split(".")[0]
        if stem in _HIDES:
            return True
        if here.name not in seen and stem not in _MIXES:
            seen.add(here.name)
            waiting.extend(graph.node(name) for name in here.refs())
    return False


def _source(graph: Graph, node: Node) -> Node:
    while node.op in VIEWS and isinstance(node.args[0], Ref):
        node = graph.node(node.args[0].name)
    return node


def _convolution(graph: Graph, node: Node) -> float:
    """Direct products, minus what Winograd and Fourier transforms save.

    Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), section 4:
    F(4, 3) saves a factor of 2 along each axis; long kernels gain more by transforms, about k / 2.
    """
    given = node.arguments()
    source, weight = graph.node(_name(node, 0)), graph.node(_name(node, 1))
    kernel = weight.shape[2:]
    stride = given["stride"] if isinstance(given["stride"], tuple) else ()
    base = source if given["transposed"] else node
    flop = 2.0 * base.elements * weight.shape[1] * math.prod(kernel)
    strides = (*(s for s in stride if isinstance(s, int)), *(1 for _ in kernel))
    savings = (max(2.0, k / 2) if k > 1 and s == 1 else 1.0 for k, s in zip(kernel, strides, strict=False))
    return 0.0 if _ends_in_sum(graph, node) else flop / math.prod(savings)


def _attention(graph: Graph, node: Node) -> float:
    q, k, v = (graph.node(_name(node, i)).shape for i in range(3))
    given = node.arguments()
    if given.get("attn_mask") is not None:
        return 0.0
    share = 0.5 if given["is_causal"] else 1.0
    return 2.0 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1]) * share


def _recurrent(graph: Graph, node: Node) -> float:
    """Every weight once per step and sequence, except one step (state may be zero) and the last layer's reverse pass.

    In that pass only one step may be needed; if the last step or layer is not read, nothing is counted.
    """
    given, x = node.arguments(), graph.node(_name(node, 0))
    steps = x.shape[1 if given["batch_first"] else 0]
    results = graph.users(node.name)
    sizes = {u.name: steps if u.args[1] == 0 else u.shape[0] for u in results}
    readers = [(r, sizes[u.name]) for u in results for r in graph.users(u.name)]
    if not sizes.keys() & set(graph.outputs) and all(_stops_early(r, size) for r, size in readers):
        return 0.0
    weights = [graph.node(name) for name in node.refs()]
    weights = [w for w in weights[1:] if len(w.shape) == 2]
    back = len(weights) // (2 * int(str(given["num_layers"]))) if given["bidirectional"] else 0
    elements = sum(w.elements for w in weights[: len(weights) - back])
    return 2.0 * elements * x.elements / x.shape[-1] * (steps - 1) / steps


def _stops_early(reader: Node, size: int) -> bool:
    """Whether the last of `size` steps, or layers, is not read."""
    given = reader.arguments()
    if reader.op == "aten.select.int":
        return given["index"] not in (-1, size - 1)
    end = given.get("end")
    return reader.op == "aten.slice.Tensor" and isinstance(end, int) and end < size


def _largest(graph: Graph, node: Node) -> tuple[int, str]:
    """Elements and dtype of the largest operand or result of the op."""
    nodes = [node, *(graph.node(name) for name in node.refs())]
    chosen = max((n for n in nodes if n.dtype != "tuple"), key=lambda n: n.elements)
    return chosen.elements, chosen.dtype


def _name(node: Node, position: int) -> str:
    argument = node.args[position]
    if not isinstance(argument, Ref):
        raise TypeError(f"argument {position} of {node.name} is {argument!r}; expected a tensor")
    return argument.name
