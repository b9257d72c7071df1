"""What a plan says: the parts of a model worth changing, and what may be expected of each."""

from ..profile.trace import TraceReport
from ..records import Record
from ._parts import TimedPart

WHOLE = "whole"
"""What stands for the whole model among its regions."""


class Gain(Record):
    """Microseconds of one call of the model that a change may save."""

    low: float
    """Below this in one of ten cases."""
    expected: float
    """The expected value."""
    high: float
    """Above this in one of ten cases."""


class PlannedRegion(Record):
    """One region of a model, with what may be expected from changing it."""

    region: str
    """Hash of its computation."""
    piece: str
    """The graph that it is in."""
    kind: str
    """`op`, `fused`, `block`, `chain` or `model`."""
    label: str
    """What its first use is called."""
    uses: int
    """How often it occurs in one call, on other weights."""
    time_us: float
    """Microseconds of all uses in one call, in eager torch inside the model."""
    share: float
    """Part of the model's time."""
    bound_us: float
    """The least that all uses could take on this device."""
    reach_us: float | None = None
    """The same with products as fast as they run in programs here, where that was asked."""
    limit: str
    """What limits it."""
    gain: Gain
    """What changing it may save."""
    cost_s: float
    """Seconds to search and accept a kernel."""
    chosen: bool
    """Whether it is in the set to try."""
    chance: float = 1.0
    """Chance that a search for it is decided in the minutes, if it is the first."""
    chains: tuple[int, ...] = ()
    """Places among the trace's chains of kernels of those that one kernel in its place would fuse."""


class Plan(Record):
    """What is worth changing in a model, before anything is spent."""

    model: str
    """The model's name."""
    device: str
    """Fingerprint of the device."""
    time_us: float
    """Median microseconds of one call in eager torch."""
    operators_us: float
    """Microseconds of its operators; the rest is Python between them."""
    regions: tuple[PlannedRegion, ...]
    """From the largest expected gain to the least."""
    breaks: tuple[str, ...]
    """Where the graph ends before the model does, and why."""
    native: tuple[str, ...]
    """Parts that stay native, each with the reason."""
    notes: tuple[str, ...]
    """What else its owner should know."""
    seconds: float
    """Seconds that planning took."""
    whole: PlannedRegion | None = None
    """The whole model as one program, which is tried before its regions; none where that cannot be."""
    parts: tuple[TimedPart, ...] = ()
    """Where the time goes, by module and operator."""
    gain: Gain = Gain(low=0.0, expected=0.0, high=0.0)
    """What trying the chosen regions saves together, played through on possible outcomes."""
    decided_s: float = 0.0
    """About how many seconds a decision on the model takes here after the plan; 0 where that is not known."""
    chance: float = 1.0
    """Chance that such a decision falls within the minutes."""
    covered_us: float = 0.0
    """Microseconds of the chosen regions, each part counted once."""
    trace: TraceReport | None = None
    """What a trace of the model shows, where one was given."""

    @property
    def chosen(self) -> tuple[PlannedRegion, ...]:
        """The regions to try."""
        return tuple(r for r in self.regions if r.chosen)

    @property
    def ceiling(self) -> float:
        """Speedup of the model if the chosen regions took no time at all (Amdahl's law)."""
        return self.time_us / max(self.time_us - self.covered_us, 1e-3 * self.time_us)

    @property
    def expected(self) -> tuple[float, float, float]:
        """Speedup of the model over eager torch: low, expected, high."""
        return self._speedups(self.gain)

    @property
    def expected_of_whole(self) -> tuple[float, float, float]:
        """Speedup of one program for the whole model over eager torch: low, expected, high; 1 where none is tried."""
        return self._speedups(self.whole.gain if self.whole else Gain(low=0.0, expected=0.0, high=0.0))

    def _speedups(self, gain: Gain) -> tuple[float, float, float]:
        low, expected, high = (
            self.time_us / max(self.time_us - us, 1e-3 * self.time_us) if us else 1.0
            for us in (gain.low, gain.expected, gain.high)
        )
        return low, expected, high
