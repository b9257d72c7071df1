"""Cores of this machine that an evaluator has alone, and how much a computation's time varies on them."""

import fcntl
import itertools
import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_NOISE_S = 0.25
_LOOP = 20_000


class Cores:
    """A claim on cores, and this process pinned to them.

    Each claimed core is a locked file, which the system unlocks however the process ends. A core that others have too
    is a locked file of a number of its own, so that all cores are shared alike.

    Covers: all evaluators of this user on this machine, of several nodes and clusters too.
    Does not cover: other programs; cores that a hypervisor shares out.
    """

    def __init__(self, count: int, folder: Path) -> None:
        """Claim as many of the cores as this process may use and nobody has, then those that the fewest have."""
        folder.mkdir(parents=True, exist_ok=True)
        allowed = sorted(os.sched_getaffinity(0))
        count = min(count, len(allowed)) if count else len(allowed)
        self._files: dict[int, int] = {}
        self.alone = True
        """Whether no other evaluator has any of them."""
        for sharers in itertools.count():
            for core in allowed:
                name = f"core-{core}.lock" if not sharers else f"core-{core}-{sharers}.lock"
                wanted = len(self._files) < count and core not in self._files
                if wanted and (file := _claimed(folder / name)) is not None:
                    self._files[core] = file
            if len(self._files) == count:
                break
            self.alone = False
        self.names = tuple(sorted(self._files))
        """The cores."""
        os.sched_setaffinity(0, self.names)


def _claimed(path: Path) -> int | None:
    """Return the open file if nobody else holds it; its children inherit the cores, not the claim."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    os.close(file)
    return None


def noise(seconds: float = _NOISE_S) -> float:
    """Time a fixed computation over and over, and return the spread of its times.

    Example:
        >>> noise(0.02) >= 0
        True
    """
    end, times = time.monotonic() + seconds, list[float]()
    while len(times) < 8 or time.monotonic() < end:
        begun = time.perf_counter()
        sum(range(_LOOP))
        times.append(time.perf_counter() - begun)
    return spread(times)


def spread(times: Sequence[float]) -> float:
    """Return the interquartile range over the median.

    Example:
        >>> spread([1.0, 2.0, 3.0, 4.0, 5.0])
        1.0
    """
    low, middle, high = statistics.quantiles(times, n=4)
    return round((high - low) / middle, 4)
