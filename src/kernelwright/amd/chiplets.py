"""GEMM, chiplets, order of tiles → hit rates: a simulation of each XCD's L2 and of the last-level cache behind them.

Covers: blocks dealt to XCDs in turn, one to a compute unit; all blocks that run at once take the same step along K
together, and each step reads one piece of A and one of B; caches that keep the most recently used whole pieces.
Does not cover: blocks that drift apart, associativity and channels of a cache, reads of one piece at the same moment
that a cache cannot merge, writes. Rates are upper limits; compare orders by them, claim nothing else.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ..errors import InputError

Order = Callable[[int], tuple[int, int]]
"""From the hardware's number of a block to its tile's row and column."""


@dataclass(frozen=True)
class Chiplets:
    """A GPU of several chiplets."""

    name: str
    """The device."""
    xcds: int
    """Chiplets, each with an L2 of its own."""
    units: int
    """Compute units of each."""
    l2_bytes: int
    """Of each."""
    llc_bytes: int
    """The last-level cache (Infinity Cache) that all share."""


MI300X: Final = Chiplets("MI300X", xcds=8, units=38, l2_bytes=4 << 20, llc_bytes=256 << 20)
"""Source: AMD CDNA 3 white paper, MI300X: 304 compute units on 8 XCDs, 4 MB of L2 each, 256 MB Infinity Cache."""
MI355X: Final = Chiplets("MI355X", xcds=8, units=32, l2_bytes=4 << 20, llc_bytes=256 << 20)
"""Source: AMD CDNA 4 white paper, MI355X: 256 compute units on 8 XCDs, 4 MB of L2 each, 256 MB Infinity Cache."""


@dataclass(frozen=True)
class Gemm:
    """A matrix product `(m, k) @ (k, n)` by tiles, one block a tile of the result."""

    m: int
    n: int
    k: int
    tile_m: int
    tile_n: int
    tile_k: int
    """What a block reads of both operands before it reads on."""
    element_bytes: int

    @property
    def rows(self) -> int:
        """Tiles down."""
        return -(-self.m // self.tile_m)

    @property
    def columns(self) -> int:
        """Tiles across."""
        return -(-self.n // self.tile_n)


@dataclass(frozen=True)
class Traffic:
    """What the caches did."""

    reads: int
    """Pieces that blocks asked of their L2."""
    l2: float
    """Share of them found there."""
    llc: float
    """Share of what L2 had not that the last-level cache had."""
    memory_bytes: int
    """Read from memory."""


class _Cache:
    """The most recently used pieces that fit."""

    def __init__(self, size_bytes: int) -> None:
        self._left, self._held = size_bytes, OrderedDict[int, int]()

    def has(self, piece: int, size_bytes: int) -> bool:
        """Tell whether it is held, and hold it from now on."""
        if piece in self._held:
            self._held.move_to_end(piece)
            return True
        self._held[piece] = size_bytes
        self._left -= size_bytes
        while self._left < 0:
            self._left += self._held.popitem(last=False)[1]
        return False


def traffic(gemm: Gemm, chip: Chiplets, order: Order) -> Traffic:
    """Simulate the reads of a product whose blocks visit tiles in an order.

    Raises:
        InputError: the order is no bijection of the grid; it names the first block at fault.

    Example:
        >>> gemm = Gemm(m=1024, n=1024, k=64, tile_m=256, tile_n=256, tile_k=64, element_bytes=2)
        >>> found = traffic(gemm, MI300X, lambda pid: divmod(pid, 4))
        >>> found.reads, found.memory_bytes == 2 * 1024 * 64 * 2
        (32, True)
    """
    tiles = [order(pid) for pid in range(gemm.rows * gemm.columns)]
    _check_bijection(tiles, gemm)
    steps = -(-gemm.k // gemm.tile_k)
    sizes = [gemm.tile_m * gemm.tile_k * gemm.element_bytes] * gemm.rows
    sizes += [gemm.tile_n * gemm.tile_k * gemm.element_bytes] * gemm.columns
    l2s, llc = [_Cache(chip.l2_bytes) for _ in range(chip.xcds)], _Cache(chip.llc_bytes)
    missed = memory_reads = memory_bytes = 0
    for wanted in _at_once(tiles, chip, gemm.rows):
        for step in range(steps):
            for l2, panels in zip(l2s, wanted, strict=True):
                for panel in panels:
                    piece, size_bytes = panel * steps + step, sizes[panel]
                    if not l2.has(piece, size_bytes):
                        missed += 1
                        if not llc.has(piece, size_bytes):
                            memory_reads += 1
                            memory_bytes += size_bytes
    reads = 2 * len(tiles) * steps
    return Traffic(reads, 1 - missed / reads, 1 - memory_reads / missed, memory_bytes)


def _check_bijection(tiles: list[tuple[int, int]], gemm: Gemm) -> None:
    """Raise an `InputError` that names the first block whose tile is none, or another's."""
    first: dict[tuple[int, int], int] = {}
    for pid, (row, column) in enumerate(tiles):
        if not (0 <= row < gemm.rows and 0 <= column < gemm.columns):
            what = f"block {pid} visits tile ({row}, {column}), which is outside"
        elif (row, column) in first:
            what = f"blocks {first[row, column]} and {pid} both visit tile ({row}, {column})"
        else:
            first[row, column] = pid
            continue
        raise InputError(
            f"the order does not visit each of the {gemm.rows} x {gemm.columns} tiles once: {what}; expected a "
            "bijection"
        )


def _at_once(tiles: list[tuple[int, int]], chip: Chiplets, rows: int) -> Iterator[list[list[int]]]:
    """Yield, for blocks that run at once, the panels that each XCD reads: rows of A, then columns of B.

    A panel that several blocks of an XCD read is named once: at one step its L2 has it for all but the first.
    """
    at_once = chip.xcds * chip.units
    for first in range(0, len(tiles), at_once):
        wanted: list[dict[int, None]] = [{} for _ in range(chip.xcds)]
        for pid in range(first, min(first + at_once, len(tiles))):
            row, column = tiles[pid]
            wanted[pid % chip.xcds] |= {row: None, rows + column: None}
        yield [list(panels) for panels in wanted]
