"""Decision: a pure function of raw blocks, verdict, bound and contract."""

import math
from enum import StrEnum

from ._record import Record


class DecisionStatus(StrEnum):
    """The outcome."""

    IMPROVED = "improved"
    EQUAL = "equal"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class Interval(Record):
    """A median with its confidence limits; a limit is None if there are too few blocks for it.

    Example:
        >>> print(Interval(median=1.5, low=1.4, high=1.613), Interval(median=1.5))
        1.50 (1.40 to 1.61) 1.50 (no limits yet)
    """

    median: float
    low: float | None = None
    high: float | None = None

    @property
    def at_least(self) -> float:
        """The lower limit; 0, which any ratio exceeds, if there is none."""
        return 0.0 if self.low is None else self.low

    @property
    def at_most(self) -> float:
        """The upper limit; infinity if there is none."""
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
    """Name of the faster baseline on this workload."""
    bound_us: float = 0.0
    """Microseconds that the best code known could attain; 0 if there is no bound."""
    floor_us: float = 0.0
    """Microseconds below which no kernel can be; 0 if there is no bound."""
    warm_speedup: float | None = None
    """Median ratio with warm caches, where the decision is on cold ones; None if that was not timed."""


class StartUp(Record):
    """Time to the first answer in a fresh process that has imported torch, without builds."""

    candidate_us: float
    """Loading, `prepare` and the first call of the candidate, in its slowest worker, in microseconds."""
    prepare_us: float
    """The part spent in `prepare`; 0 if the candidate declares none."""
    first_call_us: float
    """The part spent in the first call."""
    baseline_us: float
    """The same for the baseline; includes compilation unless that was cached by an earlier run."""
    payback_calls: int | None
    """Calls after which the gain has paid for the difference (break-even); None if there is no gain."""

    def __str__(self) -> str:
        parts = [_long(self.candidate_us)]
        if self.prepare_us:
            parts.append(f"{_long(self.prepare_us)} of it to pack weights")
        parts.append(f"{_long(self.baseline_us)} for the baseline")
        if self.payback_calls:
            parts.append(f"paid back after {self.payback_calls} calls")
        return ", ".join(parts)


def _long(time_us: float) -> str:
    """Format a duration for people.

    Example:
        >>> _long(45_700), _long(58_512_000)
        ('45.7 ms', '58.5 s')
    """
    return f"{time_us / 1e6:.3g} s" if time_us >= 1e6 else f"{time_us / 1e3:.3g} ms"


WRONG_BOUND = 1.25
"""A bound that is this many times the time taken was made of rates that were measured on a busy machine."""


class Decision(Record):
    """The outcome for one candidate against one baseline, and the figures behind it."""

    candidate: str
    """The candidate's key."""
    status: DecisionStatus
    """The decision."""
    reason: str
    """One sentence."""
    baseline: str = ""
    """The fastest baseline, which `improved` refers to."""
    speedup: Interval | None = None
    """Geometric mean over workloads; None if nothing was timed."""
    workloads: tuple[WorkloadDecision, ...] = ()
    """One entry per workload."""
    against: dict[str, float] = {}
    """The median ratio of every baseline's time to the candidate's; of those outpaced by another, over few blocks."""
    time_us: float = 0.0
    """Geometric mean of the candidate's medians."""
    bound_us: float = 0.0
    """Geometric mean of what is attainable."""
    blocks: int = 0
    """Number of blocks used."""
    confirmed: bool = False
    """Whether a fresh process, fresh seeds and the confirm workloads agreed."""
    lost: str = ""
    """Where the gain was lost when it was confirmed: how fast, and under another what; the class, never the values."""
    lost_on: str = ""
    """Name of the confirm workload behind it, for the judge alone: later candidates are confirmed there first."""
    caveats: tuple[str, ...] = ()
    """What its owner must know of a gain that was confirmed."""
    start_up: StartUp | None = None
    """Time to the first answer, compared with `baseline`; None if it was not measured."""
    alarms: tuple[str, ...] = ()
    """Signs of a result that is too good to be true: `faster-than-physics` ..."""

    def is_within(self, share: float) -> bool:
        """Tell whether no more than this share of what is attainable is missing; a bound far above the time is wrong.

        Example:
            >>> known = {"candidate": "k", "status": "equal", "reason": "", "bound_us": 95.0}
            >>> [Decision(time_us=us, **known).is_within(0.9) for us in (100.0, 110.0, 40.0)]
            [True, False, False]
        """
        return self.time_us > 0 and share <= self.bound_us / self.time_us <= WRONG_BOUND
