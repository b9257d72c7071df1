"""Linux performance counters of a worker's process, read from outside, like `perf stat -p PID`.

`perf_event_open` is called directly, so that counting begins and ends between calls and no other program can hang.
The worker's seccomp filter refuses that call to the candidate; here the judge makes it, for the worker's threads and
all that they start. A machine without a performance monitoring unit, as most virtual ones, has software events only.

Source: Linux, include/uapi/linux/perf_event.h (layout of `perf_event_attr`, event numbers); man 2 perf_event_open.
"""

import ctypes
import errno
import fcntl
import os
import platform
import struct
from pathlib import Path

from ...devices import Device
from ...errors import ProfilerError
from ...languages import Availability
from ...records import Counters
from ...system.resources import Resource
from .._profiler import Trial

_SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
_HARDWARE, _SOFTWARE = 0, 1
_EVENTS = {
    "task_us": (_SOFTWARE, 1),
    "page_faults": (_SOFTWARE, 2),
    "context_switches": (_SOFTWARE, 3),
    "migrations": (_SOFTWARE, 4),
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache_misses": (_HARDWARE, 3),
    "branch_misses": (_HARDWARE, 5),
}  # fmt: skip
_ATTRIBUTE_BYTES, _LINE_BYTES = 128, 64
_DISABLED, _INHERIT, _EXCLUDE_KERNEL = 1 << 0, 1 << 1, 1 << 5
_TIME_ENABLED, _TIME_RUNNING = 1, 2
_ENABLE, _DISABLE = 0x2400, 0x2401
_CLOSE_ON_EXEC = 8
_IN_KERNEL = {_EVENTS["context_switches"], _EVENTS["migrations"]}
"""Events that happen in the kernel only, and would be 0 if the kernel's part is excluded."""
_NOT_HERE = {errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV}


class Perf:
    """Cycles, instructions, misses, faults and switches of the worker's process, all its threads together.

    Covers: counts that the candidate cannot reach; multiplexing if there are more events than counters.
    Does not cover: which line or loop; bytes that a prefetcher loaded; the worker's own work between calls,
    some ten microseconds of Python, which is included; page faults of large outputs, which are kept from call to
    call, as in timed ones, and occasionally get fresh memory.
    """

    name = "perf"

    def available(self, device: Device) -> Availability:
        """Try one event of each kind on this process."""
        if device.kind != "cpu":
            return Availability(False, "counts CPUs only")
        try:
            with Events(os.getpid()) as events:
                hardware = "instructions" in events.names
        except ProfilerError as error:
            return Availability(False, str(error), "sysctl kernel.perf_event_paranoid=2, on Linux")
        what = "hardware and system" if hardware else "the system's, no hardware counters here"
        return Availability(True, f"perf_event_open: {what}")

    def count(self, trial: Trial) -> Counters:
        """Count some calls in a worker, from outside."""
        with trial.ready() as ready, Events(ready.pid) as events:
            events.enable()
            ready.call()
            found = {name: value / ready.calls for name, value in events.totals().items()}
        return Counters(
            tool=self.name, workload=trial.workload.name, calls=ready.calls,
            figures=_derived(found, trial.elements),
        )  # fmt: skip


class Events(Resource):
    """Counters of one process's threads, and of all that they start afterwards. A context manager."""

    def __init__(self, pid: int) -> None:
        """Open the available counters, stopped.

        Raises:
            ProfilerError: it permits none, or there are too many threads for the descriptors of this process.
        """
        self._open: dict[str, list[int]] = {}
        try:
            threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
            for name, (kind, event) in _EVENTS.items():
                self._open[name] = []
                for thread in threads:
                    try:
                        self._open[name].append(_opened(kind, event, thread))
                    except OSError as error:
                        if error.errno not in _NOT_HERE:
                            raise
        except OSError as error:
            self.close()
            raise ProfilerError(f"perf_event_open is refused: {error.strerror}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The events counted."""
        return tuple(name for name, descriptors in self._open.items() if descriptors)

    def enable(self) -> None:
        """Begin to count."""
        self._each(_ENABLE)

    def totals(self) -> dict[str, float]:
        """Stop counting; return the counts, scaled up if events shared a counter."""
        self._each(_DISABLE)
        return {name: sum(map(_total, self._open[name])) for name in self.names}

    def close(self) -> None:
        """Close the counters."""
        for descriptors in self._open.values():
            while descriptors:
                os.close(descriptors.pop())

    def _each(self, request: int) -> None:
        for descriptors in self._open.values():
            for descriptor in descriptors:
                fcntl.ioctl(descriptor, request, 0)


def _opened(kind: int, event: int, thread: int) -> int:
    """Open one event of one thread; without the kernel's part if only that is permitted."""
    try:
        return _perf_event_open(kind, event, thread, _DISABLED | _INHERIT)
    except PermissionError:
        if (kind, event) in _IN_KERNEL:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        return _perf_event_open(kind, event, thread, _DISABLED | _INHERIT | _EXCLUDE_KERNEL)


def _perf_event_open(kind: int, event: int, thread: int, flags: int) -> int:
    number = _SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    attribute = bytearray(_ATTRIBUTE_BYTES)
    struct.pack_into("<IIQ", attribute, 0, kind, _ATTRIBUTE_BYTES, event)
    struct.pack_into("<QQ", attribute, 32, _TIME_ENABLED | _TIME_RUNNING, flags)
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(number, bytes(attribute), thread, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _total(descriptor: int) -> float:
    value, enabled, running = struct.unpack("<QQQ", os.read(descriptor, 24))
    return value * enabled / running if running else 0.0


def _derived(found: dict[str, float], elements: int) -> dict[str, float]:
    """Derive readable figures from counts: instructions per cycle, last-level cache misses in bytes per element."""
    figures = found | ({"task_us": found["task_us"] / 1000} if "task_us" in found else {})
    if found.get("cycles"):
        figures["ipc"] = found["instructions"] / found["cycles"]
    if "cache_misses" in found:
        figures["missed_bytes"] = found["cache_misses"] * _LINE_BYTES
        figures["missed_bytes_per_element"] = figures["missed_bytes"] / max(elements, 1)
    return figures
