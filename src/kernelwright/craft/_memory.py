"""The two memories of the accelerator, word by word, and the transfers between them.

Covers: accesses outside a memory or a tensor, words never written, words of a transfer that was not waited for, inputs
written. Does not cover: time, which is `_timing.py`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_EMPTY, _READY, _ARRIVING, _LEAVING, _OUTSIDE = range(5)
_GAP_WORDS = 64
"""Words between two tensors, which belong to none."""


class Fault(Exception):
    """What a program did that it must not do."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """`bounds`, `align`, `uninitialised`, `dma`, `matrix`, `value` or `endless`."""


@dataclass(frozen=True)
class Region:
    """A tensor in memory."""

    name: str
    """Its name in the task."""
    role: Literal["in", "out", "work"]
    """Whether it is read, is to be written, or is room to work in."""
    words: int
    """Its length."""
    data: NDArray[np.float32] | None = None
    """The words of an input."""


@dataclass(frozen=True)
class Transfer:
    """A transfer under way: the words it touches in both memories."""

    inward: bool
    """Whether it goes to the scratchpad."""
    scratch: tuple[tuple[int, int], ...]
    """The words in the scratchpad: where each row starts and ends."""
    memory: tuple[tuple[int, int], ...]
    """The words in memory."""


class Memory:
    """Both memories, with what is known about every word."""

    def __init__(self, regions: Sequence[Region], scratch_words: int, queues: int) -> None:
        self.scratch = np.zeros(scratch_words, np.float32)
        """The words of the scratchpad."""
        self._scratch_state = bytearray(scratch_words)
        self.starts: list[int] = []
        """Where each tensor starts, in words."""
        at = _GAP_WORDS
        for region in regions:
            self.starts.append(at)
            at += -(-region.words // _GAP_WORDS) * _GAP_WORDS + _GAP_WORDS
        self._regions = tuple(regions)
        self._memory = np.zeros(at, np.float32)
        self._state = bytearray([_OUTSIDE]) * at
        for start, region in zip(self.starts, regions, strict=True):
            self._state[start : start + region.words] = (
                bytes([_EMPTY if region.data is None else _READY]) * region.words
            )
            if region.data is not None:
                self._memory[start : start + region.words] = region.data
        self.pending: list[deque[Transfer]] = [deque() for _ in range(queues)]
        """Transfers not waited for yet, the oldest first, of each queue."""

    def load(self, at: int, count: int) -> NDArray[np.float32]:
        """Read consecutive words of the scratchpad."""
        state = self._scratch_state
        if at < 0 or at + count > len(state):
            raise _outside_scratch(at, count, len(state))
        if state[at : at + count].count(_READY) != count:
            self._check_read(range(at, at + count))
        return self.scratch[at : at + count]

    def store(self, at: int, values: NDArray[np.float32]) -> None:
        """Write consecutive words of the scratchpad."""
        count, state = len(values), self._scratch_state
        if at < 0 or at + count > len(state):
            raise _outside_scratch(at, count, len(state))
        if state[at : at + count].count(_READY) != count:
            self._check_write(range(at, at + count))
            state[at : at + count] = b"\1" * count
        self.scratch[at : at + count] = values

    def load_apart(self, at: int, stride: int, count: int) -> NDArray[np.float32]:
        """Read words of the scratchpad that stand `stride` apart."""
        places = self._places(at, stride, count)
        self._check_read(places)
        return self.scratch[np.fromiter(places, np.int64, count)]

    def store_apart(self, at: int, stride: int, values: NDArray[np.float32]) -> None:
        """Write words of the scratchpad that stand `stride` apart; of those on one place the last stays."""
        places = self._places(at, stride, len(values))
        self._check_write(places)
        for place, value in zip(places, values, strict=True):
            self.scratch[place] = value
            self._scratch_state[place] = _READY

    def start(self, queue: int, transfer: Transfer) -> None:
        """Start a transfer: its words move, and belong to it until it is waited for."""
        for lo, hi in transfer.scratch:
            if lo < 0 or hi > len(self._scratch_state):
                raise _outside_scratch(lo, hi - lo, len(self._scratch_state))
            check = self._check_write if transfer.inward else self._check_read
            check(range(lo, hi))
        for lo, hi in transfer.memory:
            self._check_memory(lo, hi, writes=not transfer.inward)
        if not transfer.inward or len(transfer.scratch) > 1:
            self._check_apart(transfer)
        for (a, b), (c, d) in zip(transfer.scratch, transfer.memory, strict=True):
            if transfer.inward:
                self.scratch[a:b] = self._memory[c:d]
            else:
                self._memory[c:d] = self.scratch[a:b]
        self.pending[queue].append(transfer)
        self._mark(transfer)

    def finish(self, queue: int, count: int) -> None:
        """Take the oldest `count` transfers of a queue as waited for."""
        done = [self.pending[queue].popleft() for _ in range(count)]
        for transfer in done:
            for lo, hi in transfer.scratch:
                self._scratch_state[lo:hi] = b"\1" * (hi - lo)
            for lo, hi in transfer.memory:
                self._state[lo:hi] = b"\1" * (hi - lo)
        if done:
            for rest in self.pending:
                for transfer in rest:
                    self._mark(transfer)

    def output(self, place: int) -> NDArray[np.float32]:
        """Return the words of a tensor, all of which must have been written."""
        start, region = self.starts[place], self._regions[place]
        state = self._state[start : start + region.words]
        if state.count(_READY) != region.words:
            first = next(i for i, s in enumerate(state) if s != _READY)
            missing = region.words - state.count(_READY)
            raise Fault(
                "uninitialised",
                f"{missing} of {region.words} words of output {region.name} were never written, the first is {first}",
            )
        return self._memory[start : start + region.words].copy()

    def _mark(self, transfer: Transfer) -> None:
        inner, outer = (_ARRIVING, _LEAVING) if transfer.inward else (_LEAVING, _ARRIVING)
        for lo, hi in transfer.scratch:
            self._scratch_state[lo:hi] = bytes([inner]) * (hi - lo)
        for lo, hi in transfer.memory:
            self._state[lo:hi] = bytes([outer]) * (hi - lo)

    def _places(self, at: int, stride: int, count: int) -> range | list[int]:
        last = at + stride * (count - 1)
        if min(at, last) < 0 or max(at, last) >= len(self._scratch_state):
            raise _outside_scratch(min(at, last), abs(last - at) + 1, len(self._scratch_state))
        return range(at, last + (1 if stride > 0 else -1), stride) if stride else [at] * count

    def _check_read(self, places: range | list[int]) -> None:
        for place in places:
            state = self._scratch_state[place]
            if state == _EMPTY:
                raise Fault("uninitialised", f"scratchpad word {place} was never written")
            if state == _ARRIVING:
                raise Fault("dma", f"scratchpad word {place} is read before its transfer was waited for")

    def _check_write(self, places: range | list[int]) -> None:
        for place in places:
            if self._scratch_state[place] in {_ARRIVING, _LEAVING}:
                raise Fault(
                    "dma", f"scratchpad word {place} is written while a transfer on it was not waited for"
                )

    def _check_memory(self, lo: int, hi: int, *, writes: bool) -> None:
        inside = [
            n for n, r in enumerate(self._regions) if self.starts[n] <= lo < self.starts[n] + max(1, r.words)
        ]
        if not inside:
            raise Fault("bounds", f"memory word {lo} belongs to no tensor")
        region, start = self._regions[inside[0]], self.starts[inside[0]]
        if hi > start + region.words:
            raise Fault(
                "bounds",
                f"words {lo - start} to {hi - 1 - start} of {region.name} do not exist; it has {region.words}",
            )
        states = self._state[lo:hi]
        if writes:
            if region.role == "in":
                raise Fault("bounds", f"input {region.name} is written")
            if states.count(_ARRIVING) or states.count(_LEAVING):
                raise Fault("dma", f"{region.name} is written while a transfer on it was not waited for")
        elif states.count(_EMPTY):
            raise Fault("uninitialised", f"words of {region.name} are read that were never written")
        elif states.count(_ARRIVING):
            raise Fault("dma", f"{region.name} is read before a transfer to it was waited for")

    @staticmethod
    def _check_apart(transfer: Transfer) -> None:
        rows = sorted(transfer.scratch if transfer.inward else transfer.memory)
        for (_, end), (begin, _) in pairwise(rows):
            if begin < end:
                raise Fault("dma", "rows of one transfer are written over each other")


def _outside_scratch(at: int, count: int, size: int) -> Fault:
    return Fault("bounds", f"scratchpad words {at} to {at + count - 1} do not exist; it has {size}")
