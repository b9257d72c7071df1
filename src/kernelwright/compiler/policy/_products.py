"""Products → what they cost: bytes from memory, bytes packed or read again, operations, by the form of the loops."""

from collections.abc import Callable, Mapping

from ..graph import Contract, Node, product, sources_of
from ..tile import (
    WINOGRAD_PANELS,
    Call,
    Contraction,
    Expression,
    Gradients,
    Guard,
    Load,
    Store,
    factors,
    number,
    positions,
    stride,
    walk,
)
from ._reads import is_gathered, reads

_SPEED = {
    "loops": 0.25,
    "panels": 6.0,
    "direct": 5.0,
    "packed": 8.0,
    "dots": 4.0,
    "winograd": 7.0,
    "convolve": 9.0,
    "winograd-2": 14.0,
    "winograd-3": 14.0,
    "winograd-4": 24.0,
    "channels-last": 9.0,
    "online": 8.0,
    "gradients": 8.0,
}
"""Multiplications and additions in the time of one elementwise operation, with full tiles; orders of magnitude
of one CPU core. The library's are those of large products with every trick of the trade."""
_LIBRARY_SPEED = 8.0
_VECTOR, _TILE_ROWS, _GROUP_VECTORS = 16, 12, 16
FULL_ROWS = 4
"""Rows of a tile below which loads bound it: a vector of the right factor serves no more multiplications than that."""
_EXPONENTIAL = 4
"""Operations of a softmax for every score."""
_LEFT_COLUMNS = {"panels": _GROUP_VECTORS * _VECTOR, "direct": 64, "dots": 64}
"""Columns for which the left factor is read once, by form."""
_ADDRESS = 2
"""Operations an element for the position on each axis beyond the first, of a vector whose axes are taken apart."""
_HELD_BYTES = 1 << 19
"""Of rows that are multiplied by panel after panel of weights."""
_THREADS_FED = 8
"""Tasks below which some threads have nothing to do, by order of magnitude."""


