"""The profilers, one file each; a new one is listed here."""

from .._profiler import Profiler
from .ncu import Ncu
from .perf import Perf

PROFILERS: tuple[Profiler, ...] = (Perf(), Ncu())
"""All profilers; `available` reports which of them work here."""

__all__ = ["PROFILERS", "Ncu", "Perf"]
