"""What hardware is here: devices, their published specifications and their measured peaks."""

from ._conditions import Monitor
from ._detect import detect, devices
from ._device import Cache, Device
from ._diagnosis import Diagnosis, diagnose
from .peaks import Peak, Peaks, cached_peaks, peaks_of

__all__ = [
    "Cache",
    "Device",
    "Diagnosis",
    "Monitor",
    "Peak",
    "Peaks",
    "cached_peaks",
    "detect",
    "devices",
    "diagnose",
    "peaks_of",
]  # fmt: skip
