"""Outputs on a GPU, read by the judge out of a stopped worker: allocations of torch's that the worker says it has.

Covers: outputs as they are while nothing of the worker runs, in what torch allocates by `cudaMalloc`, for graphs too.
Does not cover: memory that is allocated otherwise, or by the very calls that are timed; there the worker copies. What
the worker says may be wrong: then other bytes are read, which are compared like any.
Source: CUDA Driver API, "Memory Management", cuIpcGetMemHandle and cuIpcOpenMemHandle.
"""

import contextlib
from bisect import bisect_right
from collections.abc import Sequence

import torch
from torch import Tensor

from ..system.resources import Resource
from ._driver import Driver, DriverError

_MOST = 256
"""Allocations of a worker that are looked at: the largest."""
Segment = tuple[int, int, str]
"""First address in the worker, bytes, and the handle in hexadecimal."""


def segments(device: str) -> list[Segment]:
    """List what torch has allocated on a device in this process, by address."""
    number = torch.device(device).index or 0
    driver, found = Driver(number), []
    held = [s for s in torch.cuda.memory_snapshot() if s["device"] == number]  # type: ignore[no-untyped-call]  # torch does not annotate it
    for segment in sorted(held, key=lambda s: int(s["total_size"]), reverse=True)[:_MOST]:
        with contextlib.suppress(DriverError):  # of memory that no other process can open
            handle = driver.offered(segment["address"])
            found.append((int(segment["address"]), int(segment["total_size"]), handle.hex()))
    return sorted(found)


class Segments(Resource):
    """The judge's view of one worker's allocations."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._known: list[Segment] = []
        self._opened: dict[str, int] = {}

    def learn(self, said: Sequence[Segment]) -> None:
        """Take what the worker says that it has, and let go of what it has no more."""
        self._known = sorted(said)
        for handle in self._opened.keys() - {handle for _, _, handle in said}:
            self._closed(handle)

    def read(self, address: int, size_bytes: int) -> Tensor | None:
        """Copy bytes at an address of the worker, (size_bytes,) uint8; none where they lie in nothing that is known."""
        at = bisect_right(self._known, address, key=lambda segment: segment[0]) - 1
        if at < 0:
            return None
        first, length, handle = self._known[at]
        if address + size_bytes > first + length:
            return None
        content = torch.empty(size_bytes, dtype=torch.uint8)
        try:
            self._driver.enter()
            if handle not in self._opened:
                self._opened[handle] = self._driver.opened(bytes.fromhex(handle))
            self._driver.read(self._opened[handle] + address - first, content.data_ptr(), size_bytes)
        except (DriverError, ValueError):
            return None
        return content

    def close(self) -> None:
        """Let go of everything."""
        for handle in list(self._opened):
            self._closed(handle)

    def _closed(self, handle: str) -> None:
        with contextlib.suppress(DriverError):
            self._driver.enter()
            self._driver.closed(self._opened.pop(handle))
