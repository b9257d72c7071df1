"""Reading and writing at computed positions."""

from collections.abc import Sequence

from ....tasks.capture import Node as Captured
from ....tasks.capture import Ref
from .._nodes import Gather, Node, Scatter
from .._reader import NotRead, Reader, ints, number, rule
from .._size import Size, product, same


def _gather(b: Reader, source: Node, index: Node, dim: int, aligned: bool) -> Node:
    dim %= len(source.shape)
    replaced = (*source.shape[:dim], *index.shape, *source.shape[dim + 1 :])
    shape = index.shape if aligned else replaced
    return Gather(
        name=b.name("gather"), shape=shape, dtype=source.dtype, source=source, index=index, dim=dim,
        aligned=aligned,
    )  # fmt: skip


@rule("gather")
def _aligned(b: Reader, op: Captured) -> Node:
    return _gather(b, b.node(op.args[0]), b.node(op.args[2]), ints(op.args[1])[0], True)


@rule("index_select")
def _select(b: Reader, op: Captured) -> Node:
    return _gather(b, b.node(op.args[0]), b.node(op.args[2]), ints(op.args[1])[0], False)


@rule("embedding")
def _embedding(b: Reader, op: Captured) -> Node:
    return _gather(b, b.node(op.args[0]), b.node(op.args[1]), 0, False)


@rule("index", "_unsafe_index")
def _index(b: Reader, op: Captured) -> Node:
    x, given = b.node(op.args[0]), op.args[1]
    used = [(d, a) for d, a in enumerate(given if isinstance(given, tuple) else ()) if isinstance(a, Ref)]
    if not used or [d for d, _ in used] != list(range(used[0][0], used[0][0] + len(used))):
        raise NotRead("index tensors that are apart")
    dim, several = used[0][0], [b.node(a) for _, a in used]
    if any(index.dtype == "bool" for index in several):
        raise NotRead("a mask as index")
    if len(several) > 1 and _apart(several):
        return _grid(b, x, dim, several)
    return _gather(b, *_as_one(b, x, dim, several), dim, False)


def _apart(several: Sequence[Node]) -> bool:
    """Whether every index tensor runs along one dimension of the result, each along another, in their order."""
    rank = max(len(index.shape) for index in several)
    along = []
    for index in several:
        lead = rank - len(index.shape)
        along.append([lead + d for d, s in enumerate(index.shape) if isinstance(s, Size) or s != 1])
    return rank == len(several) and along == [[d] for d in range(rank)]


def _grid(b: Reader, x: Node, dim: int, several: Sequence[Node]) -> Node:
    """Read at every combination of positions, as in a resized image: a gather for each dimension."""
    for place, index in enumerate(several):
        flat = b.reshape(index, [product(index.shape)])
        x = _gather(b, x, flat, dim + place, False)
    return x


def _as_one(b: Reader, x: Node, dim: int, several: Sequence[Node]) -> tuple[Node, Node]:
    """Join neighbouring dimensions and their positions: a gather by several tensors becomes one by one."""
    if len(several) == 1:
        return x, several[0]
    rank = max(len(index.shape) for index in several)
    shape = next(
        (i.shape for i in several if len(i.shape) == rank and all(int(s) != 1 for s in i.shape)), None
    )
    if shape is None or any(not _stretches(i.shape, shape) for i in several):
        raise NotRead("index tensors that stretch each other")
    flat: Node | None = None
    for size, index in zip(x.shape[dim:], several, strict=False):
        negative = b.point("lt", index, 0, dtype="bool")
        at = b.point("where", negative, b.point("add", index, size), index, dtype="int64")
        flat = at if flat is None else b.point("add", b.point("mul", flat, size), at)
    assert flat is not None
    joined = product(x.shape[dim : dim + len(several)])
    return b.reshape(x, [*x.shape[:dim], joined, *x.shape[dim + len(several) :]]), b.expand(flat, shape)


