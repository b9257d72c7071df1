"""Machine conditions during a measurement: load, clock, throttling, steal time.

Sources: `/proc/loadavg`, `/proc/stat` and cpufreq through psutil, the kernel's thermal counters in sysfs, NVML through
`nvidia-ml-py` where it is installed.
Covers: what the system reports. Does not cover: clocks that a virtual machine hides, throttling that no counter counts
(AMD CPUs have none).
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psutil

from ..records import Conditions
from ._device import Device

_THROTTLES = "cpu[0-9]*/thermal_throttle/*_throttle_count"
_SLOWED = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
"""NVML's throttle reasons: power cap, hardware slowdown, heat, power brake."""


class Monitor:
    """Samples the conditions of a device's machine; each sample covers the time since the previous one.

    Example:
        >>> from kernelwright.devices import detect
        >>> Monitor(detect("cpu")).look().load >= 0
        True
    """

    def __init__(self, device: Device) -> None:
        self._clock = _gpu_clock(device) if device.kind == "cuda" else _cpu_clock
        self._throttles, self._times = _throttles(), _times()

    def look(self) -> Conditions:
        """Return the conditions since the last sample."""
        (spent, stolen), throttles = _times(), _throttles()
        passed, taken = spent - self._times[0], stolen - self._times[1]
        clock_mhz, slowed = self._clock()
        found = Conditions(
            load=os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
            clock_mhz=round(clock_mhz, 1),
            throttled=slowed or throttles > self._throttles,
            stolen=round(taken / passed, 4) if passed > 0 else 0.0,
        )
        self._times, self._throttles = (spent, stolen), throttles
        return found


def _times() -> tuple[float, float]:
    """Return the seconds of all cores since the start, and those that the host gave to other machines."""
    times = psutil.cpu_times()
    return sum(times), getattr(times, "steal", 0.0)


def _cpu_clock() -> tuple[float, bool]:
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):
        return 0.0, False
    return (float(frequency.current) if frequency else 0.0), False


def _throttles(root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Count how often cores were throttled for heat or power since the start."""
    return sum(int(path.read_text()) for path in _counters(root))


@cache
def _counters(root: Path) -> tuple[Path, ...]:
    return tuple(root.glob(_THROTTLES))


def _gpu_clock(device: Device) -> Callable[[], tuple[float, bool]]:
    """Return a reader of a GPU's clock in MHz and whether it is throttled; without NVML both are unknown."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(device.torch_device.rpartition(":")[2]))
    except Exception:  # noqa: BLE001 - no package, no library, no right: NVML has an error class for each
        return lambda: (0.0, False)

    def clock() -> tuple[float, bool]:
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        return float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)), bool(reasons & _SLOWED)

    return clock
