"""Clocks as benchmarks read them: the host's around many calls or around each, a GPU's around each.

What is made of the times is each benchmark's rule.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

_FLUSHED = 1 << 28
"""Bytes written to a GPU before a call, more than its L2 cache holds."""


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


def events_us(call: Callable[[], object], count: int, warm_up: int, device: str) -> list[float]:
    """Return the microseconds between two events of the current stream around each call, with a cold L2 cache."""
    event: Any = torch.cuda.Event
    with torch.cuda.device(device):
        for _ in range(warm_up):
            call()
            torch.cuda.synchronize()
        torch.cuda.empty_cache()
        times = []
        for _ in range(count):
            torch.cuda.synchronize()
            start, end = (event(enable_timing=True) for _ in range(2))
            torch.empty(_FLUSHED, dtype=torch.uint8, device=device).fill_(42)
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
    return times
