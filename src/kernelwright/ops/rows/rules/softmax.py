"""Softmax and log-softmax over one dimension."""

from ....languages.vectors import Unprintable
from ....tasks.capture import Node
from .._program import Builder, Value, rule


def _shifted(b: Builder, node: Node) -> tuple[Value, Value, int]:
    dim = node.args[1]
    if not isinstance(dim, int):
        raise Unprintable(f"softmax over {dim!r}")
    x = b.get(node.args[0])
    return x, b.point("sub", x, b.reduce("max", x, (dim,), keepdim=True)), dim


@rule("_softmax", "softmax")
def _softmax(b: Builder, node: Node) -> Value:
    return _plain(b, node)


def _plain(b: Builder, node: Node) -> Value:
    _, shifted, dim = _shifted(b, node)
    powers = b.point("exp", shifted)
    return b.point("mul", powers, b.point("reciprocal", b.reduce("sum", powers, (dim,), keepdim=True)))


@rule("_safe_softmax")
def _safe_softmax(b: Builder, node: Node) -> Value:
    x, _, dim = _shifted(b, node)
    peak = b.reduce("max", x, (dim,), keepdim=True)
    return b.point("where", b.point("eq", peak, float("-inf")), 0.0, _plain(b, node))


@rule("_log_softmax", "log_softmax")
def _log_softmax(b: Builder, node: Node) -> Value:
    _, shifted, dim = _shifted(b, node)
    total = b.reduce("sum", b.point("exp", shifted), (dim,), keepdim=True)
    return b.point("sub", shifted, b.point("log", total))
