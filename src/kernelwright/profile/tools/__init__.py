"""The profilers, a file each; who adds one names it here."""

from .._profiler import Profiler
from .ncu import Ncu
from .perf import Perf

PROFILERS: tuple[Profiler, ...] = (Perf(), Ncu())
"""All there are; which of them count here, `available` says."""

__all__ = ["PROFILERS", "Ncu", "Perf"]
