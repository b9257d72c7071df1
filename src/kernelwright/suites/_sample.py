"""Problems → a sample of them: stratified by group, the same for the same seed."""

from collections.abc import Sequence

from ..records import content_key
from ._records import SuiteProblem


def sampled(problems: Sequence[SuiteProblem], count: int, seed: int) -> tuple[SuiteProblem, ...]:
    """Draw `count` problems, each group in proportion to its size, in the benchmark's order.

    A problem's place in its group's draw depends on seed and name alone: a larger sample holds the smaller one of each
    group, and problems that are added elsewhere change nothing.

    Example:
        >>> known = [SuiteProblem(suite="s", name=f"{g}/{i}", group=g, file="f") for g in "ab" for i in range(8)]
        >>> [p.name for p in sampled(known, 2, seed=1)] == [p.name for p in sampled(known, 2, seed=1)]
        True
        >>> [p.group for p in sampled(known, 4, seed=1)]
        ['a', 'a', 'b', 'b']
    """
    groups: dict[str, list[SuiteProblem]] = {}
    for problem in problems:
        groups.setdefault(problem.group, []).append(problem)
    shares = _shares({name: len(members) for name, members in groups.items()}, min(count, len(problems)))
    drawn = {
        problem.name
        for name, members in groups.items()
        for problem in sorted(members, key=lambda p: content_key(str(seed), p.name))[: shares[name]]
    }
    return tuple(p for p in problems if p.name in drawn)


def _shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Split the count in proportion to the sizes; what rounding leaves goes to the largest remainders."""
    whole = sum(sizes.values()) or 1
    exact = {name: count * size / whole for name, size in sizes.items()}
    shares = {name: int(part) for name, part in exact.items()}
    by_remainder = sorted(sizes, key=lambda name: (shares[name] - exact[name], name))
    for name in by_remainder[: count - sum(shares.values())]:
        shares[name] += 1
    return shares
