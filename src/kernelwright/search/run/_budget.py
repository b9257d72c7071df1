"""Tracks what a run has spent and may still spend of its budget."""

import time
from collections import deque
from collections.abc import Callable

from ...records import Budget, Evaluation
from ...store import Spent

_MOST_RESERVE_S = 90.0
_RESERVE_SHARE, _MOST_RESERVE_SHARE = 0.25, 0.5
_LATEST = 3
"""How many of the latest candidates predict the next one's time: their longest counts."""
_EACH = ("build", "verify", "screen")
"""The stages that every candidate goes through; others run once per run."""


class Meter:
    """Count what a run spends against its budget; a resumed run continues from what it had spent.

    Once something promises a gain, a quarter of the minutes, at most 90 seconds, is reserved for its acceptance; more,
    up to half, if verifying, timing and starting baselines has taken longer. Until then as much is reserved as these
    have shown an acceptance to take. The exploration ends when the next candidate would exceed its time, assuming it
    takes as long as the latest ones.

    Example:
        >>> meter = Meter(Budget(minutes=1), Spent(elapsed_s=50), clock=lambda: 0.0)
        >>> meter.promising = True
        >>> meter.over(), meter.over(reserve=True)
        ('', 'minutes')
    """

    def __init__(self, budget: Budget, spent: Spent, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self.evaluations = spent.evaluations
        self.cached = spent.cached
        self.device_s = spent.device_s
        self.promising = False
        """Whether a candidate is known that promises a gain."""
        self.stages_s: dict[str, float] = {}
        """Seconds by stage since the start or the resumption; parallel builds are added up."""
        self._longest_s: dict[str, float] = {}
        self._latest_s = deque[dict[str, float]](maxlen=_LATEST)
        self._clock = clock
        self._start = clock() - spent.elapsed_s
        self._explored_from_s = self.elapsed_s
        self._here = 0
        self._since = clock()

    @property
    def elapsed_s(self) -> float:
        """Wall seconds so far, including those before a resumption."""
        return self._clock() - self._start

    def charge(self, evaluation: Evaluation, *, again: bool = False) -> None:
        """Count an evaluation; `again` if its candidate was counted at an earlier stage."""
        if evaluation.cached:
            self.cached += not again
            return
        self.device_s += evaluation.device_s
        for stage, seconds in evaluation.stages_s.items():
            self._longest_s[stage] = max(self.longest_s(stage), seconds)
            self.stages_s[stage] = self.stages_s.get(stage, 0.0) + seconds
        if not again:
            self.evaluations += 1
            self._here += 1
            self._latest_s.append({stage: evaluation.stages_s.get(stage, 0.0) for stage in _EACH})

    def longest_s(self, stage: str) -> float:
        """Most seconds that a stage took for one candidate since the start or the resumption."""
        return self._longest_s.get(stage, 0.0)

    @property
    def longest_verify_s(self) -> float:
        """Most seconds that verifying took, including the computation of expected values."""
        return self.longest_s("precompute") + self.longest_s("verify")

    def over(self, *, reserve: bool = False, built: bool = False) -> str:
        """Return which budget is used up, or an empty string.

        With `reserve`, for the exploration and by the end of the next candidate, which may be `built` already.
        """
        budget = self.budget
        if budget.evaluations is not None and reserve and self.evaluations >= budget.evaluations:
            return "evaluations"
        if self.left_s() <= 0 or (reserve and self.left_to_explore_s() <= self._next_s(built)):
            return "minutes"
        share = 1 - _RESERVE_SHARE if reserve else 1.0
        if budget.device_seconds is not None and self.device_s >= budget.device_seconds * share:
            return "device seconds"
        return ""

    def left_s(self) -> float:
        """Wall seconds left; infinite if the budget has no minutes."""
        minutes = self.budget.minutes
        return float("inf") if minutes is None else minutes * 60 - self.elapsed_s

    def left_to_explore_s(self) -> float:
        """Wall seconds left until the reserve for the acceptance begins or the search time ends."""
        minutes, searched_s = self.budget.search_minutes, self.elapsed_s - self._explored_from_s
        searching_s = float("inf") if minutes is None else minutes * 60 - searched_s
        return min(self.left_s() - self._reserve_s(), searching_s)

    def explore(self) -> None:
        """Start counting the search time."""
        self._explored_from_s = self.elapsed_s

    def eta_s(self) -> float | None:
        """Expected wall seconds until a budget is used up. None if unknown."""
        ends = [self.left_s()] if self.budget.minutes is not None else []
        if self.budget.evaluations is not None and self._here:
            pace = (self._clock() - self._since) / self._here
            ends.append(max(self.budget.evaluations - self.evaluations, 0) * pace)
        return max(min(ends), 0.0) if ends else None

    def _next_s(self, built: bool) -> float:
        """Expected wall seconds of the next candidate; 0 while nothing is known."""
        stages = [stage for stage in _EACH if not (built and stage == "build")]
        return max((sum(seconds[stage] for stage in stages) for seconds in self._latest_s), default=0.0)

    def _reserve_s(self) -> float:
        """Return the seconds reserved for an acceptance.

        It verifies in full, tries wrong answers, and times more blocks, twice; the second time on more workloads, whose
        baselines must start. In full, verifying took four to eight times as long as in screenings, and timing five to
        fourteen times (ten runs on one core).
        """
        if self.budget.minutes is None:
            return 0.0
        whole_s = self.budget.minutes * 60
        starts_s = self.stages_s.get("baselines", 0.0)
        seen_s = starts_s + 6 * self.longest_verify_s + 9 * self.longest_s("screen")
        least_s = whole_s * _RESERVE_SHARE if self.promising else 0.0
        return min(max(least_s, seen_s), whole_s * _MOST_RESERVE_SHARE, _MOST_RESERVE_S)