def _stretches(one: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a shape broadcasts to another."""
    pairs = zip(reversed(one), reversed(shape), strict=False)
    return all(same(a, b) or (not isinstance(a, Size) and a == 1) for a, b in pairs)


def _scatter(b: Reader, op: Captured, base: Node, dim: int, index: Node, updates: Node, how: str,
             aligned: bool) -> Node:  # fmt: skip
    if how not in ("set", "sum", "prod", "max", "min"):
        raise NotRead(f"a scatter that combines by {how!r}")
    return Scatter(
        name=b.name("scatter"), shape=base.shape, dtype=op.dtype, base=base, index=index, updates=updates,
        dim=dim % len(base.shape), aligned=aligned, combine=how,  # type: ignore[arg-type]  # one of the literals by the rule's table
    )  # fmt: skip


@rule("scatter", "scatter_add", "scatter_reduce")
def _put(b: Reader, op: Captured) -> Node:
    base, dim, index = b.node(op.args[0]), ints(op.args[1])[0], b.node(op.args[2])
    value, given = op.args[3], op.arguments()
    updates = b.node(value) if isinstance(value, Ref) else b.constant(number(value), index.shape, op.dtype)
    how = "sum" if "scatter_add" in op.op else "set"
    reduce = given.get("reduce")
    if isinstance(reduce, str):
        how = {"add": "sum", "multiply": "prod", "amax": "max", "amin": "min"}.get(reduce, reduce)
    if given.get("include_self") is False or updates.shape != index.shape:
        raise NotRead("a scatter that leaves its base out")
    return _scatter(b, op, base, dim, index, updates, how, True)


@rule("index_add")
def _segment_sum(b: Reader, op: Captured) -> Node:
    base, dim, index, updates = (
        b.node(op.args[0]),
        ints(op.args[1])[0],
        b.node(op.args[2]),
        b.node(op.args[3]),
    )
    alpha = dict(op.kwargs).get("alpha", 1)
    if alpha != 1:
        updates = b.point("mul", updates, number(alpha))
    return _scatter(b, op, base, dim, index, updates, "sum", False)


@rule("index_put")
def _index_put(b: Reader, op: Captured) -> Node:
    base, given, updates = b.node(op.args[0]), op.args[1], b.node(op.args[2])
    used = [a for a in given if isinstance(a, Ref)] if isinstance(given, tuple) else []
    if len(used) != 1 or not isinstance(given, tuple) or given[0] is not used[0]:
        raise NotRead("several index tensors")
    index = b.node(used[0])
    if index.dtype == "bool" or len(index.shape) != 1:
        raise NotRead("a mask as index")
    updates = b.expand(updates, (*index.shape, *base.shape[1:]))
    how = "sum" if len(op.args) > 3 and op.args[3] else "set"
    return _scatter(b, op, base, 0, index, updates, how, False)


@rule("select_scatter", "slice_scatter")
def _place(b: Reader, op: Captured) -> Node:
    """A `where` on the position along the dimension: in the slice the source, elsewhere the base."""
    given = op.arguments()
    base, source = b.node(op.args[0]), b.node(op.args[1])
    dim = ints(given.get("dim") or 0)[0] % len(base.shape)
    if "select" in op.op:
        at = ints(given["index"])[0]
        start = at + base.shape[dim] if at < 0 else at
        source = b.reshape(source, [1 if d == dim else s for d, s in enumerate(base.shape)])
        size = 1
    else:
        first = ints(given.get("start") or 0)[0]
        start = first + base.shape[dim] if first < 0 else first
        size = source.shape[dim]
        if (given.get("step") or 1) != 1:
            raise NotRead("a slice with steps")
    low = [start if d == dim else 0 for d in range(len(base.shape))]
    high = [base.shape[dim] - start - size if d == dim else 0 for d in range(len(base.shape))]
    wide = b.pad(source, low, high, 0)
    place = b.ramp(base.shape[dim], dim, len(base.shape))
    inside = b.point("ge", place, start, dtype="bool")
    before = b.point("lt", place, start + size, dtype="bool")
    return b.point(
        "where", b.point("logical_and", inside, before, dtype="bool"), wide, base, dtype=base.dtype
    )
