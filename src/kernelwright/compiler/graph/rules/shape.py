"""Views, slices, pads and concatenations: the index changes, the values do not."""

from ....tasks.capture import Node as Captured
from .._nodes import Cat, Node, Slice
from .._reader import NotRead, Reader, Result, ints, number, rule


@rule("view", "reshape", "_unsafe_view", "flatten", "unsqueeze", "squeeze", "view_copy", "unsqueeze_copy",
      "squeeze_copy", "_reshape_copy", "_reshape_alias", "unflatten")  # fmt: skip
def _view(b: Reader, op: Captured) -> Node:
    return b.reshape(b.node(op.args[0]), op.shape)


@rule("permute", "permute_copy")
def _permute(b: Reader, op: Captured) -> Node:
    return b.permute(b.node(op.args[0]), ints(op.args[1]))


@rule("transpose", "transpose_copy", "t", "t_copy")
def _transpose(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    order = list(range(len(x.shape)))
    first, second = (ints(a)[0] for a in op.args[1:3]) if len(op.args) > 2 else (0, -1)
    if len(order) > 1:
        order[first], order[second] = order[second], order[first]
    return b.permute(x, order)


@rule("expand", "expand_copy", "expand_as", "broadcast_to")
def _expand(b: Reader, op: Captured) -> Node:
    return b.expand(b.node(op.args[0]), op.shape)


@rule("repeat")
def _repeat(b: Reader, op: Captured) -> Node:
    """Insert a new dimension before each repeated one, then merge the two."""
    x, times = b.node(op.args[0]), ints(op.args[1])
    sizes = (1,) * (len(times) - len(x.shape)) + x.shape
    apart = [s for size in sizes for s in (1, size)]
    wide = [s for t, size in zip(times, sizes, strict=True) for s in (t, size)]
    return b.reshape(b.expand(b.reshape(x, apart), wide), op.shape)


@rule("slice", "slice_copy", "narrow")
def _slice(b: Reader, op: Captured) -> Node:
    x, given = b.node(op.args[0]), op.arguments()
    dim = ints(given["dim"])[0] % len(x.shape)
    size, start = x.shape[dim], given.get("start") or 0
    begin = ints(start)[0]
    begin = max(0, begin + size) if begin < 0 else min(begin, size)
    return b.slice(x, dim, begin, op.shape[dim], ints(given.get("step") or 1)[0])


@rule("unfold", "unfold_copy")
def _unfold(b: Reader, op: Captured) -> Node:
    x, (dim, size, step) = b.node(op.args[0]), (ints(a)[0] for a in op.args[1:4])
    dim %= len(x.shape)
    return b.window(x, (dim,), (size,), (step,), (1,), counts=(op.shape[dim],))


@rule("select", "select_copy")
def _select(b: Reader, op: Captured) -> Node:
    x, dim, at = b.node(op.args[0]), ints(op.args[1])[0], ints(op.args[2])[0]
    dim %= len(x.shape)
    taken = b.slice(x, dim, at + x.shape[dim] if at < 0 else at, 1)
    return b.reshape(taken, op.shape)


@rule("flip")
def _flip(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    dims = {d % len(x.shape) for d in ints(op.args[1])}
    starts = tuple(s - 1 if d in dims else 0 for d, s in enumerate(x.shape))
    steps = tuple(-1 if d in dims else 1 for d in range(len(x.shape)))
    return Slice(name=b.name("flip"), shape=x.shape, dtype=x.dtype, source=x, starts=starts, steps=steps)


@rule("roll")
def _roll(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    dims = ints(op.args[2]) if len(op.args) > 2 else ()
    if not dims:
        raise NotRead("a roll of the flattened tensor")
    for shift, dim in zip(ints(op.args[1]), dims, strict=True):
        size = x.shape[dim]
        cut = (size - shift) % size if size else 0
        parts = (b.slice(x, dim, cut, size - cut), b.slice(x, dim, 0, cut))
        x = _joined(b, [p for p in parts if p.shape[dim] != 0], dim, op.shape)
    return x


@rule("split_with_sizes", "split_with_sizes_copy", "split", "chunk", "unbind")
def _split(b: Reader, op: Captured) -> Result:
    x, given = b.node(op.args[0]), op.arguments()
    dim = ints(given.get("dim") or 0)[0] % len(x.shape)
    bare = op.op.split(".")[1]
    if not bare.startswith("split"):
        raise NotRead(op.op)
    sizes = given.get("split_sizes", given.get("split_size"))
    if isinstance(sizes, int):
        step, whole = sizes, x.shape[dim]
        sizes = tuple(min(step, whole - at) for at in range(0, whole, step))
    parts, at = [], 0
    for size in ints(sizes):
        parts.append(b.slice(x, dim, at, size))
        at += size
    return tuple(parts)


@rule("getitem")
def _getitem(b: Reader, op: Captured) -> Node:
    from ....tasks.capture import Ref

    source, at = op.args
    several = b.known.get(source.name) if isinstance(source, Ref) else None
    found = several[ints(at)[0]] if isinstance(several, tuple) else None
    if found is None:
        raise NotRead(f"result {at} of {source}")
    return found


def _joined(b: Reader, sources: list[Node], dim: int, shape: tuple[int, ...]) -> Node:
    if len(sources) == 1:
        return sources[0]
    kind = sources[0].dtype
    return Cat(name=b.name("cat"), shape=shape, dtype=kind, sources=tuple(sources), dim=dim % len(shape))


@rule("cat")
def _cat(b: Reader, op: Captured) -> Node:
    if not isinstance(op.args[0], tuple):
        raise NotRead("cat of what is no list")
    sources = [b.node(a) for a in op.args[0]]
    sources = [
        s if s.dtype == op.dtype else b.point("cast", s, dtype=op.dtype)
        for s in sources
        if len(s.shape) == len(op.shape)
    ]
    dim = ints(op.args[1])[0] if len(op.args) > 1 else 0
    return _joined(b, sources, dim, op.shape)


@rule("stack")
def _stack(b: Reader, op: Captured) -> Node:
    if not isinstance(op.args[0], tuple):
        raise NotRead("stack of what is no list")
    dim = (ints(op.args[1])[0] if len(op.args) > 1 else 0) % len(op.shape)
    sources = [b.node(a) for a in op.args[0]]
    apart = [b.reshape(s, [*s.shape[:dim], 1, *s.shape[dim:]]) for s in sources]
    return _joined(b, apart, dim, op.shape)


@rule("constant_pad_nd")
def _pad(b: Reader, op: Captured) -> Node:
    x, widths = b.node(op.args[0]), ints(op.args[1])
    value = number(op.args[2]) if len(op.args) > 2 else 0
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    for i in range(len(widths) // 2):
        low[-1 - i], high[-1 - i] = widths[2 * i], widths[2 * i + 1]
    return b.pad(x, low, high, value)
