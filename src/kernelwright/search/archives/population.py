"""A bounded population: the best candidates, one per family."""

import random

from ._scored import Scored


class Population:
    """The best candidates so far, best first; for a template, only its best configuration.

    Failures never enter. Ties keep the older one first, so the order is deterministic in the calls to `tell`.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._members: list[Scored] = []

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> tuple[Scored, ...]:
        """All members, best first."""
        return tuple(self._members)

    @property
    def best(self) -> Scored | None:
        """The best so far."""
        return self._members[0] if self._members else None

    def add(self, found: Scored) -> bool:
        """Add a candidate if it is good enough; return whether it was added."""
        if not found.works:
            return False
        kin = next((m for m in self._members if m.family == found.family), None)
        if kin is not None and kin.merit >= found.merit:
            return False
        kept = [m for m in self._members if m is not kin] + [found]
        self._members = sorted(kept, key=lambda m: -m.merit)[: self._capacity]
        return any(m is found for m in self._members)

    def pick(self, dice: random.Random, *, pressure: float = 1.0) -> Scored:
        """Draw one by rank: the r-th best has weight r to the power of minus `pressure`."""
        weights = [(rank + 1) ** -pressure for rank in range(len(self._members))]
        return dice.choices(self._members, weights)[0]

    def others(self, dice: random.Random, than: Scored, most: int) -> tuple[Scored, ...]:
        """Draw up to `most` members other than `than`, without repetition: the best first, then at random."""
        rest = [m for m in self._members if m.family != than.family]
        drawn = dice.sample(rest[1:], min(max(most - 1, 0), len(rest[1:])))
        return tuple((rest[:1] + drawn)[:most])