def contraction_cost(
    step: Contraction, size_bytes: Callable[[str], int], times: int = 1
) -> tuple[int, int, int]:
    """Return bytes from memory, further bytes from a cache, and operations of a contraction that runs some times."""
    batch, rows, columns, inner = (
        max(1, int(product([a.size for a in axes])))
        for axes in (step.batch, step.rows, step.columns, step.inner)
    )
    members = 1 + len(step.others)
    left, right = 4 * batch * rows * inner, 4 * batch * columns * inner * members
    memory = _touched(step, size_bytes, times * max(left, right))
    t = step.tiling
    if step.weights:
        depth = max(1, int(product([a.size for a in step.weights.depth])))
        scores = times * batch * rows * inner
        each = 2 * (depth + columns) / _SPEED[t.form] + _EXPONENTIAL + _fused(step.weights.score)
        return memory, times * (right + 4 * batch * inner * depth), int(scores * each)
    side = max(1, int(step.columns[-1].size)) if step.columns else 1
    wide = _filled(side)
    times_read = 0.0
    match t.form:
        case "loops":
            full, again = min(1.0, wide), right * rows
        case "panels":
            again = 2 * right * -(-rows // t.block) + 2 * left * -(-columns // (_GROUP_VECTORS * _VECTOR))
            full, times_read = wide, -(-rows // t.block)
        case "direct":
            full, again = wide, right * (-(-rows // _TILE_ROWS) - 1)
            times_read = -(-rows // _TILE_ROWS)
        case "packed":
            full, again = wide, right * (-(-rows * inner * 4 // _HELD_BYTES) - 1)
        case "dots":
            full, again = 1.0, right * (-(-rows // 4) - 1) + left * (columns // 64)
            times_read = -(-rows // 4)
        case "convolve":
            full, again = (
                min(1.0, rows / FULL_ROWS),
                right // max(1, int(product([a.size for a in step.inner[1:]]))),
            )
        case form if form in WINOGRAD_PANELS:
            full, again = _filled(rows), 8 * batch * columns * int(step.inner[0].size)
        case "channels-last":
            full, again = _filled(rows * (batch if rows == 1 else 1)), 0
        case "winograd":
            full, again = wide, (4 * right + 8 * left * (not t.is_spread)) // 9 + 32 * batch * rows * columns
            times_read = 4 / 9 * -(-rows // t.block)
    fed = min(
        1.0, times * max(t.split, 1) * batch * -(-columns // _VECTOR) * -(-rows // _TILE_ROWS) / _THREADS_FED
    )
    again += 8 * (t.split > 1) * t.split * batch * rows * columns
    done = 2 * batch * rows * columns * inner * members
    again = times * again + (times - 1) * right * (step.image is None)  # strips of images read their own
    if t.form in ("panels", "direct", "packed"):
        full *= min(1.0, rows / FULL_ROWS)
    slower = 1 if t.accumulate == "float32" else 2
    reading = times_read * batch * columns * inner * _reading(step) / fed
    if t.form in _LEFT_COLUMNS:
        reading += -(-columns // _LEFT_COLUMNS[t.form]) * batch * rows * inner * _fused(step.left) / fed
    if t.form == "packed":
        reading = batch * rows * inner * _fused(step.left)
    if t.form == "loops":
        reading = batch * rows * columns * inner * (_fused(step.left) + _fused(step.right))
    return memory, int(again), int(times * (slower * done / (_SPEED[t.form] * full * fed) + reading))


def gradients_cost(found: Gradients, size_bytes: Callable[[str], int]) -> tuple[int, int, int]:
    """Return bytes from memory, further bytes from a cache, and operations of an attention with its gradients."""
    every = [found.scores, found.slopes, *(c for _, c in found.members)]
    reads = {e.buffer for c in every for f in factors(c) for e in walk(f) if isinstance(e, Load)}
    reads |= {e.buffer for x in (found.score, found.change) for e in walk(x) if isinstance(e, Load)}
    writes = {s.buffer for _, c in found.members for s in c.epilogue if isinstance(s, Store)}
    scores = product([axis.size for axis in found.axes])
    depth = sum(int(c.inner[0].size) for c in every[:2]) + sum(int(c.columns[0].size) for c in every[2:])
    each = 2 * depth / _SPEED["gradients"] + _EXPONENTIAL + _fused(found.score) + _fused(found.change)
    return sum(map(size_bytes, reads | writes)), 0, int(int(scores) * each)


def _touched(step: Contraction, size_bytes: Callable[[str], int], most: int) -> int:
    """Return the bytes that a contraction touches: of a table no more than the rows that are gathered from it."""
    found = {s.buffer: size_bytes(s.buffer) for s in step.epilogue if isinstance(s, Store)}
    for load, share in (read for factor in factors(step) for read in reads(factor)):
        size = size_bytes(load.buffer)
        touched = min(size, int(share * most)) if is_gathered(load) else size
        found[load.buffer] = max(found.get(load.buffer, 0), touched)
    return sum(found.values())


def _filled(lanes: int) -> float:
    """Return the share of the lanes of whole vectors that hold something."""
    return lanes / (-(-lanes // _VECTOR) * _VECTOR)


def _reading(step: Contraction) -> int:
    """Return the operations to read an element of the right factor beyond a plain load.

    What is fused before the product is computed at every read; where lanes lie apart, one by one.
    """
    of = {"dots": [step.inner], "panels": [step.columns, step.inner]}.get(step.tiling.form, [step.columns])
    fused = _fused(step.right)
    if all(axes and _one_by_one(step.right, axes[-1].name) for axes in of):
        return (2 + fused) * _VECTOR
    apart = sum(int(a.size) > 1 for a in (*step.columns, *step.inner))
    return fused + _ADDRESS * max(0, apart - 2)


def _fused(factor: Expression) -> int:
    """Count the operations that compute an element of a factor.

    Each value that it is chosen from counts as one, and so does each place that such a value is read at, where that is
    in memory too, as of gathered rows: it is looked up under a mask at every reading.
    """
    within, places = list(walk(factor)), _places(factor)
    computed = sum(isinstance(e, Call) and e.kind == "float32" for e in within)
    loads = [e for e in within if isinstance(e, Load)]
    values = sum(id(e) not in places for e in loads)
    chosen = any(isinstance(e, Guard) for e in within) + max(0, values - 1 - computed)
    return computed + chosen + (len(loads) - values if values > 1 else 0)


def _places(factor: Expression) -> set[int]:
    """Return what the positions of loads are computed from, by identity."""
    return {id(x) for e in walk(factor) if isinstance(e, Load) for place in e.index for x in walk(place)}


def _one_by_one(value: Expression, axis: str) -> bool:
    """Tell whether lanes along an axis read elements that do not lie side by side."""
    for e in walk(value):
        if isinstance(e, Load) and axis in positions(e):
            *outer, last = e.index
            if stride(last, axis) != number(1) or any(axis in positions(i) for i in outer):
                return True
    return False


def library_operations(native: Node, ends: Mapping[Node, str]) -> int:
    """Return the operations of the products within a native region, as many as count among others."""
    return int(multiplications(native, ends) / _LIBRARY_SPEED)


def multiplications(native: Node, ends: Mapping[Node, str]) -> int:
    """Count the multiplications and additions of the products within a native region."""
    found, waiting, seen = 0, [native], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or (node in ends and node is not native):
            continue
        seen.add(id(node))
        if isinstance(node, Contract):
            one, two, _ = node.labels
            sizes = dict(zip(one, node.left.shape, strict=True)) | dict(
                zip(two, node.right.shape, strict=True)
            )
            found += 2 * int(product([int(size) for size in sizes.values()]))
        waiting.extend(sources_of(node))
    return found
