"""GEMM, chiplets → the orders worth trying, the best first by the published rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from .chiplets import Chiplets, Gemm, Order, Traffic, traffic
from .grid import chunked, row_major, windowed

_WINDOWS: Final = (4, 5, 8)
_CHUNKS: Final = (25, 32, 64)


@dataclass(frozen=True)
class OrderRates:
    """An order of tiles and what the caches make of it."""

    window: int
    """Rows of a window; 0: row-major, in the order of the hardware's numbers."""
    chunk: int
    """Consecutive tiles for one XCD; 0: row-major."""
    traffic: Traffic
    """The simulation's answer."""

    @property
    def reuse(self) -> float:
        """Three times the hits in L2 and once those in the last-level cache: what ranks orders.

        Source: Hu et al., HipKittens, arXiv 2511.08083, equation 1; L2 has about three times the bandwidth.
        """
        return 3 * self.traffic.l2 + self.traffic.llc


def compare_orders(
    gemm: Gemm, chip: Chiplets, windows: Sequence[int] = _WINDOWS, chunks: Sequence[int] = _CHUNKS
) -> list[OrderRates]:
    """Simulate row-major order and each window with each chunk, one of them as large as an XCD's share.

    Example:
        >>> from kernelwright.amd import MI355X
        >>> gemm = Gemm(m=3648, n=3648, k=640, tile_m=64, tile_n=64, tile_k=64, element_bytes=2)
        >>> compare_orders(gemm, MI355X)[-1].window  # 57 tiles across, which 8 does not divide
        0
    """
    rows, columns = gemm.rows, gemm.columns
    blocks = rows * columns
    share = max(blocks // chip.xcds, 1)
    found = [OrderRates(0, 0, traffic(gemm, chip, partial(row_major, rows=rows, columns=columns)))]
    for window in sorted({min(window, rows) for window in windows}):
        for chunk in sorted({min(chunk, share) for chunk in (*chunks, share)}):
            found.append(OrderRates(window, chunk, traffic(gemm, chip, _order(gemm, chip, window, chunk))))
    return sorted(found, key=lambda one: -one.reuse)


def _order(gemm: Gemm, chip: Chiplets, window: int, chunk: int) -> Order:
    def order(pid: int) -> tuple[int, int]:
        number = chunked(pid, gemm.rows * gemm.columns, chip.xcds, chunk)
        return windowed(number, gemm.rows, gemm.columns, window)

    return order
