"""Stop a worker with everything below it, so that nothing is computed while the judge looks or another variant runs.

SIGSTOP cannot be caught, blocked or ignored, by the first process of a PID namespace neither, when it comes
from outside of that namespace. Source: Linux man-pages, pid_namespaces(7), "The namespace init process".

Covers: work put off until after the reply, on threads or in processes, by whoever controls the worker;
inputs changed and processors used while another variant runs.
Does not cover: the microseconds between the reply and the signal's arrival (the clock is read after sending).
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

_LIMIT_S = 20.0
_POLL_S = 2e-5
"""Seconds between two looks at whether all threads have stopped: on a busy machine they need the core to do it."""
_STEP_S = 0.05
"""Seconds that count at most between two looks: a machine that was paused leaves the worker no core meanwhile."""
_STOPPED = frozenset("TtZXD")
"""States in which no instruction of the process runs; a thread in `D` stops before it leaves the kernel."""
_MOST_NAMED = 4


class Freezer:
    """Stops and continues one worker's tree of processes."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self._pid, self._pidfd = pid, pidfd
        self._below: set[int] = set()
        self.frozen = False
        """Whether the tree is stopped."""

    def strike(self) -> None:
        """Send the signal to the worker, at once and nothing else; `settle` sees to the rest."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGSTOP)
        self.frozen = True

    def settle(self) -> bool:
        """Stop what is below, and wait until no thread of any of it runs; false where one goes on."""
        waited_s, looked = 0.0, time.monotonic()
        while waited_s < _LIMIT_S:
            now = time.monotonic()
            waited_s, looked = waited_s + min(now - looked, _STEP_S), now
            if not _stopped(self._pid):
                time.sleep(_POLL_S)
                continue  # it may start more; what is below is looked for once it cannot
            below = _below(self._pid)
            for child in below - self._below:
                _signal(child, signal.SIGSTOP)
            grown, self._below = below - self._below, self._below | below
            if not grown and all(_stopped(pid) for pid in (self._pid, *below)):
                return True
        return False

    def freeze(self) -> bool:
        """Stop everything; returns whether nothing runs any more."""
        self.strike()
        return self.settle()

    def at_work(self) -> str:
        """Name threads that are not stopped, as `python 7 (R)`, the first few; for a message."""
        found = [
            f"{name} {thread} ({state})"
            for pid in (self._pid, *_below(self._pid))
            for thread, name, state in _states(pid)
            if state not in _STOPPED
        ]
        return ", ".join(found[:_MOST_NAMED]) or "none by now"

    def thaw(self) -> None:
        """Let everything run again."""
        if not self.frozen:
            return
        for child in self._below:
            _signal(child, signal.SIGCONT)
        self._below.clear()
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)
        self.frozen = False


def _below(pid: int) -> set[int]:
    """Name the living processes below `pid`, by the lists of children that each thread has."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        folder = f"/proc/{waiting.pop()}/task"
        for thread in _threads(folder):
            with contextlib.suppress(OSError):
                children = {int(n) for n in _read(f"{folder}/{thread}/children").split()}
                waiting += children - found
                found |= children
    return found


def _stopped(pid: int) -> bool:
    return all(state in _STOPPED for _, _, state in _states(pid))


def _states(pid: int) -> Iterator[tuple[str, str, str]]:
    """Yield number, name and state of each thread of a process."""
    folder = f"/proc/{pid}/task"
    for thread in _threads(folder):
        with contextlib.suppress(OSError):
            before, _, after = _read(f"{folder}/{thread}/stat").decode(errors="replace").rpartition(")")
            yield thread, before.partition("(")[2], after[1:2]


def _threads(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - this is done thousands of times
        return file.read()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
