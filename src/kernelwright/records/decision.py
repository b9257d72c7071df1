"""Decision: a pure function of raw blocks, verdict, bound and contract."""

import math
from enum import StrEnum

from ._record import Record


class DecisionStatus(StrEnum):
    """What was decided."""

    IMPROVED = "improved"
    EQUAL = "equal"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class Interval(Record):
    """A median with its confidence limits; a limit is none where there are too few blocks to give it.

    Example:
        >>> print(Interval(median=1.5, low=1.4, high=1.613), Interval(median=1.5))
        1.50 (1.40 to 1.61) 1.50 (no limits yet)
    """

    median: float
    low: float | None = None
    high: float | None = None

    @property
    def at_least(self) -> float:
        """The lower limit; 0, which any ratio exceeds, where there is none."""
        return 0.0 if self.low is None else self.low

    @property
    def at_most(self) -> float:
        """The upper limit; infinity where there is none."""
        return math.inf if self.high is None else self.high

    def __str__(self) -> str:
        limits = (
            "no limits yet" if self.low is None or self.high is None else f"{self.low:.2f} to {self.high:.2f}"
        )
        return f"{self.median:.2f} ({limits})"


class WorkloadDecision(Record):
    """Speedup on one workload."""

    workload: str
    """Its name."""
    speedup: Interval
    """Baseline's time over the candidate's."""
    time_us: float
    """Median microseconds of the candidate."""
    baseline_us: float
    """Median microseconds of the baseline."""
    baseline: str
    """Name of the variant that was the faster baseline here."""
    bound_us: float = 0.0
    """The bound's microseconds; 0 where there is none."""
    warm_speedup: float | None = None
    """Median ratio with caches left as they were, beside a decision on cold ones; none where that was not timed."""


class StartUp(Record):
    """What comes before the first answer in a fresh process that has imported torch; builds are not in it."""

    candidate_us: float
    """Loading, `prepare` and the first call of the candidate, in its slowest worker."""
    prepare_us: float
    """Of which `prepare`; 0 where it declares none."""
    first_call_us: float
    """Of which the first call."""
    baseline_us: float
    """The same of the baseline; compiling is in it where nothing was kept from an earlier run."""
    payback_calls: int | None
    """Calls after which the gain has paid for the difference; none where there is no gain."""

    def __str__(self) -> str:
        parts = [_long(self.candidate_us)]
        if self.prepare_us:
            parts.append(f"{_long(self.prepare_us)} of it to pack weights")
        parts.append(f"{_long(self.baseline_us)} for the baseline")
        if self.payback_calls:
            parts.append(f"paid back after {self.payback_calls} calls")
        return ", ".join(parts)


def _long(time_us: float) -> str:
    """Write a time that people wait for.

    Example:
        >>> _long(45_700), _long(58_512_000)
        ('45.7 ms', '58.5 s')
    """
    return f"{time_us / 1e6:.3g} s" if time_us >= 1e6 else f"{time_us / 1e3:.3g} ms"


class Decision(Record):
    """What was decided on one candidate against one baseline, and the figures behind it."""

    candidate: str
    """The candidate's key."""
    status: DecisionStatus
    """The decision."""
    reason: str
    """One sentence."""
    baseline: str = ""
    """The faster of the baselines: what `improved` is against."""
    speedup: Interval | None = None
    """Geometric mean over workloads; none where nothing was timed."""
    workloads: tuple[WorkloadDecision, ...] = ()
    """Workload by workload."""
    time_us: float = 0.0
    """Geometric mean of the candidate's medians."""
    bound_us: float = 0.0
    """Geometric mean of the bounds."""
    blocks: int = 0
    """Blocks that went in."""
    confirmed: bool = False
    """Whether a fresh process, fresh seeds and the confirm workloads agreed."""
    lost: str = ""
    """Where the gain was lost when it was confirmed: how fast, and under another what; the class, never the values."""
    lost_on: str = ""
    """Name of the confirm workload behind it, for the judge alone: later candidates are confirmed there first."""
    caveats: tuple[str, ...] = ()
    """What its owner must know of a gain that was confirmed."""
    start_up: StartUp | None = None
    """What it takes to the first answer, against `baseline`; none where it was not seen."""
    alarms: tuple[str, ...] = ()
    """What is too good to be true: `faster-than-physics` ..."""
