"""The hardware of this machine: devices, their published specifications and their measured peaks."""

from ._conditions import Monitor
from ._detect import detect, devices
from ._device import Cache, Device
from ._gpu_processes import others_on
from ._peak import Peak
from .peaks import Peaks, cached_peaks, peaks_of

__all__ = [
    "Cache",
    "Device",
    "Monitor",
    "Peak",
    "Peaks",
    "cached_peaks",
    "detect",
    "devices",
    "others_on",
    "peaks_of",
]  # fmt: skip
