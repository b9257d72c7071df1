"""Measured peaks of this machine's devices: measured once, cached by fingerprint.

Names of peaks:

- `dram.read`, `dram.write`, `dram.copy`, `dram.add`: bytes a second of reading only, writing only, one
  read with one write, two reads with one write. `l1`, `l2`, `l3` likewise; of all cores together.
- `float32`, `float64`: floating-point operations a second of the vector units.
- `tensor-float32`, `tensor-bfloat16` ...: operations a second of a matrix product in that dtype, or of its instruction.
- `launch`: calls a second of the cheapest call that can make a kernel run.
- `fork_join`: parallel regions a second (CPU).
"""

import os
import tempfile
from pathlib import Path

from pydantic import ValidationError

from ..config import Settings
from ..records import SCHEMA_VERSION, Record
from ._cpu_peaks import MICRO, cpu_peaks
from ._device import Device
from ._peak import Peak

METHOD = 8
"""Version of the measurement: peaks of another version are measured again."""
_MOST_ROUNDS = 3
_LEAST_RATIO = 1.6
"""Of the rates of float32 and float64 in a CPU's vector units, which is 2."""


class Peaks(Record):
    """The peaks of one device."""

    schema_version: int = SCHEMA_VERSION
    """Version of the records."""
    method: int = METHOD
    """Version of the measurement."""
    device: str
    """Fingerprint of the device."""
    values: dict[str, Peak]
    """By name; a name that is missing could not be measured."""
    load: float = 0.0
    """Runnable processes per core (1-minute average) when it was measured; the least over all rounds."""
    rounds: int = 1
    """Number of measurements; the highest value of each peak is kept."""

    def get(self, name: str) -> Peak | None:
        """Return one peak, or None if it is not known."""
        return self.values.get(name)

    def best(self, prefix: str) -> Peak | None:
        """Return the highest of the peaks whose name starts with `prefix`."""
        found = [p for name, p in self.values.items() if name.startswith(prefix)]
        return max(found, key=lambda p: p.value, default=None)

    def merged(self, other: "Peaks") -> "Peaks":
        """Return the higher of each peak: a disturbance only ever makes a machine slower.

        Example:
            >>> low = Peaks(device="d", values={"float32": Peak(value=1, unit="flop", source="a")})
            >>> high = Peaks(device="d", values={"float32": Peak(value=2, unit="flop", source="b")})
            >>> low.merged(high).values["float32"].source
            'b'
        """
        values = dict(self.values)
        for name, peak in other.values.items():
            if name not in values or peak.value > values[name].value:
                values[name] = peak
        return self.model_copy(
            update={
                "values": values,
                "load": min(self.load, other.load),
                "rounds": self.rounds + other.rounds,
            }
        )

    @property
    def disturbed(self) -> bool:
        """Whether other work ran during every measurement, so that the peaks may be too low.

        The system's load does not show what runs on a core's other hardware thread, in another virtual
        machine perhaps: where float32 is not well above float64, which has half its lanes, something did.
        """
        return self.load > 0.5 or self._out_of_order

    @property
    def _out_of_order(self) -> bool:
        single, double = self.values.get("float32"), self.values.get("float64")
        if single is None or double is None or MICRO not in single.source:
            return False
        return single.value < _LEAST_RATIO * double.value


def peaks_of(device: Device, settings: Settings | None = None, *, refresh: bool = False) -> Peaks:
    """Return the device's peaks, from the cache or by measuring them now (a few seconds).

    Peaks that something disturbed are measured again when next requested, three times at most, and
    the highest of each is kept. The caller holds the device's lock meanwhile.

    Args:
        device: What to measure.
        settings: Where the cache is and which compiler to use; by default the environment's.
        refresh: Measure now in any case, and keep the higher of old and new.
    """
    settings = settings or Settings.from_environment()
    old = cached_peaks(device, settings)
    if old is not None and not refresh and (not old.disturbed or old.rounds >= _MOST_ROUNDS):
        return old
    new = measure(device, settings)
    peaks = old.merged(new) if old is not None else new
    _write(_path(device, settings), peaks.to_json())
    return peaks


def cached_peaks(device: Device, settings: Settings | None = None) -> Peaks | None:
    """Return the peaks measured before, or none."""
    try:
        text = _path(device, settings or Settings.from_environment()).read_text()
        peaks = Peaks.from_json(text)
    except (OSError, ValidationError):
        return None
    return peaks if (peaks.method, peaks.device) == (METHOD, device.fingerprint) else None


def measure(device: Device, settings: Settings) -> Peaks:
    """Measure the device's peaks now, bypassing the cache."""
    load = os.getloadavg()[0] / max(1, device.cores) if hasattr(os, "getloadavg") else 0.0
    if device.kind == "cpu":
        values = cpu_peaks(device, settings)
    else:
        from ._gpu_peaks import gpu_peaks

        values, load = gpu_peaks(device), 0.0
    return Peaks(device=device.fingerprint, values=values, load=round(load, 2))


def _path(device: Device, settings: Settings) -> Path:
    return settings.cache / "peaks" / f"{device.fingerprint}.json"


def _write(path: Path, text: str) -> None:
    """Write the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).replace(path)
