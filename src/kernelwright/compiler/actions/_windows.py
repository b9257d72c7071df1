"""Sums over all windows of a convolution, from masked sums of the image: each row and column is read once."""

from collections.abc import Sequence

from ...tasks.capture import Ref
from ..graph import Contract, Graph, Node, Pad, Permute, Point, Ramp, Reduce, Reshape, Slice, Window
from .product import nearest_products

_VIEWS = (Window, Pad, Slice, Reshape, Permute)


def behind_views(graph: Graph, node: Node, argument: object) -> Node | None:
    """Return the tensor that an argument of a captured operation refers to, if the node is a view of it."""
    wanted = graph.values.get(argument.name) if isinstance(argument, Ref) else None
    while node is not wanted and isinstance(node, _VIEWS):
        node = node.source
    return node if node is wanted else None


def ints(value: object, count: int) -> tuple[int, ...]:
    """Read an argument that is a number for each of some dimensions, or one for all."""
    found = tuple(int(str(v)) for v in value) if isinstance(value, tuple) else (int(str(value)),)
    return found * count if len(found) == 1 else found


def summed_windows(graph: Graph, product: Contract, dims: Sequence[int], name: str) -> Node | None:
    """Return what a convolution's windows sum up to over all its results, by tap; None if it is something else.

    An element of the image is in the sum of those taps through which some result reads it: along each axis where
    `element + pad - dilation * tap` is `stride` times a result, or with strides of the elements for a transposed one.

    Args:
        graph: The graph.
        product: The convolution, whose left factor is windows as they were read.
        dims: Dimensions of that factor to be summed over; nothing is done unless they are its windows' own.
        name: What the sum is called.
    """
    windows = product.left
    if not isinstance(windows, Window) or tuple(dims) != windows.dims:
        return None
    found = (
        op for op in graph.operations if op.op.startswith("aten.convolution.") and op.name in graph.values
    )
    op = next((op for op in found if product in nearest_products(graph.values[op.name])), None)
    if op is None:
        return None
    x, _, _, strides, pads, dilations, transposed, _, groups = op.args
    image, rank = behind_views(graph, windows, x), len(windows.dims)
    if (
        image is None
        or int(str(groups)) != 1
        or windows.dims != tuple(range(2, 2 + rank))
        or len(image.shape) != 2 + rank
    ):
        return None
    each = zip(ints(strides, rank), ints(pads, rank), ints(dilations, rank), strict=True)
    for axis, (stride, pad, dilation) in reversed(list(enumerate(each))):
        taps, results = windows.shape[-rank + axis], windows.shape[2 + axis]
        first = dilation * (int(taps) - 1) - pad if transposed else pad
        apart, every = (stride, 1) if transposed else (1, stride)
        part, shape = f"{name}_axis{axis}", (taps, image.shape[2 + axis])
        mask = _mask(part, shape, first, apart, dilation, every, every * results)
        image = _masked(part if axis else name, image, mask, 2 + axis)
    return image


def _mask(
    name: str, shape: tuple[int, int], first: int, apart: int, dilation: int, every: int, end: int
) -> Node:
    """Return which elements of an axis each tap reads: of (taps, elements)."""

    def point(what: str, op: str, *args: Node | float, dtype: str = "bool") -> Node:
        return Point(name=f"{name}_{what}", shape=shape, dtype=dtype, op=op, args=args)

    element = Ramp(name=f"{name}_element", shape=shape, dtype="float32", dim=1, start=first, step=apart)
    tap = Ramp(name=f"{name}_tap", shape=shape, dtype="float32", dim=0, start=0, step=dilation)
    place = point("place", "sub", element, tap, dtype="float32")
    inside = point("inside", "logical_and", point("from", "ge", place, 0.0), point("to", "lt", place, end))
    if every == 1:
        return inside
    over = point("over", "remainder", place, float(every), dtype="float32")
    return point("mask", "logical_and", inside, point("on", "eq", over, 0.0))


def _masked(name: str, image: Node, mask: Node, axis: int) -> Node:
    """Return the sums along an axis of what a mask lets through, in a dimension for its rows in place of the axis."""
    before, after = image.shape[:axis], image.shape[axis + 1 :]
    wide = (*before, mask.shape[0], image.shape[axis], *after)
    shown = Reshape(
        name=f"{name}_image", shape=(*before, 1, image.shape[axis], *after), dtype=image.dtype, source=image
    )
    laid = Reshape(name=f"{name}_rows", shape=(*mask.shape, *(1 for _ in after)), dtype="bool", source=mask)
    let = Point(name=f"{name}_let", shape=wide, dtype=image.dtype, op="where", args=(laid, shown, 0.0))
    return Reduce(
        name=name,
        shape=(*before, mask.shape[0], *after),
        dtype=image.dtype,
        source=let,
        dims=(axis + 1,),
        monoid="sum",
    )
