"""ServedSizes: sizes that an accepted kernel may serve besides those it was accepted on, and the evidence."""

from enum import StrEnum

from ._record import Record
from .timing import Timing


class SizeOutcome(StrEnum):
    """What came of a kernel at one more size."""

    SERVED = "served"
    """Right, and not slower than the native op."""
    SLOWER = "slower"
    DECLINED = "declined"
    """It says itself that it does not serve this size."""
    WRONG = "wrong"
    OPEN = "open"
    """Not verified or not timed: the native op is not accurate enough there, or time was up."""


class SizeProbe(Record):
    """A kernel at one more size."""

    sizes: dict[str, int]
    """The symbols' values."""
    outcome: SizeOutcome
    """What came of it."""
    speedup: float | None = None
    """Median ratio of the native op's time to the kernel's; none where it was not timed."""


class SizeOf(Record):
    """How one axis of an argument follows from a symbol: `scale * symbol + offset`."""

    symbol: str
    scale: int = 1
    offset: int = 0


class SymbolRange(Record):
    """The values that one symbol may take.

    Example:
        >>> print(SymbolRange(symbol="dim", low=8, high=1024, multiple=8))
        dim from 8 to 1024 in multiples of 8
    """

    symbol: str
    low: int
    high: int
    multiple: int = 1

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.symbol} {self.low}"
        steps = f" in multiples of {self.multiple}" if self.multiple > 1 else ""
        return f"{self.symbol} from {self.low} to {self.high}{steps}"


class ServedSizes(Record):
    """What a timed screen at neighbouring and extreme sizes opened around one workload."""

    workload: str
    """The search workload that it was accepted on, from which the ranges open."""
    arguments: tuple[tuple[SizeOf | None, ...], ...]
    """Of each argument, then of each state tensor, how its axes follow from the symbols; none for an axis that stays
    as it is, and nothing for a scalar."""
    boxes: tuple[tuple[SymbolRange, ...], ...] = ()
    """Ranges that hold together, one for each symbol; a kernel serves each of the boxes."""
    probes: tuple[SizeProbe, ...] = ()
    """The evidence, size by size."""
    notes: tuple[str, ...] = ()
    """Why a symbol stays as it is."""
    timing: Timing | None = None
    """The raw blocks behind the ratios; the workloads are named by their sizes."""
