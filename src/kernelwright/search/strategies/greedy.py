"""Greedy search: one change at a time to the best so far, kept or reverted.

Source: the (1+1) evolution strategy; AutoKernel, `orchestrate.py`, move-on criteria.
"""

from ...propose import Move
from ..archives import Population, Scored
from ._numbered import NumberedStrategy
from ._protocol import Means

_MOST_STARTS = 64


class Greedy(NumberedStrategy):
    """Change the incumbent; keep what is faster, revert what is not, and restart when it stops improving.

    A change that does not work is repaired once before it counts as reverted. After `patience` consecutive
    reverts the climb restarts: from the best start not used yet, then from a fresh draft. The search ends after
    `climbs` climbs, or when the incumbent reaches `target` of the bound.
    """

    def __init__(
        self, means: Means, *, patience: int = 5, target: float = 0.9, climbs: int = 4, gain: float = 0.01
    ) -> None:
        """Start without an incumbent.

        Args:
            means: What may be requested.
            patience: Consecutive reverts before the climb restarts.
            target: Share of the bound at which nothing is left to gain.
            climbs: Most climbs.
            gain: Least relative gain for a change to be kept.
        """
        super().__init__(means)
        self._patience, self._target, self._climbs, self._gain = patience, target, climbs, gain
        self._starts = Population(_MOST_STARTS)
        self._climbed: set[str] = set()
        self._incumbent: Scored | None = None
        self._broken: Scored | None = None
        self._kept = False
        """Whether the change under way produced something to keep."""
        self._failed: Scored | None = None
        """Its candidate that does not work."""
        self._reverts = 0
        self._climb = 0

    def _next(self) -> Move | None:
        if self.in_flight or self._climb >= self._climbs or self._at_the_bound():
            return None
        self._kept, self._failed = False, None
        if self._broken is not None:
            return self.move("repair", self._broken)
        if self._incumbent is None:
            self._incumbent = self._next_start()
        return self.move("draft") if self._incumbent is None else self.move("improve", self._incumbent)

    def _learn(self, found: Scored) -> None:
        if found.move is None:
            self._starts.add(found)
        elif found.works:
            if found.merit > self._bar():
                self._incumbent, self._kept = found, self._kept or self._under_way(found.move)
        elif self._under_way(found.move):
            self._failed = found

    def _under_way(self, move: Move) -> bool:
        """Return whether it is the last move: a template's later trials do not concern the change after it."""
        return move.number == self.asked - 1

    def _settle(self, move: Move) -> None:
        del move
        repaired, self._broken = self._broken is not None, None
        if self._kept:
            self._reverts = 0
        elif self._failed is not None and not repaired:
            self._broken = self._failed
        else:
            self._revert()

    def _revert(self) -> None:
        self._reverts += 1
        if self._reverts >= self._patience:
            self._incumbent, self._reverts = self._next_start(), 0
            self._climb += 1

    def _next_start(self) -> Scored | None:
        start = next((s for s in self._starts.members if s.family not in self._climbed), None)
        if start is not None:
            self._climbed.add(start.family)
        return start

    def _bar(self) -> float:
        return 0.0 if self._incumbent is None else self._incumbent.merit * (1 + self._gain)

    def _at_the_bound(self) -> bool:
        decision = self._incumbent.evaluation.decision if self._incumbent else None
        return bool(decision and decision.is_within(self._target))
