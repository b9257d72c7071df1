"""Counters: what a profiler measured while a candidate ran; advice to proposers, never evidence."""

from ._record import Record

_SIGNS = {"percent": " %", "us": " us", "bytes": " bytes"}


class Counters(Record):
    """One profiler's counters for one candidate on one workload.

    Example:
        >>> figures = {"ipc": 1.834, "page_faults": 0, "dram_percent": 78.2}
        >>> print(Counters(tool="perf", workload="n=64", calls=100, figures=figures))
        perf on n=64, a call: ipc 1.83, page faults 0, dram 78.2 %
    """

    tool: str
    """The profiler's name."""
    workload: str
    """The workload's name."""
    calls: int
    """Calls that were profiled."""
    figures: dict[str, float]
    """By name, with the unit as suffix (`task_us`, `dram_percent`); counts and times are per call."""
    remarks: tuple[str, ...] = ()
    """What the figures mean together, in words: what limits the occupancy, what most warps wait for."""

    def __str__(self) -> str:
        said = ", ".join((*(_said(*figure) for figure in self.figures.items()), *self.remarks))
        return f"{self.tool} on {self.workload}, a call: {said}"


def _said(name: str, value: float) -> str:
    words, _, unit = name.rpartition("_")
    if unit in _SIGNS:
        return f"{words.replace('_', ' ')} {value:.3g}{_SIGNS[unit]}"
    return f"{name.replace('_', ' ')} {value:.3g}"
