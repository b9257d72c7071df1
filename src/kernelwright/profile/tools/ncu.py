"""NVIDIA's Nsight Compute: `ncu` wraps the worker, inside the worker's sandbox.

A program that is the worker's parent process, and loads a library into it, could open the sandbox from outside. So
it runs inside: it sees no more of the machine than the worker's zygote does, and only its output leaves.

Source: Nsight Compute CLI, options and CSV output; Profiling Guide, metrics and stall reasons; ERR_NVGPUCTRPERM.
"""

import csv
import math
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from ...devices import Device
from ...errors import ProfilerError
from ...languages import Availability
from ...records import Counters
from ...system.landlock import readable_paths
from .._profiler import Trial

_STALLS = (
    "long_scoreboard", "short_scoreboard", "barrier", "math_pipe_throttle", "mio_throttle", "lg_throttle", "wait",
)  # fmt: skip
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_LIMITS = ("registers", "shared_mem", "blocks", "warps")
_LIMIT = "launch__occupancy_limit_{}"
_TIME = "gpu__time_duration.sum"
_SUMS = {
    "gpu_us": (_TIME,),
    "local_bytes": (
        "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
    ),
}  # fmt: skip
_MEANS = {
    "dram_percent": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "registers": "launch__registers_per_thread",
}
METRICS = (
    *(name for names in _SUMS.values() for name in names), *_MEANS.values(),
    *map(_LIMIT.format, _LIMITS), *map(_STALLED.format, _STALLS),
)  # fmt: skip
"""The requested metrics."""
_UNITS = {
    "ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6,
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
}  # fmt: skip
_MOST_LAUNCHES, _MOST_NAME = 64, 60
_PARAMETERS = Path("/proc/driver/nvidia/params")
_ADMIN_ONLY = re.compile(r"(RmProfilingAdminOnly|RestrictProfilingToAdminUsers): 1")
_OPEN = "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, and a restart"

Launch = dict[str, float]
"""One kernel's metrics by name, in microseconds, bytes and percent."""


class Ncu:
    """Nsight Compute's metrics for the kernels of a call, weighted by their times.

    Covers: utilisation of memory, SMs and tensor cores, occupancy with its limit, registers, spills, stalls.
    Does not cover: forged figures, because the tool uses a library in the candidate's process; a GPU that other
    programs use meanwhile; cache state between calls, because the tool flushes caches before each kernel.
    """

    name = "ncu"

    def __init__(self, program: tuple[str, ...] = ("ncu",), parameters: Path = _PARAMETERS) -> None:
        self._program, self._parameters = program, parameters

    def available(self, device: Device) -> Availability:
        """Look for the program, and whether the driver permits counters without privileges."""
        program = shutil.which(self._program[0])
        if device.kind != "cuda" or program is None:
            what = "counts NVIDIA's GPUs only" if device.kind != "cuda" else "no ncu"
            return Availability(False, what, "install Nsight Compute, which comes with the CUDA toolkit")
        if self._parameters.exists() and _ADMIN_ONLY.search(self._parameters.read_text()):
            return Availability(
                False, "the driver lets only administrators count, and a worker is none", _OPEN
            )
        if not any(Path(program).resolve().is_relative_to(path) for path in readable_paths()):
            return Availability(False, f"{program} lies where no worker may read", "install it below /usr")
        return Availability(True, program)

    def count(self, trial: Trial) -> Counters:
        """Profile the kernels of the first call."""
        program = shutil.which(self._program[0]) or self._program[0]
        line = (
            program, *self._program[1:], "--csv", "--print-units", "base", "--target-processes", "all",
            "--clock-control", "none", "--launch-count", str(_MOST_LAUNCHES), "--metrics", ",".join(METRICS),
        )  # fmt: skip
        launches = read(trial.under(line))
        figures, remarks = summed(launches)
        return Counters(
            tool=self.name, workload=trial.workload.name, calls=1, figures=figures, remarks=remarks
        )


