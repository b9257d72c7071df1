"""Program → Cost: bytes from memory and caches, operations, kernels; seconds by rough peaks."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

from ..graph import product
from ..tile import (
    LANES,
    ZERO,
    Begin,
    Call,
    Contraction,
    Expression,
    Extent,
    Kernel,
    Literal,
    Loop,
    NativeCall,
    Program,
    Statement,
    Store,
    Update,
    expressions,
    factors_of,
    is_known,
    walk,
)  # fmt: skip
from ._lost import FIRST_CACHE_BYTES, gathered_operations, idle, lost_bytes, trips
from ._passes import passes_of
from ._products import contraction_cost, gradients_cost, library_operations
from ._reads import reads

CACHED_BYTES = 4 << 20
"""Bytes of a row that a later pass finds again in a cache: the L2, or a thread's part of the last level."""
MEMORY_GBPS, CACHE_GBPS, RATE_GOPS, LAUNCH_US, PANEL_US = 12.0, 60.0, 20.0, 3.0, 15.0
"""Orders of magnitude of one CPU core; they rank schedules, they predict no time."""
_ELEMENT = 4
"""Bytes that an element counts."""
_TAIL = 32
"""Operations of a tail: its mask, and the wasted lanes."""


@dataclass(frozen=True)
class Cost:
    """What a program would move and compute on the first workload."""

    memory_bytes: int
    """Bytes of every buffer that a kernel touches, once per kernel."""
    cache_bytes: int
    """Bytes of further passes over buffers whose rows stay in a cache; other passes count above."""
    operations: int
    """Elementwise operations; a product's are weighted by the speed of its form, loads whose lanes
    lie apart count as several, and all count more if threads are idle."""
    kernels: int
    lost_bytes: int = 0
    """Wasted bytes: lines that a plain store reads before writing, lines of which
    one element is used, and what idle threads could have moved."""
    passes: int = 0
    """Loops over the elements of the largest argument or output."""
    panels: int = 0
    """Panels of rows that are computed and multiplied in calls of their own."""

    @property
    def time_us(self) -> float:
        """A time to rank by, in microseconds; not a forecast."""
        moved = (
            self.memory_bytes + self.lost_bytes
        ) / MEMORY_GBPS / 1e3 + self.cache_bytes / CACHE_GBPS / 1e3
        return (
            max(moved, self.operations / RATE_GOPS / 1e3) + self.kernels * LAUNCH_US + self.panels * PANEL_US
        )


Estimate: TypeAlias = Callable[[Program], Cost]
"""What a program costs, on the kind of machine that a language is for."""


