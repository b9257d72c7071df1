"""Reductions, scans, softmax."""

from ....tasks.capture import Node as Captured
from .._nodes import Monoid, Node, Scan
from .._reader import NotRead, Reader, Result, ints, rule

_MONOIDS: dict[str, Monoid] = {
    "sum": "sum", "prod": "prod", "amax": "max", "amin": "min", "any": "any", "all": "all",
    "argmax": "argmax", "argmin": "argmin", "logsumexp": "logsumexp",
}  # fmt: skip


def _dims(op: Captured) -> tuple[int, ...]:
    value = op.arguments().get("dim")
    return () if value is None else ints(value)


def _keeps(op: Captured) -> bool:
    return bool(op.arguments().get("keepdim", False))


def _wide(b: Reader, x: Node, dtype: str) -> Node:
    return x if x.dtype == dtype else b.point("cast", x, dtype=dtype)


@rule(*_MONOIDS)
def _reduce(b: Reader, op: Captured) -> Node:
    x, monoid = b.node(op.args[0]), _MONOIDS[op.op.split(".")[1]]
    if monoid in ("sum", "prod", "logsumexp"):
        x = _wide(b, x, op.dtype)
    if not x.shape:
        raise NotRead("a reduction of a scalar")
    return b.reduce(x, _dims(op), monoid, keepdim=_keeps(op))


@rule("max", "min")
def _extreme(b: Reader, op: Captured) -> Result:
    x = b.node(op.args[0])
    monoid: Monoid = "max" if op.op.split(".")[1] == "max" else "min"
    if op.op.endswith(".default"):
        return b.reduce(x, (), monoid)
    if not op.op.endswith(".dim") or not x.shape:
        raise NotRead(op.op)
    where: Monoid = "argmax" if monoid == "max" else "argmin"
    dims, keeps = _dims(op), _keeps(op)
    return b.reduce(x, dims, monoid, keepdim=keeps), b.reduce(x, dims, where, keepdim=keeps)


@rule("mean")
def _mean(b: Reader, op: Captured) -> Node:
    x = _wide(b, b.node(op.args[0]), op.dtype)
    return b.mean(x, _dims(op), keepdim=_keeps(op)) if x.shape else x


def _correction(op: Captured) -> float:
    given = op.arguments()
    if "unbiased" in given:
        return 1.0 if given["unbiased"] else 0.0
    value = given.get("correction", 1)
    return 1.0 if value is None else float(value) if isinstance(value, int | float) else 1.0


@rule("var", "std")
def _variance(b: Reader, op: Captured) -> Node:
    return _spread(b, op)


def _spread(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    found = b.reduce(x, _dims(op), "variance", keepdim=_keeps(op), correction=_correction(op))
    return b.point("sqrt", found) if "std" in op.op.split(".")[1] else found


@rule("var_mean", "std_mean")
def _variance_mean(b: Reader, op: Captured) -> Result:
    return _spread(b, op), b.mean(b.node(op.args[0]), _dims(op), keepdim=_keeps(op))


@rule("_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax")
def _softmax(b: Reader, op: Captured) -> Node:
    x, dim = b.node(op.args[0]), ints(op.args[1])
    if not x.shape:
        raise NotRead("softmax of a scalar")
    x = _wide(b, x, op.dtype)
    if "log" in op.op:
        top = b.reduce(x, dim, "max", keepdim=True)
        shifted = b.point("sub", x, top)
        total = b.reduce(b.point("exp", shifted), dim, "sum", keepdim=True)
        return b.point("sub", shifted, b.point("log", total))
    return softmax(b, x, dim, safe="_safe" in op.op)


def softmax(b: Reader, x: Node, dims: tuple[int, ...], *, safe: bool) -> Node:
    """Divide powers by their sum; where all elements are minus infinity, zero if safe and else not a number."""
    top = b.reduce(x, dims, "max", keepdim=True)
    power = b.point("exp", b.point("sub", x, top))
    found = b.point("div", power, b.reduce(power, dims, "sum", keepdim=True))
    if safe:
        dead = b.point("eq", top, float("-inf"), dtype="bool")
        found = b.point("where", dead, 0, found, dtype=x.dtype)
    return found


@rule("cumsum", "cumprod", "logcumsumexp")
def _scan(b: Reader, op: Captured) -> Node:
    x, dim = _wide(b, b.node(op.args[0]), op.dtype), ints(op.args[1])[0]
    if not x.shape:
        raise NotRead("a scan of a scalar")
    monoid: Monoid = {"cumsum": "sum", "cumprod": "prod", "logcumsumexp": "logsumexp"}[op.op.split(".")[1]]  # type: ignore[assignment]  # all three are monoids
    return Scan(
        name=b.name("scan"), shape=x.shape, dtype=op.dtype, source=x, dim=dim % len(x.shape), monoid=monoid
    )


@rule("linalg_vector_norm")
def _norm(b: Reader, op: Captured) -> Node:
    given = op.arguments()
    x, order = _wide(b, b.node(op.args[0]), op.dtype), given.get("ord", 2)
    dims, keeps = _dims(op), _keeps(op)
    if order == 2:
        return b.point("sqrt", b.reduce(b.point("mul", x, x), dims, "sum", keepdim=keeps))
    if order == 1:
        return b.reduce(b.point("abs", x), dims, "sum", keepdim=keeps)
    if order == float("inf"):
        return b.reduce(b.point("abs", x), dims, "max", keepdim=keeps)
    raise NotRead(f"a norm of order {order!r}")
