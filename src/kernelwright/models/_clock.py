"""Marks in time on a device: what is between two of them, in microseconds."""

import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from ..devices import Device


class Clock(Protocol):
    """Takes the time of calls inside a model."""

    def mark(self) -> Any:
        """Return a mark of now; on a GPU, of when it gets there."""
        ...

    def settle(self) -> None:
        """Wait until all marks are reached."""
        ...

    def between_us(self, first: Any, last: Any) -> float:
        """Return the microseconds between two marks that are reached."""
        ...


class HostClock:
    """Seconds of a clock of the processor.

    Example:
        >>> clock = HostClock(iter([1.0, 3.0]).__next__)
        >>> clock.between_us(clock.mark(), clock.mark())
        2000000.0
    """

    def __init__(self, seconds: Callable[[], float] = time.perf_counter) -> None:
        self.mark = seconds

    def settle(self) -> None:
        """Wait for nothing: a call is over when it returns."""

    def between_us(self, first: float, last: float) -> float:
        """Return the microseconds between two marks."""
        return (last - first) * 1e6


class DeviceClock:
    """Events on a GPU's current stream, so that nothing waits between the calls of a model.

    Where the GPU waits for the processor, which is usual in eager torch, the time of a call is that of its launch.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def mark(self) -> torch.cuda.Event:
        """Record an event."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch
        event.record(torch.cuda.current_stream(self._device))
        return event

    def settle(self) -> None:
        """Wait for the GPU."""
        torch.cuda.synchronize(self._device)

    def between_us(self, first: torch.cuda.Event, last: torch.cuda.Event) -> float:
        """Return the microseconds between two events."""
        return 1e3 * float(first.elapsed_time(last))


def clock_of(device: Device) -> Clock:
    """Return the clock of a device."""
    return HostClock() if device.kind == "cpu" else DeviceClock(device.torch_device)


def overhead_us(clock: Clock) -> float:
    """Return what a clock takes by itself around a call of nothing."""

    def nothing() -> None:
        return None

    marks = []
    for _ in range(200):
        begun = clock.mark()
        nothing()
        marks.append((begun, clock.mark()))
    clock.settle()
    return statistics.median(clock.between_us(*pair) for pair in marks)
