"""Elementwise operators keep their ATen names; casts, constants and ramps."""

from ....tasks.capture import Node as Captured
from ....tasks.capture import Ref
from .._nodes import MOST_TABLE, Constant, Node, Number, Point, Ramp
from .._pointwise import POINTWISE
from .._reader import NotRead, Reader, ints, number, rule

_SAME = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "clip": "clamp",
    "clamp_min": "maximum", "clamp_max": "minimum",
}  # fmt: skip


@rule(*POINTWISE, *_SAME)
def _point(b: Reader, op: Captured) -> Node:
    bare = op.op.split(".")[1]
    name = _SAME.get(bare, bare)
    if name == "cast":
        raise NotRead(op.op)
    if op.dtype == "bool":
        name = name.replace("bitwise", "logical")
    args: list[Node | Number | None] = []
    for a in op.args:
        args.append(b.node(a) if isinstance(a, Ref) else None if a is None else number(a))
    options: dict[str, Number | str | None] = {}
    for key, value in op.kwargs:
        if isinstance(value, bool | int | float | str):
            options[key] = value
        elif isinstance(value, Ref):
            raise NotRead(f"{op.op} with a tensor as {key}")
    if name == "clamp":
        low, high = (*args[1:], *(options.pop(k, None) for k in ("min", "max") if k in options), None, None)[
            :2
        ]
        args = [args[0], low, high]  # type: ignore[list-item]  # clamp's limits, numbers or none
    if name == "mul" and _is_mish(*args):
        return b.point("mish", args[0], dtype=op.dtype)
    return b.point(name, *args, dtype=op.dtype, **options)


def _is_mish(x: Node | Number | None, of: Node | Number | None) -> bool:
    """Whether a product is mish in parts, `x * tanh(log(1 + e^x))`: as one function it takes one exponential."""
    match of:
        case Point(op="tanh", args=(Point(op="where", args=(Point(op="gt", args=(a, 20)), b, log)),)):
            pass
        case _:
            return False
    match log:
        case Point(op="log1p", args=(Point(op="exp", args=(c,)),)):
            return a is x and b is x and c is x
        case _:
            return False


@rule("_to_copy", "convert_element_type", "to")
def _cast(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    return x if x.dtype == op.dtype else b.point("cast", x, dtype=op.dtype)


@rule("copy")
def _copy(b: Reader, op: Captured) -> Node:
    """Write a tensor over all of another: of that one, shape and dtype are left."""
    x = b.expand(b.node(op.args[1]), op.shape)
    return x if x.dtype == op.dtype else b.point("cast", x, dtype=op.dtype)


@rule("clone", "alias", "detach", "contiguous", "lift_fresh_copy", "lift_fresh", "detach_copy", "alias_copy")
def _same(b: Reader, op: Captured) -> Node:
    return b.node(op.args[0])


@rule("dropout", "native_dropout")
def _dropout(b: Reader, op: Captured) -> Node:
    training = op.args[2] if len(op.args) > 2 else True
    if training and op.args[1] != 0:
        raise NotRead("dropout draws random numbers")
    return b.node(op.args[0])


@rule("masked_fill")
def _masked_fill(b: Reader, op: Captured) -> Node:
    x, mask, value = op.args
    filled = b.node(value) if isinstance(value, Ref) else number(value)
    return b.point("where", b.node(mask), filled, b.node(x), dtype=op.dtype)


@rule("full", "full_like", "scalar_tensor", "ones", "zeros", "ones_like", "zeros_like", "new_zeros", "new_full",
      "new_ones", "empty", "empty_like")  # fmt: skip
def _full(b: Reader, op: Captured) -> Node:
    bare = op.op.split(".")[1]
    fixed = {"ones": 1, "zeros": 0, "empty": 0}.get(bare.removeprefix("new_").split("_")[0])
    value = fixed
    if value is None:
        given = op.arguments()
        value = given.get("fill_value", given.get("s"))  # type: ignore[assignment]  # a number by the operator's schema
    return b.constant(number(value), op.shape, op.dtype)


@rule("constant")
def _constant(b: Reader, op: Captured) -> Node:
    values = dict(op.kwargs).get("value")
    if values is None:
        raise NotRead("a constant tensor whose values are not kept")
    flat = tuple(number(v) for v in values) if isinstance(values, tuple) else (number(values),)
    if len(set(flat)) == 1:
        return b.constant(flat[0], op.shape, op.dtype)
    last = len(op.shape) - 1
    if op.dtype == "int64" and len(flat) == op.shape[last]:
        start, step = int(flat[0]), int(flat[1]) - int(flat[0])
        if flat == tuple(start + step * place for place in range(len(flat))):
            return Ramp(name=b.name("ramp"), shape=op.shape, dtype=op.dtype, dim=last, start=start, step=step)
    if len(flat) > MOST_TABLE:
        raise NotRead("a table of constants too large to choose from by position")
    return Constant(name=b.name("values"), shape=op.shape, dtype=op.dtype, values=flat)


@rule("arange")
def _arange(b: Reader, op: Captured) -> Node:
    given = op.arguments()
    start, step = number(given.get("start") or 0), number(given.get("step") or 1)
    return Ramp(name=b.name("ramp"), shape=op.shape, dtype=op.dtype, dim=0, start=start, step=step)


@rule("tril", "triu")
def _triangle(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    diagonal = ints(op.args[1])[0] if len(op.args) > 1 else 0
    rank = len(x.shape)
    row, column = b.ramp(x.shape[-2], rank - 2, rank), b.ramp(x.shape[-1], rank - 1, rank)
    away = b.point("sub", column, row, dtype="int64")
    keep = b.point("le" if "tril" in op.op else "ge", away, diagonal, dtype="bool")
    return b.point("where", keep, x, 0, dtype=x.dtype)
