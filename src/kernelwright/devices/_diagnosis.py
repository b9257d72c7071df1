"""What `doctor` says of the hardware."""

import importlib.util
import shutil
from dataclasses import dataclass

from ..config import Settings
from ._detect import devices
from ._device import Device
from .peaks import cached_peaks


@dataclass(frozen=True)
class Diagnosis:
    """One line: what was looked for, whether it is well, and what to do where it is not."""

    what: str
    ok: bool
    remedy: str = ""


def diagnose(settings: Settings | None = None) -> list[Diagnosis]:
    """Look at the CPU, the GPUs and the peaks known of each; measures nothing."""
    settings = settings or Settings.from_environment()
    if importlib.util.find_spec("torch") is None:
        return [Diagnosis("torch", False, "pip install torch")]
    found = devices()
    lines = [line for device in found for line in (_describe(device), _peaks_line(device, settings))]
    if len(found) == 1:
        tool = shutil.which("nvidia-smi") or shutil.which("rocm-smi")
        remedy = "a GPU driver is here: install a torch build for it" if tool else ""
        lines.append(Diagnosis("GPU: none that torch can use", not tool, remedy))
    return lines


def _describe(device: Device) -> Diagnosis:
    units = "SMs" if device.kind == "cuda" else "CUs" if device.kind == "hip" else "cores"
    parts = [f"{device.cores} {units}", f"{device.memory_bytes / 2**30:.0f} GiB"]
    parts += [f"{c.level.upper()} {c.total_bytes / 2**20:.3g} MiB" for c in device.caches]
    parts += [f"{device.vector_bits}-bit vectors"] if device.kind == "cpu" else []
    return Diagnosis(f"{device.torch_device}: {device.name}, " + ", ".join(parts), True)


def _peaks_line(device: Device, settings: Settings) -> Diagnosis:
    peaks = cached_peaks(device, settings)
    if peaks is None:
        return Diagnosis(
            f"{device.torch_device}: peaks not measured yet", True, "measured on first use, 10 s"
        )
    rates = [peak.value for name, peak in peaks.values.items() if name.startswith("dram.")]
    text = f"{device.torch_device}: peaks measured, {max(rates, default=0) / 1e9:.0f} GB/s"
    if peaks.disturbed:
        return Diagnosis(f"{text}, on a busy machine", False, "run again when nothing else runs")
    return Diagnosis(text, True)