def estimate(program: Program) -> Cost:
    """Estimate what a program costs on a CPU, with the sizes of the first workload.

    Covers: traffic of kernels, passes beyond the first, operations of elements; what runs ahead is free.
    Does not cover: what native regions cost inside; how well loops vectorise.
    """
    memory = cache = operations = lost = panels = 0
    steps = [s for s in program.steps if s.name not in program.ahead]
    for step in steps:
        if isinstance(step, NativeCall):
            memory += sum(_bytes_outside(program, name) for name in (*step.reads, step.writes) if name)
            panels += -(-_bytes(program, step.fed) // step.panel_bytes) if step.fed else 0
            operations += library_operations(step.node, program.names)
        elif isinstance(step, Kernel) and step.gradients:
            once, again, done = gradients_cost(step.gradients, lambda name: _bytes_outside(program, name))
            memory, operations = memory + once, operations + done
        elif isinstance(step, Contraction):
            once, again, done = contraction_cost(step, lambda name: _bytes(program, name))
            memory, cache, operations = memory + once, cache + again, operations + done
        else:
            once, again, done = _traversal(program, step)
            for found, times in _products(step.body):
                costs = contraction_cost(found, lambda name: _bytes_outside(program, name), times)
                once, again, done = (a + b for a, b in zip((once, again, done), costs, strict=True))
            waits = idle(step, once + again)
            memory, cache, operations = memory + once, cache + again, operations + int(waits * done)
            lost += lost_bytes(program, step) + int((waits - 1) * once)
    return Cost(memory, cache, operations, len(steps), lost, passes_of(program), panels)


def _products(body: tuple[Statement, ...], times: int = 1) -> Iterator[tuple[Contraction, int]]:
    """Yield the products within a kernel, and how often each runs."""
    for s in body:
        if isinstance(s, Contraction):
            yield s, times
        elif isinstance(s, Loop):
            yield from _products(s.body, times * int(trips(s)))


def _bytes_outside(program: Program, name: str) -> int:
    """Return the bytes of a buffer that may be in memory: a thread's row and a panel stay in its cache."""
    inside = program.buffer(name).role == "row" or any(call.fed == name for call in program.natives)
    return 0 if inside else _bytes(program, name)


def _bytes(program: Program, name: str) -> int:
    b = program.buffer(name)
    return int(product(b.shape)) * int(getattr(torch, b.dtype).itemsize)


def _traversal(program: Program, kernel: Kernel) -> tuple[int, int, int]:
    passes: dict[str, int] = {}
    done = _count(kernel.body, 1, passes, {}) + _TAIL * _tails(
        kernel.body, 1, dict(kernel.known), kernel.whole
    )
    done += gathered_operations(program, kernel)
    once = sum(min(_bytes_outside(program, name), count) for name, count in passes.items())
    further = 0
    for name, count in passes.items():
        size = _bytes(program, name)
        if count > size:
            further += min(count - size, 8 * size)
    rows = max((int(trips(s)) for s in kernel.body if isinstance(s, Loop)), default=1)
    stays = once / max(1, rows) <= CACHED_BYTES
    return (once, further, done) if stays else (once + further, 0, done)


def _count(body: tuple[Statement, ...], times: int, passes: dict[str, int], monoids: dict[str, str]) -> int:
    """Count operations, and the bytes that loads and stores touch, by buffer.

    What several loops over one block touch, which the first-level cache holds, counts once.
    """
    done, block = 0, dict[str, int]()
    for s in body:
        if isinstance(s, Loop):
            touched = dict[str, int]()
            done += _count(s.body, times * int(trips(s)), touched, monoids)
            within = s.begin != ZERO and trips(s) * _ELEMENT <= FIRST_CACHE_BYTES
            for name, count in touched.items():
                passes[name] = passes.get(name, 0) + max(0, count - block.get(name, 0))
                block[name] = max(count, block.get(name, 0)) if within else 0
            continue
        if isinstance(s, Contraction):
            continue  # has costs of its own
        for name in {s.buffer} if isinstance(s, Store) else set():
            passes[name] = passes.get(name, 0) + _ELEMENT * times
        if isinstance(s, Update):
            done += times * _FOLDS.get(monoids.get(s.name, ""), 1)
        elif isinstance(s, Begin):
            monoids[s.name] = "wide" if s.kind == "float64" else s.monoid
        for x in expressions(s):
            for load, share in reads(x):
                passes[load.buffer] = passes.get(load.buffer, 0) + int(share * _ELEMENT * times)
            done += sum(times * _WEIGHTS.get(e.op, 1) for e in walk(x) if isinstance(e, Call))
    return done


def _tails(
    body: tuple[Statement, ...], times: int, known: Mapping[str, int], whole: Collection[str] = ()
) -> int:
    """Count the vector loops with a tail, or not known to have none."""
    done = 0
    for s in body:
        if isinstance(s, Loop):
            done += times * (s.vector and factors_of(s).isdisjoint(whole) and not _is_whole(s.end, known))
            done += _tails(s.body, times * int(trips(s)), known, whole)
    return done


def _is_whole(end: Expression, known: Mapping[str, int]) -> bool:
    match end:
        case Literal(value):
            return int(value) % LANES == 0
        case Extent(size):
            return is_known(size, known) and int(size) % LANES == 0
        case _:
            return False


_FOLDS = {"wide": 3, "sumexp": 20, "logsumexp": 20, "variance": 9, "argmax": 3, "argmin": 3}
_WEIGHTS = {
    "exp": 8,
    "log": 10,
    "tanh": 12,
    "sigmoid": 10,
    "erf": 14,
    "gelu": 16,
    "pow": 40,
    "div": 4,
    "sqrt": 4,
}
