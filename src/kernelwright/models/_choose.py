"""Options, budget → the set with the greatest expected gain in which no two overlap."""

from collections.abc import Sequence
from typing import Protocol, Self

_MOST = 22
"""Options that are weighed against each other; those with the least gain per second are left out."""


class Option(Protocol):
    """Something that may be chosen."""

    @property
    def key(self) -> str:
        """Its name."""
        ...

    @property
    def gain(self) -> float:
        """What it is expected to gain."""
        ...

    @property
    def cost(self) -> float:
        """Seconds that it takes."""
        ...

    def overlaps(self, other: Self) -> bool:
        """Tell whether at most one of the two can be chosen."""
        ...


def choose(options: Sequence[Option], budget_s: float) -> frozenset[str]:
    """Choose the set of options with the greatest gain within a budget, no two of which overlap.

    Options are visited by gain per second; of sets with the same gain the first found stays.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Part:
        ...     key: str; gain: float; cost: float; nodes: set
        ...     def overlaps(self, other): return bool(self.nodes & other.nodes)
        >>> parts = [Part("layer", 5, 2, {1, 2}), Part("norm", 3, 1, {1}), Part("mlp", 4, 1, {2})]
        >>> sorted(choose(parts, 2)), sorted(choose(parts, 1))
        (['mlp', 'norm'], ['mlp'])
    """
    ranked = sorted((o for o in options if o.gain > 0), key=lambda o: -o.gain / max(o.cost, 1e-9))[:_MOST]
    most = [sum(o.gain for o in ranked[i:]) for i in range(len(ranked) + 1)]
    best: tuple[float, frozenset[str]] = (0.0, frozenset())

    def visit(place: int, taken: list[Option], gain: float, left: float) -> None:
        nonlocal best
        if gain > best[0]:
            best = gain, frozenset(o.key for o in taken)
        if place == len(ranked) or gain + most[place] <= best[0]:
            return
        option = ranked[place]
        if option.cost <= left and not any(option.overlaps(other) for other in taken):
            visit(place + 1, [*taken, option], gain + option.gain, left - option.cost)
        visit(place + 1, taken, gain, left)

    visit(0, [], 0.0, budget_s)
    return best[1]
