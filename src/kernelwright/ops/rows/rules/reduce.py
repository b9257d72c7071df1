"""Reductions: sums, means, extremes, variances, norms, logical folds."""

import math

from ....languages.vectors import FLOATS, Unprintable
from ....tasks.capture import Node
from .._program import Builder, ReduceKind, Value, rule
from .shape import _ints


def _dims(node: Node, name: str = "dim") -> tuple[int, ...]:
    value = node.arguments().get(name)
    return () if value is None else _ints(value)


def _keepdim(node: Node) -> bool:
    return bool(node.arguments().get("keepdim", False))


def _input(b: Builder, node: Node) -> Value:
    if node.dtype not in FLOATS | {"bool", "tuple", "int64"}:
        raise Unprintable(f"{node.op} computes in {node.dtype}")
    return b.get(node.args[0])


@rule("sum")
def _sum(b: Builder, node: Node) -> Value:
    if node.dtype not in FLOATS:
        raise Unprintable("an integer sum")
    return b.reduce("sum", _input(b, node), _dims(node), keepdim=_keepdim(node))


@rule("mean")
def _mean(b: Builder, node: Node) -> Value:
    return b.mean(_input(b, node), _dims(node), keepdim=_keepdim(node))


@rule("prod")
def _prod(b: Builder, node: Node) -> Value:
    return b.reduce("product", _input(b, node), _dims(node), keepdim=_keepdim(node))


@rule("amax")
def _amax(b: Builder, node: Node) -> Value:
    return b.reduce("max", _input(b, node), _dims(node), keepdim=_keepdim(node))


@rule("amin")
def _amin(b: Builder, node: Node) -> Value:
    return b.reduce("min", _input(b, node), _dims(node), keepdim=_keepdim(node))


@rule("argmax", "argmin")
def _arg(b: Builder, node: Node) -> Value:
    kind: ReduceKind = "argmax" if "argmax" in node.op else "argmin"
    return b.reduce(kind, _input(b, node), _dims(node), keepdim=_keepdim(node))


@rule("max", "min")
def _extreme(b: Builder, node: Node) -> Value | tuple[Value | None, ...]:
    """Extreme of all elements, along one dimension with its position, or elementwise."""
    overload = node.op.split(".")[2]
    kind: ReduceKind = "max" if node.op.startswith("aten.max") else "min"
    x = _input(b, node)
    if overload == "other":
        return b.point(f"{kind}imum", x, b.get(node.args[1]))
    value = b.reduce(kind, x, _dims(node), keepdim=_keepdim(node))
    if overload == "default":
        return value
    where: ReduceKind = "argmax" if kind == "max" else "argmin"
    return value, b.reduce(where, x, _dims(node), keepdim=_keepdim(node))


@rule("any", "all")
def _logical(b: Builder, node: Node) -> Value:
    truth = b.point("ne", b.get(node.args[0]), 0)
    kind: ReduceKind = "max" if node.op.startswith("aten.any") else "min"
    return b.point("ne", b.reduce(kind, truth, _dims(node), keepdim=_keepdim(node)), 0)


def moments(b: Builder, x: Value, dims: tuple[int, ...]) -> tuple[Value, Value]:
    """Return mean and sum of squared deviations, dimensions kept: two passes over a cached row."""
    mean = b.mean(x, dims, keepdim=True)
    squares = b.point("square", b.point("sub", x, mean))
    return mean, b.reduce("sum", squares, dims, keepdim=True)


def _drop(b: Builder, x: Value, dims: tuple[int, ...], rank: int) -> Value:
    chosen = {d % rank for d in dims} or set(range(rank))
    return b.with_dims(x, tuple(a for d, a in enumerate(x.dims) if d not in chosen))


@rule("var", "std", "var_mean", "std_mean")
def _var(b: Builder, node: Node) -> Value | tuple[Value | None, ...]:
    x, dims = _input(b, node), _dims(node)
    correction = node.arguments().get("correction", 1)
    correction = 1 if correction is None else correction
    if not isinstance(correction, int | float):
        raise Unprintable(f"correction {correction!r}")
    mean, squares = moments(b, x, dims)
    freedom = b.point("clamp", b.point("sub", b.count(x, dims), float(correction)), 0.0)
    result = b.point("div", squares, freedom)
    if "std" in node.op:
        result = b.point("sqrt", result)
    if not _keepdim(node):
        result, mean = (_drop(b, v, dims, len(x.dims)) for v in (result, mean))
    return (result, mean) if node.dtype == "tuple" else result


@rule("linalg_vector_norm", "norm")
def _norm(b: Builder, node: Node) -> Value:
    arguments = node.arguments()
    order = arguments.get("ord", arguments.get("p"))
    order = 2.0 if order is None else order
    x, dims, keepdim = _input(b, node), _dims(node), _keepdim(node)
    size = b.point("abs", x)
    match order:
        case 2:
            return b.point("sqrt", b.reduce("sum", b.point("square", x), dims, keepdim=keepdim))
        case 1:
            return b.reduce("sum", size, dims, keepdim=keepdim)
        case 0:
            return b.reduce("sum", b.point("ne", x, 0), dims, keepdim=keepdim)
        case math.inf:
            return b.reduce("max", size, dims, keepdim=keepdim)
        case int() | float() if order > 0:
            total = b.reduce("sum", b.point("pow", size, float(order)), dims, keepdim=keepdim)
            return b.point("pow", total, 1.0 / float(order))
        case _:
            raise Unprintable(f"norm of order {order!r}")


@rule("logsumexp")
def _logsumexp(b: Builder, node: Node) -> Value:
    x, dims = _input(b, node), _dims(node)
    peak = b.point("finite", b.reduce("max", x, dims, keepdim=True))
    total = b.reduce("sum", b.point("exp", b.point("sub", x, peak)), dims, keepdim=True)
    result = b.point("add", b.point("log", total), peak)
    return result if _keepdim(node) else _drop(b, result, dims, len(x.dims))
