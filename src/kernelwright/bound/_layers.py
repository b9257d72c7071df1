"""Graph → the operations of whole layers: attention and recurrent networks."""

from math import prod

from ..tasks.capture import Graph, Node
from ._algebra import operand, stem_of

_ATTENTION = (
    "aten.scaled_dot_product_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
)
_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def is_attention(node: Node) -> bool:
    """Whether an op is scaled dot-product attention."""
    return node.op in _ATTENTION


def is_recurrent(node: Node) -> bool:
    """Whether an op is a recurrent layer."""
    return stem_of(node) in _RECURRENT


def attention(graph: Graph, node: Node) -> float:
    """Count the two products of attention; none under a mask, of which nothing is known."""
    q, k, v = (graph.node(operand(node, i)).shape for i in range(3))
    given = node.arguments()
    if given.get("attn_mask") is not None:
        return 0.0
    share = 0.5 if given["is_causal"] else 1.0
    return 2.0 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1]) * share


def recurrent(graph: Graph, node: Node) -> float:
    """Every weight once per step and sequence, except one step (state may be zero) and the last layer's reverse pass.

    In that pass only one step may be needed; if the last step or layer is not read, nothing is counted.
    """
    given, x = node.arguments(), graph.node(operand(node, 0))
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
