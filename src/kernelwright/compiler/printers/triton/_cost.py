"""Program → Cost on a GPU: bytes from memory and from the L2 cache, operations, and how much of the GPU is busy.

The rates are from one H200, and rank schedules on others too. A variance in one pass costs what was measured there.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from ...graph import product
from ...policy import Cost, estimate, multiplications
from ...tile import (
    Begin,
    Call,
    Contraction,
    Expression,
    Literal,
    Load,
    Loop,
    NativeCall,
    Program,
    Statement,
    Store,
    Update,
    expressions,
    factors,
    number,
    offset,
    statements,
    stride,
    touched,
    walk,
)
from .. import Unprintable
from ._body import WIDEST, loads_together
from ._launches import Launch, innermost, launches, length
from ._product import is_product
from ._program import block_of
from ._states import PROGRAMS

MEMORY_GBPS, CACHE_GBPS, RATE_GOPS = 4200.0, 7000.0, 25_000.0
"""Bytes from memory and from the L2 cache, simple operations, of the whole GPU."""
LIBRARY_TFLOPS, OWN_TFLOPS = {4: 50.0, 2: 650.0, 8: 50.0}, {4: 35.0, 2: 400.0, 8: 1.0}
"""Products of elements of so many bytes, by the library and in our own tiles."""
LAUNCH_US = 4.0
_CACHE_BYTES = 40 << 20
_UNITS, _RESIDENT = 132, 16
"""Multiprocessors, and programs that each holds at once."""
_FED_BYTES = 24 << 10
"""Bytes in flight that keep a multiprocessor's share of the memory busy."""
_TILE_ROWS, _TILE_COLUMNS = 64, 128
_SECTOR = 8
"""Elements of the least piece that is read from memory."""
_DIVISION = 20
"""Operations that take a position apart along one axis."""
_WEIGHTS = {
    "exp": 6,
    "log": 8,
    "tanh": 20,
    "sigmoid": 12,
    "erf": 24,
    "gelu": 28,
    "pow": 40,
    "div": 10,
    "sqrt": 8,
}
_FOLDS = {"variance": 200, "sumexp": 14, "logsumexp": 14, "argmax": 4, "argmin": 4}


@dataclass(frozen=True)
class GpuCost(Cost):
    """A cost whose time is that of kernels that are each bound by something else."""

    us: float = 0.0

    @property
    def time_us(self) -> float:
        """A time to rank by, in microseconds; not a forecast."""
        return self.us


def cost(program: Program) -> GpuCost:
    """Estimate what a program costs on a GPU, by the sizes of the first workload; infinity if it has no form."""
    plain = estimate(program)
    try:
        us, kernels, again = _summed(program)
    except Unprintable:
        us, kernels, again = math.inf, plain.kernels, 0.0
    counted = replace(plain, kernels=kernels, cache_bytes=int(again), lost_bytes=0)
    return GpuCost(**vars(counted), us=us)


def _summed(program: Program) -> tuple[float, int, float]:
    """Return microseconds, launches, and bytes that are asked for again."""
    us, kernels, again = 0.0, 0, 0.0
    for step in program.steps:
        if isinstance(step, NativeCall):
            us, kernels = us + _native_us(program, step), kernels + 1
        elif isinstance(step, Contraction) and is_product(step):
            us, kernels = us + _product_us(program, step), kernels + 1
        else:
            for launch in launches(step):
                found = _Traffic(program, launch)
                us, kernels, again = us + found.us, kernels + 1, again + found.cached
    return us, kernels, again


def _bytes(program: Program, names: Sequence[str]) -> int:
    found = (program.buffer(n) for n in dict.fromkeys(names) if n)
    return sum(int(product(b.shape)) * _itemsize(b.dtype) for b in found)


def _itemsize(dtype: str) -> int:
    return int(getattr(torch, dtype).itemsize)


def _moved_us(count: float, rate_gbps: float = MEMORY_GBPS) -> float:
    return count / rate_gbps / 1e3


def _native_us(program: Program, step: NativeCall) -> float:
    moved = _bytes(program, [*step.reads, step.writes])
    flop = multiplications(step.node, program.names)
    size = _itemsize(program.buffer(step.writes).dtype)
    return LAUNCH_US + max(_moved_us(moved), flop / LIBRARY_TFLOPS.get(size, 50.0) / 1e6)


