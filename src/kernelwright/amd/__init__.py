"""Grid, tile, addresses → hit rates of chiplets' caches, bank conflicts: models of AMD GPUs that no device checks.

    from kernelwright.amd import MI300X, Gemm, chunked, traffic, windowed

    gemm = Gemm(m=14592, n=14592, k=14592, tile_m=256, tile_n=256, tile_k=64, element_bytes=2)
    traffic(gemm, MI300X, lambda pid: windowed(chunked(pid, 3249, 8, 64), 57, 57, 8)).l2

Rates are of a model of caches, not of a device; see docs/amd.md for what it leaves out.
"""

from .banks import BankConflicts, bank_conflicts
from .chiplets import MI300X, MI355X, Chiplets, Gemm, Order, Traffic, traffic
from .grid import chunked, row_major, windowed
from .orders import OrderRates, compare_orders

__all__ = [
    "MI300X", "MI355X", "BankConflicts", "Chiplets", "Gemm", "Order", "OrderRates", "Traffic", "bank_conflicts",
    "chunked", "compare_orders", "row_major", "traffic", "windowed",
]  # fmt: skip
