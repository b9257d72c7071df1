"""The host's clock, as benchmarks read it: around many calls, or around each. What is made of it is each one's rule."""

import time
from collections.abc import Callable


def mean_us(call: Callable[[], object], count: int, warm_up: int) -> float:
    """Return the mean microseconds of calls that are clocked together."""
    for _ in range(warm_up):
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count * 1e6


def each_us(call: Callable[[], object], count: int, warm_up: int) -> list[float]:
    """Return the microseconds of each call."""
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return times
