"""Views, broadcasts and constants: no data moves, only the structure of the axes changes."""

from ....languages.vectors import Unprintable
from ....tasks.capture import Node
from .._program import Builder, Value, rule


def _ints(value: object) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        return tuple(int(v) for v in value if isinstance(v, int))
    raise Unprintable(f"{value!r} is not a tuple of integers")


@rule("size")
def _size(b: Builder, node: Node) -> Value:
    """Multiply some sizes of a tensor, at run time."""
    return b.count(b.get(node.args[0]), _ints(node.args[1]))


@rule("view", "reshape", "_unsafe_view", "flatten")
def _view(b: Builder, node: Node) -> Value:
    x = b.get(node.args[0])
    return b.with_dims(x, b.axes.reshape(x.dims, node.shape))


@rule("unsqueeze")
def _unsqueeze(b: Builder, node: Node) -> Value:
    x = b.get(node.args[0])
    at = _ints(node.args[1])[0] % (len(x.dims) + 1)
    return b.with_dims(x, (*x.dims[:at], (), *x.dims[at:]))


@rule("squeeze")
def _squeeze(b: Builder, node: Node) -> Value:
    x = b.get(node.args[0])
    rank = len(x.dims)
    chosen = {d % rank for d in _ints(node.args[1])} if len(node.args) > 1 else set(range(rank))
    return b.with_dims(x, tuple(a for d, a in enumerate(x.dims) if d not in chosen or b.axes.size(a) != 1))


@rule("expand")
def _expand(b: Builder, node: Node) -> Value:
    """Broadcast dimensions get new axes, along which the value does not vary."""
    x = b.get(node.args[0])
    lead = len(node.shape) - len(x.dims)
    dims = []
    for d, size in enumerate(node.shape):
        axes = x.dims[d - lead] if d >= lead else ()
        dims.append((b.axes.new(size),) if size != 1 and b.axes.size(axes) == 1 else axes)
    return b.with_dims(x, tuple(dims))


@rule("repeat")
def _repeat(b: Builder, node: Node) -> Value:
    x = b.get(node.args[0])
    times = _ints(node.args[1])
    lead = len(times) - len(x.dims)
    dims = []
    for d, count in enumerate(times):
        axes = x.dims[d - lead] if d >= lead else ()
        dims.append((b.axes.new(count), *axes) if count != 1 else axes)
    return b.with_dims(x, tuple(dims))


@rule("full", "scalar_tensor", "full_like", "ones_like", "zeros_like", "ones", "zeros")
def _full(b: Builder, node: Node) -> Value:
    fill = {"ones": 1, "zeros": 0}.get(node.op.split(".")[1].split("_")[0])
    if fill is None:
        value = node.arguments().get("fill_value", node.arguments().get("s"))
        if not isinstance(value, bool | int | float):
            raise Unprintable(f"{node.op} of {value!r}")
        fill = value  # type: ignore[assignment]
    constant = b.point("add", fill, 0)
    return b.with_dims(constant, tuple((b.axes.new(size),) if size != 1 else () for size in node.shape))


@rule("constant")
def _constant(b: Builder, node: Node) -> Value:
    value = dict(node.kwargs).get("value")
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if node.elements != 1 or not isinstance(value, bool | int | float):
        raise Unprintable("a constant tensor of several elements")
    return b.with_dims(b.point("add", value, 0), tuple(() for _ in node.shape))
