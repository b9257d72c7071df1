"""Ways of doing the same → their times in turns, and what the ratio of two of them comes to."""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ..measure import limits
from ..records import Contract, DecisionStatus, Interval

_WARM_CALLS = 3
_LEAST_ROUNDS, _MOST_ROUNDS = 20, 400
_LEVEL = 0.025
Way = Callable[[], object]


def in_turns(
    ways: Mapping[str, Way],
    seconds: float,
    *,
    least: int = _LEAST_ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return microseconds of each way, in rounds of random order.

    Args:
        ways: What to time, by name.
        seconds: About how long to time for.
        least: Rounds that are made in any case.
        clock: Seconds; on one thread of a busy machine, those of the processor.
    """
    order, times = list(ways), {way: list[float]() for way in ways}
    for call in ways.values():
        for _ in range(_WARM_CALLS):
            call()
    draws, end = random.Random(0), time.monotonic() + seconds
    for count in range(_MOST_ROUNDS):
        if count >= least and time.monotonic() >= end:
            break
        draws.shuffle(order)
        for way in order:
            begun = clock()
            ways[way]()
            times[way].append((clock() - begun) * 1e6)
    return times


def fastest(times: Mapping[str, Sequence[float]], among: Sequence[str]) -> str:
    """Return the name of the fastest way in the median.

    Example:
        >>> fastest({"a": [1.0, 9.0, 2.0], "b": [3.0, 3.0, 3.0], "c": [1.0]}, ("a", "b"))
        'a'
    """
    return min(among, key=lambda way: median(times[way]))


def ratio_of(slow: Sequence[float], fast: Sequence[float]) -> Interval:
    """Return how many times as fast one way is as another, with limits, from times of the same rounds."""
    ratios = [math.log(one / other) for one, other in zip(slow, fast, strict=True)]
    found = limits(ratios, level_low=_LEVEL, level_high=_LEVEL)
    return Interval(median=math.exp(found.median), low=math.exp(found.low), high=math.exp(found.high))


def decision_on(speedup: Interval) -> tuple[DecisionStatus, str]:
    """Return whether a speedup is an improvement, and why not.

    Example:
        >>> decision_on(Interval(median=1.2, low=1.1, high=1.3))[0].value
        'improved'
    """
    if speedup.at_least > 1.0 + Contract().least_effect:
        return DecisionStatus.IMPROVED, ""
    return DecisionStatus.EQUAL, f"the gain may be as small as {speedup.at_least:.3f} times"
