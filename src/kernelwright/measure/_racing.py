"""Which baselines a measurement leaves out after a few rounds, because another one is surely faster (racing).

Covers: who took half as long again as the same other baseline in every block that both ran in, on every workload.
Does not cover: decisions; what beats the other baseline beats those that were left out.
Source: Maron and Moore, Hoeffding races, 1993, for the idea; the rule here needs no bound on times.
"""

from collections.abc import Mapping, Sequence

from ..records import Block
from ..tasks import keeps_weights
from ._estimate import all_baselines_of, baselines_of, median_us

OUTPACED = 1.5
"""Who takes so many times as long as another one in every block is left out."""
RACE_ROUNDS = 3
"""Blocks on each workload before anybody is."""


def outpaced(by_workload: Mapping[str, Sequence[Block]]) -> dict[str, str]:
    """Return the baselines that may be left out, or were, each with who outpaced it.

    Someone stays with whose outputs those of the candidate can be compared.

    Args:
        by_workload: The blocks that count, by workload. A baseline that ran in none of a workload's is not looked at.

    Example:
        >>> times = {"candidate": 9.0, "eager": 50.0, "compile": 20.0, "openvino": 25.0}
        >>> block = Block(workload="w", order=tuple(times), calls=1, times_us=times, fetch_us={})
        >>> outpaced({"w": [block] * 3}), outpaced({"w": [block] * 2})
        ({'eager': 'compile'}, {})
    """
    stay = baselines_of(by_workload)
    found = {
        slow: fast
        for slow in all_baselines_of(by_workload)
        if (fast := next((f for f in stay if f != slow and _always(by_workload, slow, f)), ""))
    }
    comparable = [name for name in stay if not keeps_weights(name)]
    if comparable and all(name in found for name in comparable):
        found.pop(min(comparable, key=lambda name: sum(median_us(b, name) for b in by_workload.values())))
    return found


def missing(by_workload: Mapping[str, Sequence[Block]]) -> list[str]:
    """Name the baselines that are absent from some of a workload's blocks, though nobody outpaced them."""
    some = {
        name
        for blocks in by_workload.values()
        for name in set().union(*(b.times_us for b in blocks))
        if not all(name in b.times_us for b in blocks)
    }
    return sorted(some - set(outpaced(by_workload))) if some else []


def _always(by_workload: Mapping[str, Sequence[Block]], slow: str, fast: str) -> bool:
    """Whether one took far longer than the other in every block, and in enough of them."""
    for blocks in by_workload.values():
        both = [b.times_us for b in blocks if slow in b.times_us]
        if len(both) < RACE_ROUNDS or any(t[slow] < OUTPACED * t[fast] for t in both):
            return False
    return True
