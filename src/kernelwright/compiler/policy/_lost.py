"""Kernel → wasted bytes: write-allocate reads, partly used cache lines, idle threads."""

from collections.abc import Iterator

from ..graph import product
from ..tile import (
    STREAM_BYTES,
    Arith,
    Expression,
    Extent,
    Kernel,
    Literal,
    Load,
    Loop,
    Program,
    Store,
    expressions,
    number,
    offset,
    paths,
    stride,
    walk,
)

FIRST_CACHE_BYTES, LINE_BYTES = 1 << 15, 64
_THREADS = 8
"""Iterations of parallel loops below which some threads are idle, by order of magnitude."""
_BLOCK = 4096
"""Elements of a loop over threads and lanes that a thread takes at a time."""
_PICKED, _TURNED = 24, 4
"""Operations of an element that is picked for its lane, and of one that is turned along with a square of others."""
_SIDE_BY_SIDE = (None, *map(number, (0, 1, -1, 2)))
"""Strides of lanes that take a load or two; None if the index is computed from data."""
_SERIAL_BYTES = 1 << 20
"""Bytes below which more threads do not pay, by order of magnitude."""


def lost_bytes(program: Program, kernel: Kernel) -> int:
    """Return what a kernel wastes of the lines that it moves, as bytes from memory."""
    found = [p for p in paths(kernel.body) if not any(isinstance(s, Loop) for s in p[-1].body)]
    return _read_before(program, found) + sum(_used_in_part(program, p) for p in found)


def gathered_operations(program: Program, kernel: Kernel) -> int:
    """Return the operations of loads whose lanes lie apart: picked one by one, or turned in registers in tiles."""
    return sum(_gathered(program, p) for p in paths(kernel.body) if p[-1].vector)


def _gathered(program: Program, path: tuple[Loop, ...]) -> int:
    lanes, times, done = path[-1], 1, 0
    for loop in path:
        times *= trips(loop)
    tiled = len(path) > 1 and all(loop.begin != number(0) for loop in path[-2:])
    for buffer, index in dict.fromkeys(_accesses(lanes, stores=False)):
        of = program.buffer(buffer)
        place = offset(index, of.shape)
        if stride(place, lanes.axis) not in _SIDE_BY_SIDE:
            turned = tiled and of.dtype == "float32" and stride(place, path[-2].axis) == number(1)
            done += times * (_TURNED if turned else _PICKED)
    return done


def idle(kernel: Kernel, moved_bytes: int) -> float:
    """Return the slowdown of a kernel from idle threads; 1 if more threads do not pay."""
    if moved_bytes < _SERIAL_BYTES:
        return 1.0
    return _THREADS / min(_THREADS, max((_shares(p) for p in paths(kernel.body)), default=1))


def trips(loop: Loop) -> int:
    """Return the iterations of a loop on the first workload; 1 if they are computed from data."""
    return loop.expected_extent or max(0, _value(loop.end) - _value(loop.begin))


def _shares(path: tuple[Loop, ...]) -> int:
    """Return how many threads the loops of a path keep busy."""
    count = 1
    for loop in path:
        if loop.parallel:
            count *= max(1, trips(loop) // _BLOCK) if loop.vector else trips(loop)
    return max(1, count)


def _read_before(program: Program, innermost: list[tuple[Loop, ...]]) -> int:
    """Return the bytes of large buffers that plain stores read (write-allocate).

    Where an earlier pass keeps values in the result, it computes them while memory is read.
    """
    plain = [s.buffer for path in innermost for s in path[-1].body if isinstance(s, Store) and not s.stream]
    loaded = {name for path in innermost for name, _ in _accesses(path[-1], stores=False)}
    found = set(plain) - loaded
    found -= {call.fed for call in program.natives}
    sizes = [4 * int(product(program.buffer(name).shape)) for name in found]
    return sum(size for size in sizes if size >= STREAM_BYTES)


def _used_in_part(program: Program, path: tuple[Loop, ...]) -> int:
    """Return the bytes of lines that are evicted before their next element is needed."""
    inner, times = path[-1], 1
    for loop in path:
        times *= trips(loop)
    if trips(inner) * LINE_BYTES <= FIRST_CACHE_BYTES:
        return 0
    across = 0
    for buffer, index in _accesses(path[-1]):
        of = program.buffer(buffer)
        place = offset(index, of.shape)
        contiguous = any(stride(place, loop.axis) == number(1) for loop in path if loop.vector)
        step = stride(place, inner.axis)
        if not contiguous and step is not None and step not in (number(0), number(1)):
            across += times * (LINE_BYTES - 4) // 4
    return across


def _accesses(loop: Loop, *, stores: bool = True) -> Iterator[tuple[str, tuple[Expression, ...]]]:
    for s in loop.body:
        if isinstance(s, Store) and stores:
            yield s.buffer, s.index
        for x in expressions(s):
            yield from ((e.buffer, e.index) for e in walk(x) if isinstance(e, Load))


def _value(e: Expression) -> int:
    """Return a bound on the first workload, at the first iteration of the loops around it."""
    match e:
        case Extent(size):
            return int(size)
        case Literal(value):
            return int(value)
        case Arith("min", left, right):
            return min(_value(left), _value(right))
        case Arith("+", left, right):
            return _value(left) + _value(right)
        case Arith("*", left, right):
            return _value(left) * _value(right)
        case Arith("//", left, right):
            return _value(left) // max(1, _value(right))
        case _:
            return 0
