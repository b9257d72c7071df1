"""Seconds that threads waited for a processor, and a deadline that leaves them out: on a busy machine work barely runs.

Covers: waiting for a processor only; a process that sleeps, or waits for anything else, is charged for it.
Does not cover: threads that begin and end between two looks.
"""

import contextlib
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 3
"""So many times a deadline may be added for waiting for a processor."""
_LOOK_S = 0.2
"""Least seconds between two looks: a look takes a processor too."""


def waits_ns(pid: int) -> dict[str, int]:
    """Return the nanoseconds that each thread of a process has waited for a processor; none where nothing says so.

    Source: Linux, Documentation/scheduler/sched-stats.rst (/proc/PID/schedstat).
    """
    found = {}
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            found[file.parent.name] = int(file.read_text().split()[1])
    return found


def got_share(seconds: float = 0.3) -> float:
    """Return the part of a processor that this thread gets now, from 0 to 1, by computing for so many seconds.

    A load average counts what runs on other processors, and minutes ago, too.

    Example:
        >>> 0.0 < got_share(0.01) <= 1.0
        True
    """
    begun, spent = time.perf_counter(), time.thread_time()
    while (now := time.perf_counter()) < begun + seconds:
        pass
    return min(1.0, (time.thread_time() - spent) / (now - begun))


class PatientDeadline:
    """Seconds left of a deadline, without those that this process and the watched ones waited for a processor.

    Args:
        seconds: Of the deadline.
        most_s: Seconds by the clock after which it has passed in any case; never more than `1 + PATIENCE` times as
            many as `seconds`.
        clock: Where the time is read.
        waits: Where waiting is read.

    Example:
        >>> PatientDeadline(0.0).left_s
        0.0
    """

    def __init__(
        self,
        seconds: float,
        most_s: float = math.inf,
        *,
        clock: Callable[[], float] = time.monotonic,
        waits: Callable[[int], dict[str, int]] = waits_ns,
    ) -> None:
        self._seconds, self._most_s = seconds, min(most_s, (1 + PATIENCE) * seconds)
        self._clock, self._waits = clock, waits
        self._begun = self._looked = clock()
        self._waited_s, self._cut_at = 0.0, math.inf
        self._seen: dict[int, dict[str, int]] = {}
        self.watch(os.getpid())

    def watch(self, pid: int) -> None:
        """Leave out what this process waits from now on, too; it and this one must take turns."""
        self._seen[pid] = self._waits(pid)

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        self._look()
        return max(0.0, self._begun + min(self._seconds + self._waited_s, self._most_s) - self._clock())

    def has_cut(self) -> bool:
        """Tell whether what ran out of time was cut at it; it has passed then, even if waiting moved it on since."""
        if self._clock() >= self._cut_at:
            self._most_s = 0.0
        return self.left_s <= 0

    def within(self, seconds: float) -> float:
        """Return the seconds by the clock for a part of the work: as many times `seconds` as work has taken so far of
        what it would have without waiting, cut at the deadline."""
        left_s, now = self.left_s, self._clock()
        spent_s = self._looked - self._begun
        stretched_s = seconds * max(1.0, min(1.0 + PATIENCE, spent_s / max(spent_s - self._waited_s, 1e-9)))
        self._cut_at = now + left_s if left_s <= stretched_s else math.inf
        return min(stretched_s, left_s)

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked < _LOOK_S:
            return
        waited_ns = 0
        for pid, before in list(self._seen.items()):
            after = self._seen[pid] = self._waits(pid)
            waited_ns += max((ns - before.get(thread, 0) for thread, ns in after.items()), default=0)
            if not after:
                del self._seen[pid]
        self._waited_s += min(waited_ns / 1e9, now - self._looked)
        self._looked = now