def _product_us(program: Program, step: Contraction) -> float:
    batch, rows, columns, inner = (
        max(1, int(product([a.size for a in axes])))
        for axes in (step.batch, step.rows, step.columns, step.inner)
    )
    reads, writes = touched(step)
    size = min((_itemsize(program.buffer(n).dtype) for n in reads), default=4)
    high, wide = -(-rows // _TILE_ROWS), -(-columns // _TILE_COLUMNS)
    busy = min(1.0, batch * high * wide / _UNITS)
    tiled = batch * high * _TILE_ROWS * wide * _TILE_COLUMNS
    again = batch * inner * (rows * wide + columns * high)
    computed = sum(
        batch * inner * count * (_computed([e]) + _DIVISION * (len(axes) > 1))
        for e, count, axes in zip(
            factors(step), (rows * wide, columns * high), ((*step.rows, *step.inner), (*step.columns, *step.inner)),
            strict=False,
        )
    )  # fmt: skip
    return LAUNCH_US + max(
        _moved_us(_bytes(program, [*reads, *writes])), _moved_us(again * size, CACHE_GBPS),
        (2 * tiled * inner / OWN_TFLOPS.get(size, 1.0) / 1e6 + computed / RATE_GOPS / 1e3) / busy,
    )  # fmt: skip


def _computed(found: Sequence[Expression]) -> int:
    calls = (e for x in found for e in walk(x) if isinstance(e, Call))
    return sum(_WEIGHTS.get(e.op, 1) for e in calls)


@dataclass
class _Traffic:
    """What one launch moves and computes."""

    program: Program
    launch: Launch
    requested: dict[str, float] = field(default_factory=dict)
    """Buffer → bytes that loads and stores ask for, whole sectors."""
    operations: float = 0.0

    def __post_init__(self) -> None:
        self.count = max(1, int(self.launch.count))
        self.monoids = {s.name: s.monoid for s in statements(self.launch.body) if isinstance(s, Begin)}
        self.inner = {id(loop) for loop in innermost(self.launch.body)}
        self.operations += self.count * _DIVISION * (len(self.launch.nest) - 1)
        lane = self.launch.nest[-1].axis if self.launch.way == "points" else ""
        self._walk(self.launch.body, self.count, lane)

    @property
    def row(self) -> int:
        """The most elements that lanes run over within one iteration of the nest."""
        loops = [s for s in statements(self.launch.body) if isinstance(s, Loop) and id(s) in self.inner]
        return max((max(1, int(length(s))) for s in loops), default=1)

    @property
    def once(self) -> int:
        """Bytes of all buffers that are touched."""
        return _bytes(self.program, list(self.requested))

    @property
    def cached(self) -> float:
        """Bytes that are asked for again."""
        kept = self.launch.way != "points" and self.row <= WIDEST
        return 0.0 if kept else max(0.0, sum(self.requested.values()) - self.once)

    @property
    def us(self) -> float:
        """The time of the launch."""
        away = self.cached
        rows = min(self.count, _UNITS * _RESIDENT) * self.once / self.count
        far = self.launch.way != "points" and rows > _CACHE_BYTES and self.once > _CACHE_BYTES
        moved = _moved_us(self.once + far * away) + _moved_us((not far) * away, CACHE_GBPS)
        programs, flight = self._programs()
        fed = min(1.0, programs * flight / (_UNITS * _FED_BYTES))
        busy = min(1.0, programs / (2 * _UNITS))
        return LAUNCH_US + max(moved / fed, self.operations / RATE_GOPS / 1e3 / busy)

    def _programs(self) -> tuple[int, int]:
        """Return how many programs run, and the bytes that each has in flight."""
        if self.launch.way == "points":
            block = block_of(self.launch)
            count, flight = (
                -(-self.count // block),
                4 * block * max(1, min(4, loads_together(self.launch.body))),
            )
        else:
            width = 1 << (min(self.row, WIDEST) - 1).bit_length()
            rows = max(1, 2048 // width)
            count, flight = -(-self.count // rows), 4 * (width * rows if self.row <= WIDEST else 2048)
        return (min(count, PROGRAMS) if self.launch.folds else count), flight

    def _walk(self, body: Sequence[Statement], times: float, lane: str) -> None:
        for s in body:
            if isinstance(s, Loop):
                inner = s.axis if self.launch.way != "points" and id(s) in self.inner else lane
                self._walk(s.body, times * max(1, int(s.expected_extent or length(s))), inner)
                continue
            if isinstance(s, Store):
                self._touch(s.buffer, s.index, times, lane)
            elif isinstance(s, Update):
                self.operations += times * _FOLDS.get(self.monoids.get(s.name, ""), 1)
            found = list(expressions(s))
            self.operations += times * _computed(found)
            for e in _loads(found):
                self._touch(e.buffer, e.index, times, lane)

    def _touch(self, buffer: str, index: tuple[Expression, ...], times: float, lane: str) -> None:
        of = self.program.buffer(buffer)
        step = stride(offset(index, of.shape), lane)
        wasted = 1 if step == number(1) else 1 / 32 if step == number(0) else _SECTOR
        if isinstance(step, Literal) and int(step.value) > 0:
            wasted = min(_SECTOR, int(step.value))
        self.requested[buffer] = self.requested.get(buffer, 0.0) + times * wasted * _itemsize(of.dtype)


def _loads(found: Sequence[Expression]) -> Iterator[Load]:
    yield from (e for x in found for e in walk(x) if isinstance(e, Load))
