"""Where the next minutes go: to the region of which one more search is worth most per second.

What a region saves is not known before it is searched: it is believed to be nothing or one of three values, by the
plan's interval, and a search that does not reach one makes it less likely. A search is worth the expected rise of
what all kernels in hand save together. What overlaps with a kernel in hand is worth only what it may save beyond
that: of two such regions with the same expected gain, the one with the wider interval.

Source: the knowledge gradient (Frazier, Powell and Dayanik, A knowledge-gradient policy for sequential information
collection, 2008), by cost as in Howard's information value theory (1966).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ._decided import chance_of
from ._plan_records import Gain

MISSED = 0.35
"""Chance that a search does not reach what a region could save."""
_TAILS = 0.6
"""Weight of the ends of an interval whose ends are exceeded in one of ten cases each.

Source: Swanson's rule, 30-40-30."""
_NOTHING = 0.1
"""Chance that a region has no kernel that is accepted, however long it is searched."""
Overlaps = Mapping[str, frozenset[str]]
"""Region → those that share a part of the graph with it."""


@dataclass
class Stream:
    """One region, with what was spent on it and what it brought."""

    key: str
    """The region."""
    gain: Gain
    """Microseconds of the model that it may save, before anything was spent."""
    time_us: float
    """Microseconds of all its uses, native."""
    cost_s: float
    """Seconds of one search."""
    searches: int = 0
    """Searches so far."""
    speedup: float = 1.0
    """The accepted kernel's speedup; 1 where there is none."""
    lost: float = 1.0
    """The largest speedup of a kernel that was accepted and did not help inside the model; 1 where there is none."""
    failed: str = ""
    """Why it cannot be searched; empty where it can."""
    runs: list[str] = field(default_factory=list)
    """Its runs."""

    @property
    def saved_us(self) -> float:
        """Microseconds of the model that the accepted kernel saves, by its own measurement."""
        return self.time_us * (1.0 - 1.0 / self.speedup)

    @property
    def lost_us(self) -> float:
        """Microseconds that were saved alone and not inside the model: what they promised counts for nothing."""
        return self.time_us * (1.0 - 1.0 / self.lost)

    @property
    def remaining_us(self) -> float:
        """Microseconds that it is expected to save beyond what is saved already.

        Example:
            >>> stream = Stream("norm", Gain(low=50.0, expected=100.0, high=150.0), time_us=200.0, cost_s=10.0)
            >>> round(stream.remaining_us)
            90
            >>> stream.searches = 1
            >>> round(stream.remaining_us)
            76
            >>> stream.speedup = 4.0
            >>> stream.remaining_us
            0
        """
        return sum(chance * (us - self.saved_us) for us, chance in self.better)

    @property
    def better(self) -> list[tuple[float, float]]:
        """What it may save beyond its kernel, in all: microseconds, each with its chance by all searches so far.

        What a kernel saved that did not help inside the model must be saved once more before anything is.

        Example:
            >>> stream = Stream("norm", Gain(low=50.0, expected=100.0, high=150.0), time_us=200.0, cost_s=10.0)
            >>> [us for us, _ in stream.better]
            [50.0, 100.0, 150.0]
            >>> stream.lost = 2.0
            >>> [us for us, _ in stream.better]
            [50.0]
        """
        if self.failed:
            return []
        missed, floor_us = MISSED**self.searches, self.saved_us + self.lost_us
        beliefs = [(us, p * (missed if us > floor_us else 1.0)) for us, p in prior(self.gain)]
        whole = sum(p for _, p in beliefs)
        return [(us - self.lost_us, p / whole) for us, p in beliefs if us > floor_us]


def prior(gain: Gain) -> list[tuple[float, float]]:
    """Return values of a gain with their chances: nothing at all, and the interval, whose mean is the expected gain.

    Example:
        >>> [(us, round(chance, 3)) for us, chance in prior(Gain(low=0.5, expected=1.0, high=4.5))]
        [(0.0, 0.1), (0.5, 0.473), (1.0, 0.36), (4.5, 0.068)]
    """
    width, some = gain.high - gain.low, 1.0 - _NOTHING
    if width <= 0 or not gain.low <= gain.expected <= gain.high:
        return [(0.0, _NOTHING), (gain.expected, some)]
    high = _TAILS * (gain.expected - gain.low) / width
    chances = _TAILS - high, 1.0 - _TAILS, high
    values = gain.low, gain.expected, gain.high
    return [(0.0, _NOTHING), *((us, some * p) for us, p in zip(values, chances, strict=True))]


def kept_of(saved_us: Mapping[str, float], overlaps: Overlaps) -> list[str]:
    """Return the regions whose kernels are used together: those that save the most first, none overlapping another."""
    kept: list[str] = []
    for key in sorted(saved_us, key=lambda k: -saved_us[k]):
        if saved_us[key] > 0.0 and overlaps[key].isdisjoint(kept):
            kept.append(key)
    return kept


def total_us(saved_us: Mapping[str, float], overlaps: Overlaps) -> float:
    """Return what kernels save together."""
    return sum(saved_us[key] for key in kept_of(saved_us, overlaps))


def next_of(streams: Iterable[Stream], left_s: float, overlaps: Overlaps, least_us: float) -> Stream | None:
    """Return the region to search next; None where nothing that fits into the time is worth more than `least_us`.

    A gain is worth as much as the chance that it is decided on in the time that is left.
    """
    known = list(streams)
    in_hand = {s.key: s.saved_us for s in known if s.speedup > 1.0}
    now_us = total_us(in_hand, overlaps)

    def worth_us(stream: Stream) -> float:
        apart = overlaps[stream.key].isdisjoint(in_hand)
        rises = (
            (
                chance,
                us - stream.saved_us if apart else total_us({**in_hand, stream.key: us}, overlaps) - now_us,
            )
            for us, chance in stream.better
        )
        decided = chance_of(left_s, stream.cost_s)
        return decided * (1.0 - MISSED) * sum(chance * max(rise, 0.0) for chance, rise in rises)

    fitting: Sequence[tuple[float, Stream]] = [(worth_us(s), s) for s in known if s.cost_s <= left_s]
    worth = [(us / s.cost_s, s) for us, s in fitting if us > least_us]
    return max(worth, key=lambda pair: pair[0], default=(0.0, None))[1]
