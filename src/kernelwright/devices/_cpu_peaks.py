"""Measure a CPU's peaks: with a small C++ program if there is a compiler, else with torch."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..config import Settings
from ..records import content_key
from ._device import Device
from ._peak import Peak

MICRO = "devices/_micro.cpp"
"""What the source of a peak names where the C++ program measured it."""
_SOURCE = Path(__file__).with_name(Path(MICRO).name)
_TILES = _SOURCE.parents[1] / "compiler" / "printers" / "cpp" / "tile_unit.h"
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp")
_DEADLINE_S = 120.0
_LEAST_DRAM_BYTES = 256 << 20
_TORCH_SHORTFALL = 2.0
"""Factor from the rate of torch's own loops to the peak: without prefetch and streaming stores they
reached between half and all of what the C++ program did on the CPUs tried."""
_MATRIX_DTYPES = ("float32", "float64", "bfloat16")
"""No float16: torch.mm takes a hundred times longer if the CPU cannot multiply it."""
_MATRIX_SIZE = 768
_REPEATS, _LONG_S = 7, 0.2


def cpu_peaks(device: Device, settings: Settings) -> dict[str, Peak]:
    """Measure bandwidth of each level, multiply-add rates, matrix products, call latency."""
    program, reason = _program(device, settings)
    values = _run(program, device) if program else {}
    if not values:
        values = _torch_bandwidth(device, reason or "the C++ program did not run")
    for dtype in _MATRIX_DTYPES:
        name, product = f"tensor-{dtype}", _matrix_peak(dtype)
        values[name] = max(values.get(name, product), product, key=lambda p: p.value)
    for dtype in ("float32", "float64"):
        values.setdefault(dtype, values[f"tensor-{dtype}"])
    for dtype, unit in (("float32", "float32"), ("float64", "float64"), ("bfloat16", "float32")):
        name = f"tensor-{dtype}"
        values[name] = max(values[unit], values[name], key=lambda p: p.value)
    values["launch"] = _call_peak()
    return values


def _program(device: Device, settings: Settings) -> tuple[Path | None, str]:
    """Build the program, or return why not."""
    compiler = settings.cxx or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None, "no C++ compiler"
    key = content_key(_SOURCE.read_bytes(), _TILES.read_bytes(), compiler, device.fingerprint, *_FLAGS)
    program = settings.cache / "peaks" / f"micro-{key}"
    if program.exists():
        return program, ""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        built = Path(folder) / "micro"
        if _output([compiler, *_FLAGS, str(_SOURCE), "-o", str(built)]) is None:
            return None, f"{compiler} could not build it (OpenMP is needed)"
        built.replace(program)
    return program, ""


def _run(program: Path, device: Device) -> dict[str, Peak]:
    """Run the program on sizes that fit half of each cache, and on sizes far beyond the last one."""
    total = max(_LEAST_DRAM_BYTES, 4 * device.last_level_bytes)
    dram = f"dram={min(total, device.memory_bytes // 8) // device.cores}"
    levels = [f"{c.level}={c.total_bytes // 2 // device.cores}" for c in device.caches]
    text = _output([str(program), str(device.cores), dram, *levels, dram]) or ""
    values: dict[str, Peak] = {}
    for line in text.splitlines():
        name, number = line.split()
        value, unit = float(number), "bytes" if "." in name else "flop"
        if name == "fork_join":
            value, unit = 1 / value, "launches"
        if name not in values or value > values[name].value:
            source = f"measured: {MICRO}, {device.cores} threads, median of the three fastest"
            values[name] = Peak.model_validate({"value": value, "unit": unit, "source": source})
    return values


def _output(command: list[str]) -> str | None:
    """Run a command in its own process group; None if it fails or times out."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
    except OSError:
        return None
    with process:
        try:
            out, _ = process.communicate(timeout=_DEADLINE_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:  # timed out, or this process is interrupted
                os.killpg(process.pid, signal.SIGKILL)
    return out if process.returncode == 0 else None


def _torch_bandwidth(device: Device, reason: str) -> dict[str, Peak]:
    """Measure DRAM only: torch's loops are not precise enough for the caches."""
    import torch

    total = max(_LEAST_DRAM_BYTES, 4 * device.last_level_bytes)
    count = min(total, device.memory_bytes // 8) // 3 // 4
    a, b, c = (torch.ones(count) for _ in range(3))
    size = 4 * count
    patterns: dict[str, tuple[int, Callable[[], object]]] = {
        "dram.read": (size, a.sum),
        "dram.write": (size, lambda: a.fill_(1.0)),
        "dram.copy": (2 * size, lambda: b.copy_(a)),
        "dram.add": (3 * size, lambda: torch.add(a, b, out=c)),
    }
    source = f"measured: torch ops times {_TORCH_SHORTFALL} ({reason})"
    return {
        name: Peak(value=_TORCH_SHORTFALL * amount / _least_seconds(run), unit="bytes", source=source)
        for name, (amount, run) in patterns.items()
    }


def _matrix_peak(dtype: str) -> Peak:
    import torch

    n = _MATRIX_SIZE
    a, b = (torch.ones(n, n, dtype=getattr(torch, dtype)) for _ in range(2))
    seconds = _least_seconds(lambda: torch.mm(a, b))
    return Peak(value=2 * n**3 / seconds, unit="flop", source=f"measured: torch.mm, {n} x {n} {dtype}")


def _call_peak() -> Peak:
    """Time the cheapest call that gets a tensor across from Python and back."""
    import torch

    tensor, count = torch.ones(1), 2000

    def calls() -> None:
        for _ in range(count):
            tensor.detach()

    return Peak(value=count / _least_seconds(calls), unit="launches", source="measured: Tensor.detach")


def _least_seconds(run: Callable[[], object]) -> float:
    """Return the second smallest of a few durations, to exclude an outlier; of a long first call, its own.

    A call is that long where the CPU lacks the instructions, as for bfloat16 before AVX-512, and no peak then.
    """
    import torch

    durations: list[float] = []
    with torch.inference_mode():
        for _ in range(1 + _REPEATS):
            began = time.perf_counter()
            run()
            durations.append(time.perf_counter() - began)
            if durations[0] > _LONG_S:
                return durations[0]
    return sorted(durations[1:])[1]