def read(text: str) -> list[tuple[str, Launch]]:
    """Parse kernels' names and metrics, in order, from the tool's output.

    Raises:
        ProfilerError: there is no table in it, or it has no figures.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    launches: dict[str, tuple[str, Launch]] = {}
    rows = csv.DictReader(lines[start:] if start is not None else ())
    for row in rows:
        value = _number(row.get("Metric Value") or "")
        if row.get("Metric Name") in METRICS and value is not None:
            _, metrics = launches.setdefault(str(row["ID"]), (str(row.get("Kernel Name")), {}))
            metrics[str(row["Metric Name"])] = value * _UNITS.get(row.get("Metric Unit") or "", 1.0)
    if not launches:
        said = next(
            (line for line in lines if line.startswith(("==ERROR==", "==WARNING=="))), "no table of metrics"
        )
        raise ProfilerError(f"ncu counted no kernel: {said[:300]}")
    return list(launches.values())


def summed(launches: list[tuple[str, Launch]]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return a call's figures and remarks: sums of times and bytes, shares weighted by the kernels' times."""
    metrics = [launch for _, launch in launches]
    figures = {
        figure: math.fsum(launch.get(name, 0.0) for launch in metrics for name in names)
        for figure, names in _SUMS.items()
        if any(name in launch for launch in metrics for name in names)
    }
    means = {figure: _mean(metrics, name) for figure, name in _MEANS.items()}
    figures |= {figure: value for figure, value in means.items() if value is not None}
    name, longest = max(launches, key=lambda launch: launch[1].get(_TIME, 0.0))
    remarks = []
    if len(launches) > 1 and figures.get("gpu_us"):
        share = longest.get(_TIME, 0.0) / figures["gpu_us"]
        remarks.append(f"{_plain(name)} takes {share:.0%} of {len(launches)} kernels")
    if limit := _extreme(min, _LIMITS, {key: longest.get(_LIMIT.format(key)) for key in _LIMITS}):
        remarks.append(f"occupancy limited by {limit}")
    if stall := _extreme(max, _STALLS, {key: _mean(metrics, _STALLED.format(key)) for key in _STALLS}):
        remarks.append(f"most warps wait for {stall}")
    return figures, tuple(remarks)


def _mean(launches: Iterable[Launch], name: str) -> float | None:
    """Average a metric over kernels by their times, or unweighted if these are unknown."""
    found = [(launch[name], launch.get(_TIME, 0.0)) for launch in launches if name in launch]
    whole = math.fsum(weight for _, weight in found)
    if not whole:
        return math.fsum(value for value, _ in found) / len(found) if found else None
    return math.fsum(value * weight for value, weight in found) / whole


def _extreme(choose: Callable[..., str], keys: Iterable[str], values: dict[str, float | None]) -> str:
    known = [key for key in keys if values[key] is not None]
    return choose(known, key=lambda key: values[key]) if known else ""


def _plain(name: str) -> str:
    """Shorten a kernel's name, which a candidate chose."""
    return "".join(c for c in name if c.isprintable())[:_MOST_NAME]


def _number(text: str) -> float | None:
    """Parse a number in any locale's digit grouping; None if it is not a number.

    Example:
        >>> [_number(text) for text in ("1,024", "1.215.000", "65,77", "2,848.5", "n/a")]
        [1024.0, 1215000.0, 65.77, 2848.5, None]
    """
    marks = [c for c in text if c in ".,"]
    last = marks[-1] if marks else ""
    if marks.count(last) > 1 or (len(marks) == 1 and re.fullmatch(r"\d{1,3},\d{3}", text)):
        plain = text.replace(",", "").replace(".", "")
    else:
        whole, _, part = text.rpartition(last) if last else (text, "", "")
        plain = f"{whole.replace(',', '').replace('.', '')}.{part}" if last else text
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
