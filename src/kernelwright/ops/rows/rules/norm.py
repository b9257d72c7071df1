"""Layer, group and batch normalisation. RMSNorm is captured as `pow, mean, add, rsqrt, mul` and needs no rule."""

from ....languages.vectors import Unprintable
from ....tasks.capture import Node, Ref
from .._program import Builder, Value, rule
from .reduce import moments


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise Unprintable(f"{value!r} is not a number")
    return float(value)


def _normalised(b: Builder, x: Value, dims: tuple[int, ...], epsilon: float) -> tuple[Value, Value, Value]:
    """Return (x - mean) / sqrt(variance + epsilon), mean and the reciprocal deviation."""
    mean, squares = moments(b, x, dims)
    scale = b.point("rsqrt", b.point("add", b.point("div", squares, b.count(x, dims)), epsilon))
    return b.point("mul", b.point("sub", x, mean), scale), mean, scale


def _affine(b: Builder, x: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        x = b.point("mul", x, weight)
    return x if bias is None else b.point("add", x, bias)


def _optional(b: Builder, argument: object) -> Value | None:
    return b.get(argument) if isinstance(argument, Ref) else None


@rule("native_layer_norm")
def _layer_norm(b: Builder, node: Node) -> tuple[Value | None, ...]:
    x_ref, shape, weight, bias, epsilon = node.args
    x = b.get(x_ref)
    rank = len(shape) if isinstance(shape, tuple) else 0
    dims = tuple(range(len(x.dims) - rank, len(x.dims)))
    y, mean, scale = _normalised(b, x, dims, _number(epsilon))
    return _affine(b, y, _optional(b, weight), _optional(b, bias)), mean, scale


@rule("native_group_norm")
def _group_norm(b: Builder, node: Node) -> tuple[Value | None, ...]:
    """The channel axis is split into groups, a fixed number, and channels of a group."""
    x_ref, weight, bias, _, channels, _, groups, epsilon = node.args
    x = b.get(x_ref)
    if not isinstance(groups, int) or not isinstance(channels, int):
        raise Unprintable("group norm without constant groups")
    group, channel = b.axes.new(groups, fixed=True), b.axes.new(channels // groups)
    b.axes.unify(x.dims[1], (group, channel))
    split = b.with_dims(x, (x.dims[0], (group,), (channel,), *x.dims[2:]))
    dims = tuple(range(2, len(split.dims)))
    y, _, _ = _normalised(b, split, dims, _number(epsilon))
    shape = [(group,), (channel,), *(() for _ in x.dims[2:])]
    factors = []
    for argument in (weight, bias):
        parameter = _optional(b, argument)
        if parameter is not None:
            b.axes.unify(parameter.dims[0], (group, channel))
            parameter = b.with_dims(parameter, tuple(shape))
        factors.append(parameter)
    return b.with_dims(_affine(b, y, factors[0], factors[1]), x.dims), None, None


def _channelwise(b: Builder, x: Value, parameter: Value | None) -> Value | None:
    """View a vector of channels so that it broadcasts along dimension 1."""
    if parameter is None:
        return None
    return b.with_dims(parameter, (parameter.dims[0], *(() for _ in x.dims[2:])))


@rule("_native_batch_norm_legit_no_training")
def _batch_norm(b: Builder, node: Node) -> tuple[Value | None, ...]:
    """With running statistics, batch norm is elementwise."""
    x_ref, weight, bias, mean, variance, _, epsilon = node.args
    x = b.get(x_ref)
    w, c, m, v = (_channelwise(b, x, _optional(b, a)) for a in (weight, bias, mean, variance))
    if m is None or v is None:
        raise Unprintable("batch norm without statistics")
    scale = b.point("rsqrt", b.point("add", v, _number(epsilon)))
    return _affine(b, b.point("mul", b.point("sub", x, m), scale), w, c), None, None


@rule("_native_batch_norm_legit")
def _batch_statistics(b: Builder, node: Node) -> tuple[Value | None, ...]:
    """Statistics of the batch without running ones: the form of instance norm."""
    if not node.op.endswith("no_stats"):
        raise Unprintable("batch norm that updates its statistics")
    x_ref, weight, bias, _, _, epsilon = node.args
    x = b.get(x_ref)
    dims = tuple(d for d in range(len(x.dims)) if d != 1)
    y, _, _ = _normalised(b, x, dims, _number(epsilon))
    w, c = (_channelwise(b, x, _optional(b, a)) for a in (weight, bias))
    return _affine(b, y, w, c), None, None
