"""Strategy, devices → what a search finds in which time: a whole search on many devices, simulated.

An editor's reply takes no time here, and an evaluation one of the recorded times. So what is seen is the strategy: how
many moves it has ready, how much it loses by what it does not know yet, and how long devices wait.

Covers: evaluations of different lengths, stragglers, evaluations that a device loses, rounds that end together
(`synchronous`) and results that are told as they come.
Does not cover: time to schedule, to build apart from evaluating, and to write; docs/cluster.md has what was measured.
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...propose import Move, Reply
from ...records import Candidate, Evaluation
from ..archives import Scored
from ..strategies import Strategy

_MOST_FRUITLESS = 50
"""Consecutive replies without anything new after which a search has nothing to do until more is told."""


@dataclass(frozen=True)
class Devices:
    """Devices that evaluate, and what goes wrong with them."""

    count: int
    """How many."""
    times_s: Sequence[float]
    """Recorded seconds of evaluations; each candidate takes one of them, the same on every device."""
    lost: float = 0.0
    """Share of evaluations that are lost halfway and begun again."""
    straggling: float = 0.0
    """Share of evaluations that take longer."""
    slower: float = 10.0
    """How many times as long those take."""
    synchronous: bool = False
    """Whether a device waits until all of a round are done, and results are told then."""
    seed: int = 0
    """Seed of the times and faults."""

    def seconds(self, candidate: Candidate, attempt: int) -> tuple[float, bool]:
        """Return how long an attempt takes, and whether its result is lost."""
        own = random.Random(f"{self.seed} {candidate.key}")
        time_s = own.choice(self.times_s)
        if own.random() < self.straggling:
            time_s *= self.slower
        lost = random.Random(f"{self.seed} {candidate.key} {attempt}").random() < self.lost
        return (time_s / 2, True) if lost else (time_s, False)


@dataclass(frozen=True)
class ParallelSearch:
    """What a search on many devices came to."""

    found: tuple[tuple[float, float], ...]
    """Second and score of each evaluation, in the order told."""
    seconds: float
    """When the last device was done, or time was up."""
    useful_s: float
    """Device seconds of evaluations whose results were told."""
    lost_s: float
    """Device seconds of evaluations that were lost."""
    devices: int
    """How many devices there were."""

    @property
    def utilisation(self) -> float:
        """Share of all device seconds that went into results."""
        return self.useful_s / (self.devices * self.seconds) if self.seconds else 0.0

    @property
    def best(self) -> float:
        """Best score; 0 if nothing works."""
        return max((score for _, score in self.found), default=0.0)

    def reached(self, score: float) -> tuple[float, int]:
        """Return the second and the number of evaluations at which a score was reached; infinite and all if never."""
        for number, (second, one) in enumerate(self.found, start=1):
            if one >= score:
                return second, number
        return math.inf, len(self.found)


def parallel_search(
    strategy: Strategy,
    edit: Callable[[Move], Reply],
    evaluate: Callable[[Candidate], Evaluation],
    devices: Devices,
    *,
    seconds: float,
    enough: float = math.inf,
) -> ParallelSearch:
    """Search until the time is up, a score is enough, or nothing is left to do.

    Example:
        >>> from kernelwright.search.strategies import Means, make_strategy
        >>> from kernelwright.testing import PlantedLandscape
        >>> landscape = PlantedLandscape(seed=3)
        >>> one, many = (
        ...     parallel_search(
        ...         make_strategy("random", Means(seed=0)), landscape.edit, landscape.evaluate,
        ...         Devices(count, times_s=(1.0,)), seconds=20.0,
        ...     ) for count in (1, 8)
        ... )
        >>> len(one.found), len(many.found), one.utilisation, many.best >= one.best
        (20, 160, 1.0, True)
    """
    return _Simulated(strategy, edit, evaluate, devices, enough).run(seconds)


@dataclass(frozen=True, order=True)
class _Work:
    end_s: float
    number: int
    begun_s: float
    lost: bool
    attempt: int


class _Simulated:
    """The state of one simulated search."""

    def __init__(
        self,
        strategy: Strategy,
        edit: Callable[[Move], Reply],
        evaluate: Callable[[Candidate], Evaluation],
        devices: Devices,
        enough: float,
    ) -> None:
        self._strategy, self._edit, self._evaluate = strategy, edit, evaluate
        self._devices, self._enough = devices, enough
        self._given: list[tuple[Candidate, Move]] = []
        self._known: set[str] = set()
        self._waiting: deque[tuple[int, int]] = deque()
        """Numbers of what is to be evaluated, and of the attempt."""
        self._found: list[tuple[float, float]] = []
        self._useful_s = self._lost_s = self._best = 0.0

    def run(self, seconds: float) -> ParallelSearch:
        now_s, under_way, round_done = 0.0, list[_Work](), list[_Work]()
        while True:
            free = self._devices.count - len(under_way)
            if not (self._devices.synchronous and (under_way or round_done)):
                self._begin(under_way, free, now_s)
            elif self._waiting:  # what was lost is begun again in its round
                self._begin(under_way, min(free, len(self._waiting)), now_s)
            if not under_way and not round_done:
                break
            if under_way:
                work = heapq.heappop(under_way)
                if work.end_s > seconds:
                    now_s = seconds
                    break
                now_s = work.end_s
                self._finish(work, now_s, round_done)
            if self._devices.synchronous and not under_way and not self._waiting:
                for done in round_done:
                    self._tell(done, now_s)
                round_done.clear()
            if self._best >= self._enough:
                break
        return ParallelSearch(tuple(self._found), now_s, self._useful_s, self._lost_s, self._devices.count)

    def _begin(self, under_way: list[_Work], count: int, now_s: float) -> None:
        for _ in range(count):
            taken = self._waiting.popleft() if self._waiting else self._next()
            if taken is None:
                return
            number, attempt = taken
            time_s, lost = self._devices.seconds(self._given[number][0], attempt)
            heapq.heappush(under_way, _Work(now_s + time_s, number, now_s, lost, attempt))

    def _finish(self, work: _Work, now_s: float, round_done: list[_Work]) -> None:
        if work.lost:
            self._lost_s += now_s - work.begun_s
            self._waiting.append((work.number, work.attempt + 1))
            return
        if self._devices.synchronous:
            round_done.append(work)
        else:
            self._tell(work, now_s)

    def _next(self) -> tuple[int, int] | None:
        """Ask until there is something new to evaluate."""
        for _ in range(_MOST_FRUITLESS):
            move = self._strategy.ask()
            if move is None:
                return None
            reply = self._edit(move)
            made = [p if isinstance(p, Candidate) else p.render(p.default()) for p in reply.proposals]
            fresh = [(p, c) for p, c in zip(reply.proposals, made, strict=True) if c.key not in self._known]
            self._strategy.heard(move, reply.model_copy(update={"proposals": tuple(p for p, _ in fresh)}))
            for _, candidate in fresh:
                self._known.add(candidate.key)
                self._waiting.append((len(self._given), 0))
                self._given.append((candidate, move))
            if self._waiting:
                return self._waiting.popleft()
        return None

    def _tell(self, work: _Work, now_s: float) -> None:
        candidate, move = self._given[work.number]
        scored = Scored.of(self._evaluate(candidate), move)
        self._strategy.tell(scored)
        self._found.append((now_s, scored.score or 0.0))
        self._best = max(self._best, scored.score or 0.0)
        self._useful_s += work.end_s - work.begun_s
