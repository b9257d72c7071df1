"""A launch that fails → the smallest one that still fails in the same way.

Sizes are tried one after the other, each halved towards the least that still fails, until none gives way any more.

Covers: sizes that depend on each other through what fails only. Does not cover: the least of all; a size that fails at
8 and at 2 but not at 4 may stay at 8.
"""

import time
from collections.abc import Callable, Sequence

from .results import Execution

Sizes = tuple[int, ...]


def smallest(
    start: Sequence[int], fails: Callable[[Sizes], bool], *, most_tries: int = 200, deadline_s: float = 20.0
) -> tuple[Sizes, int]:
    """Return the smallest sizes found for which a launch still fails, and how many launches were tried.

    Args:
        start: Sizes for which it fails; none goes below 1.
        fails: Tells whether a launch of these sizes fails in the same way.
        most_tries: Launches after which the search ends.
        deadline_s: Seconds after which it ends.

    Example:
        >>> smallest([1000, 64], lambda s: s[0] > 10 and s[1] >= 2)[0]
        (11, 2)
    """
    best, tries, end = tuple(start), 0, time.monotonic() + deadline_s

    def tried(index: int, size: int) -> bool:
        nonlocal best, tries
        if tries >= most_tries or time.monotonic() > end:
            return False
        tries += 1
        sizes = (*best[:index], size, *best[index + 1 :])
        if not fails(sizes):
            return False
        best = sizes
        return True

    before: Sizes = ()
    while before != best:
        before = best
        for index in range(len(best)):
            low = 0
            while best[index] - low > 1:
                middle = 1 if low == 0 else (low + best[index]) // 2
                if not tried(index, middle):
                    low = middle
    return best, tries


def ways(run: Execution) -> frozenset[tuple[str, int, int]]:
    """Return in which ways a launch failed: kinds of finding with their lines, or the status alone."""
    found = {(f.kind, f.line, f.other_line) for f in run.findings}
    return frozenset(found if run.status == "ok" else {*found, (run.status, 0, 0)})
