"""Tell from outside that a request will not be answered: nothing of the worker is at work, or far too much is.

Covers: a worker and all processes below it that sleep for seconds, and one that computes for longer than it may.
Does not cover: one that wakes up now and then; the request's own deadline ends that.
"""

import contextlib
import time
from pathlib import Path

from . import _inspection

LOOK_S = 0.2
"""Seconds between two looks."""
IDLE_S = 1.5
"""Seconds without work after which no answer is expected: no kernel on a CPU waits so long for anything."""
_IDLE_SHARE = 0.02
"""Share of a core that waking up and sleeping again may take."""
_LEAST_LOOKS = 3
"""So often it must have been seen idle: on a busy machine the answer may come while it is this process that waits."""
_AT_WORK = frozenset("RD")
"""States of a thread that has a processor, wants one, or waits for the disk."""


class Stall:
    """Looks at one request's worker every `LOOK_S` while it is waited for.

    Args:
        pid: The worker.
        busy_s: Seconds of computing, both by the clock and of CPU time, after which it is not waited for any more.
    """

    def __init__(self, pid: int, busy_s: float) -> None:
        self._pid, self._busy_s = pid, busy_s
        self._begun = self._rested = time.monotonic()
        self._first_us = self._spent_us = self._used_us((pid,))
        self._idle_looks = 0

    def reason(self) -> str:
        """Say why no answer is expected any more; empty while one is."""
        tree, now = (self._pid, *_inspection.descendants(self._pid)), time.monotonic()
        used_us = self._used_us(tree)
        if used_us - self._spent_us > _IDLE_SHARE * IDLE_S * 1e6 or any(map(_at_work, tree)):
            self._rested, self._spent_us, self._idle_looks = now, used_us, -1
        self._idle_looks += 1
        if now - self._rested >= IDLE_S and self._idle_looks >= _LEAST_LOOKS:
            return f"nothing of it was at work for {IDLE_S:.1f} s"
        computed_s = (_inspection.cpu_us(self._pid) - self._first_us) / 1e6
        if min(computed_s, now - self._begun) >= self._busy_s:
            return f"no answer after {self._busy_s:.0f} s of computing"
        return ""

    @staticmethod
    def _used_us(tree: tuple[int, ...]) -> float:
        return sum(map(_inspection.cpu_us, tree))


def _at_work(pid: int) -> bool:
    """Tell whether a thread of a process runs, wants to, or waits for the disk."""
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if task.read_text().rpartition(")")[2].split()[0] in _AT_WORK:
                return True
    return False
