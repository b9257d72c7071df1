"""Where the next minutes go: to the region whose remaining expected gain per second is greatest."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_FADES = 0.35
"""What is left of the expected gain after a search that brought nothing new."""


@dataclass
class Stream:
    """One region, with what was spent on it and what it brought."""

    key: str
    """The region."""
    gain_us: float
    """Microseconds of the model that it was expected to save, before anything was spent."""
    time_us: float
    """Microseconds of all its uses, native."""
    cost_s: float
    """Seconds of one search."""
    searches: int = 0
    """Searches so far."""
    speedup: float = 1.0
    """The accepted kernel's speedup; 1 where there is none."""
    failed: str = ""
    """Why it cannot be searched; empty where it can."""
    runs: list[str] = field(default_factory=list)
    """Its runs."""

    @property
    def saved_us(self) -> float:
        """Microseconds of the model that the accepted kernel saves, by its own measurement."""
        return self.time_us * (1.0 - 1.0 / self.speedup)

    @property
    def remaining_us(self) -> float:
        """Microseconds that another search is expected to save beyond what is saved already.

        Example:
            >>> stream = Stream("norm", gain_us=100.0, time_us=200.0, cost_s=10.0)
            >>> stream.remaining_us
            100.0
            >>> stream.searches, stream.speedup = 1, 2.0
            >>> stream.remaining_us
            0.0
        """
        if self.failed:
            return 0.0
        return max(self.gain_us - self.saved_us, 0.0) * _FADES**self.searches


def next_of(
    streams: Iterable[Stream], left_s: float, overlap: Callable[[str, str], bool], least_us: float
) -> Stream | None:
    """Return the region to search next; None where nothing worth it fits into the time that is left.

    A region that overlaps with one that has an accepted kernel is out, and so is one whose remaining gain is below
    `least_us`.
    """
    known = list(streams)
    taken = [s.key for s in known if s.speedup > 1.0]
    open_ = [
        s
        for s in known
        if s.remaining_us > least_us
        and s.cost_s <= left_s
        and not any(key != s.key and overlap(s.key, key) for key in taken)
    ]
    return max(open_, key=lambda s: s.remaining_us / s.cost_s, default=None)
