"""What the judge can see of a worker without asking it: /proc and the process's CPU clock.

Covers: CPU time of all threads to the nanosecond, threads and whether one of them runs, descendants, open
descriptors, resident memory.
Does not cover: CPU time of descendants that the worker started (they are counted, see `descendants`).
"""

import contextlib
import os
import signal
import time
from pathlib import Path

_CPUCLOCK_SCHED = 2
_SETTLE_S, _SETTLE_LIMIT_S = 0.001, 0.05


def cpu_us(pid: int) -> float:
    """Return the CPU microseconds that a process used, all its threads together; 0 where it is gone.

    Source: Linux, include/linux/posix-timers.h (the clock id of a process).
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED) / 1000
    except OSError:
        return 0.0


def threads(pid: int) -> int:
    """Count a process's threads; 0 where it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        return 0


def libraries(pid: int) -> frozenset[str]:
    """Name the files whose code a process has mapped, whatever they are called, by the paths that it sees."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return frozenset()
    mapped = [line.split(maxsplit=5) for line in lines]
    return frozenset(m[5] for m in mapped if len(m) > 5 and "x" in m[1] and m[5].startswith("/"))


def running(pid: int) -> int:
    """Count the threads of a process that have a processor or wait for one."""
    count = 0
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError, IndexError):
            count += task.read_text().rpartition(")")[2].split()[0] == "R"
    return count


def settle() -> None:
    """Wait until the other threads of this process sleep, which they do not when a parallel copy returns.

    OpenMP's threads spin for milliseconds after their work (libgomp's default), on the cores that a worker is
    about to use: on two cores, the second thread of a kernel then waited 4 ms for its turn.
    """
    end = time.monotonic() + _SETTLE_LIMIT_S
    time.sleep(_SETTLE_S)
    while running(os.getpid()) > 1 and time.monotonic() < end:
        time.sleep(_SETTLE_S)


def descriptors(pid: int) -> tuple[str, ...]:
    """Say what a process's open descriptors point at, sorted, inode numbers left out."""
    found = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(str(entry.readlink()).partition(":[")[0])
    return tuple(sorted(found))


def rss_bytes(pid: int) -> int:
    """Return resident bytes; 0 where the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def descendants(pid: int) -> tuple[int, ...]:
    """Name every living process below `pid`, at any depth."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{entry}/stat", "rb") as stat:  # noqa: PTH123 - faster
                state, parent, _ = stat.read().rpartition(b")")[2].split(None, 2)
                if state != b"Z":
                    children.setdefault(int(parent), []).append(int(entry))
    found: list[int] = []
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        found.append(child)
        waiting += children.get(child, ())
    return tuple(found)


def kill_tree(pid: int, pidfd: int) -> None:
    """Stop a process, kill everything below it until nothing new appears, then kill it.

    Used where the worker has no PID namespace: the worker adopts its orphans (it is a subreaper), so
    processes that detached themselves are still below it. Killing the first process of a PID namespace
    kills all of it, so there the loop finds nothing to do.
    """
    _send(pidfd, signal.SIGSTOP)
    for _ in range(100):
        below = descendants(pid)
        if not below:
            break
        for child in below:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    _send(pidfd, signal.SIGKILL)


def kill(pidfd: int) -> None:
    """Kill the process behind a descriptor, if it still lives."""
    _send(pidfd, signal.SIGKILL)


def pid_of(pidfd: int) -> int:
    """Return the number that a process has in our own PID namespace; -1 where it is gone."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def _send(pidfd: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(pidfd, number)
