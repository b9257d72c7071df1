"""The profilers, a file each; who adds one names it here."""

from .._profiler import Profiler
from .perf import Perf

PROFILERS: tuple[Profiler, ...] = (Perf(),)
"""All there are; which of them count here, `available` says."""

__all__ = ["PROFILERS", "Perf"]
