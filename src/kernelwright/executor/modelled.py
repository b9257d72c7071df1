"""An execution's counters, a device's published numbers → a modelled time, as an interval. No device took this time.

    run = kernel(grid=64, block=256, arguments=[...])
    made = modelled(run.counters, specs()["h100-sxm"], registers=registers_of(ptx, "sm_90", run.kernel))
    made.low_us, made.high_us, made.term        # never a claim: an order for candidates, a hint for the next one

Each term has a least and a greatest time. The largest of the least ones is the interval's lower end, as if all else
were hidden behind it; the sum of the greatest ones is its upper end, as if nothing were.

Covers: bytes to DRAM, sectors through L2 and L1, passes over the banks, loads of constants, instructions by pipe,
tensor throughput, what latency leaves open at this occupancy, uneven waves of blocks.
Does not cover: clocks below the published ones, hit rates of caches (their extremes are the interval's), what ptxas
makes of the instructions (PTX is counted), launch queues, clusters (a launch of them has no model).
"""

import math
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..devices.specs import Number, Spec
from ..errors import InputError
from ..languages._cuda_targets import ptxas_evidence
from ..languages._occupancy import CORES, occupancy
from ..languages._process import run_tool
from ..records import ModelledTime
from .results import Counters

Interval = tuple[float, float]

_PTXAS_S: Final = 120.0
_SECTOR: Final = 32
_FREE: Final = {"mov", "cvta", "bra", "ret", "exit", "label"}
"""Opcodes that leave no instruction, or one that is issued together with others."""
_CLUSTER: Final = ("barrier.cluster", "mapa")
_SPECIAL: Final = {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div"}
_TENSOR_TYPES: Final = {
    "f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32", "f64": "float64", "s8": "int8", "u8": "int8",
    "e4m3": "float8", "e5m2": "float8", "f8f6f4": "float8", "i8": "int8",
}  # fmt: skip


@dataclass(frozen=True)
class _Limits:
    """What a multiprocessor of a compute capability does in a clock.

    Source: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions".
    """

    float32: int
    """Results of 32-bit additions, multiplications and their fusion, of all lanes together, in a clock."""
    float64: int
    blocks_us: float = 0.0
    """Between the starts of two blocks, on the whole device; 0 where nobody has measured it."""


_LIMITS: Final = {
    "8.0": _Limits(64, 32), "8.6": _Limits(128, 2), "8.9": _Limits(128, 2), "9.0": _Limits(128, 64, 6.0e-4),
}  # fmt: skip
_INTEGER, _SPECIALS, _LANES = 64, 16, 32
"""Results in a clock: of integers, of approximations; and addresses of loads and stores."""
_SCHEDULERS: Final = 4
_L1_BYTES: Final = 128
"""Bytes in a clock from L1 or shared memory. Source: the same guide, "Shared Memory": 32 banks of 32 bits."""
_L2_BYTES: Final = (32.0, 64.0)
"""Bytes in a clock from L2 to a multiprocessor, at least and at most. Source: NVIDIA A100 Tensor Core GPU Architecture
(white paper), "L2 cache": 5,120 bytes a clock for 108 multiprocessors; 64 is what a multiprocessor's port takes."""
_FAR: Final = (250.0, 700.0)
"""Clocks until a load from L2, and one from DRAM under load, arrives: an assumption, about what microbenchmarks of
Volta to Hopper report."""
_NEAR: Final = (23.0, 33.0)
"""Clocks until one from shared memory or L1 does: likewise."""
_CONSTANT: Final = 27.0
"""Clocks until a load from the nearest cache of constants arrives, at worst one load of a multiprocessor after another.
Source: Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking (2018), "Constant caches"."""
_WAITING_BLOCK: Final = 128
"""Threads of the largest block whose loads of constants were seen to wait for each other, and then only some: an
observation on an H200 (docs/executor.md) that nobody has explained."""
_IN_FLIGHT: Final = (1.5, 8.0)
"""Loads of a warp under way at once: an assumption, for code whose loads need each other, and for unrolled code."""
_ISSUE: Final = (0.6, 1.2)
"""Machine instructions for an instruction of the PTX that is not free: an assumption."""
_DEPENDENT: Final = (1.0, 4.0)
"""Clocks between instructions of one warp: independent ones, and ones that wait for each other."""
_START_US: Final = (1.0, 4.0)
"""Until the first block runs and the last has ended: an assumption."""
_DRAM_SHARE: Final = 0.7
"""The part of the published bandwidth that a plain copy gets, at worst: an assumption."""


def modelled(counters: Counters, spec: Spec, *, registers: int = 0, scale: float = 1.0) -> ModelledTime:
    """Model the time that a launch would take on a device.

    Args:
        counters: Of an execution that was counted, with races looked for: the bytes that were touched come from there.
        spec: The device's published numbers.
        registers: Of a thread, as ptxas says; 0 where nobody knows: then they limit nothing.
        scale: The grid's blocks for each one that was executed, where only a part of a uniform grid was.

    Raises:
        InputError: the specification lacks a number that the model needs, nothing was counted, or blocks meet in
            clusters.
    """
    limits = _LIMITS.get(spec.capability)
    if limits is None or spec.cores is None or "float32" not in spec.vector:
        raise InputError(
            f"no model of {spec.name}: its specification lacks cores, float32 or a known compute capability; "
            f"expected a device of {', '.join(_LIMITS)}"
        )
    if not counters.blocks or not counters.memory:
        raise InputError("nothing was counted; execute with `Options(count=True)`")
    if any(name.startswith(_CLUSTER) for name in counters.instructions):
        raise InputError(
            "no model of blocks that meet in clusters: how fast they start and reach each other is unknown"
        )
    return _Model(counters, spec, limits, registers, scale).result()


def registers_of(ptx: str, target: str, kernel: str) -> int:
    """Return the registers that ptxas gives each thread of a kernel; 0 where there is no ptxas or it refuses."""
    tool = shutil.which("ptxas")
    if tool is None:
        return 0
    with tempfile.TemporaryDirectory(prefix="kernelwright-ptxas-") as name:
        path = Path(name) / "kernel.ptx"
        path.write_text(ptx)
        words = [tool, f"-arch={target}", "-v", "-e", kernel, path.name, "-o", "kernel.cubin"]
        done = run_tool(words, deadline_s=_PTXAS_S, folder=Path(name), closed=True)
    name = f"{target.rstrip('af')}.registers"  # of sm_90a it is noted under sm_90
    found = ptxas_evidence(done.output).get(name, 0) if done.returncode == 0 else 0
    return found if isinstance(found, int) else 0


class _Model:
    def __init__(self, counters: Counters, spec: Spec, limits: _Limits, registers: int, scale: float) -> None:
        assert spec.cores is not None
        self._counters, self._spec, self._limits, self._scale = counters, spec, limits, scale
        self._cores = int(spec.cores.value)
        self._hz = spec.vector["float32"].value / (2 * limits.float32 * self._cores)
        self._blocks = max(1.0, counters.blocks * scale)
        self._warps = math.ceil(counters.threads / 32)
        self._core = CORES[spec.capability]
        self._resident, self._limited_by = self._residents(registers)

    def _residents(self, registers: int) -> tuple[int, str]:
        """Return how many blocks a multiprocessor holds at once, and what keeps it from holding more."""
        shared = self._counters.shared_bytes
        fill = occupancy(self._core, threads=32 * self._warps, registers=registers, shared_bytes=shared)
        of_grid = math.ceil(self._blocks / self._cores)
        return (of_grid, "the grid") if of_grid < fill.blocks else (max(1, fill.blocks), fill.limited_by)

    def result(self) -> ModelledTime:
        """Put the terms together."""
        launch = self._blocks * self._limits.blocks_us
        terms = {"start": _START_US, "launch": (launch, 1.1 * launch), **self._memory(), **self._arithmetic(),
                 "latency": self._latency()}  # fmt: skip
        terms = {name: (low, high) for name, (low, high) in terms.items() if high > 0}
        low, high = max(t[0] for t in terms.values()), sum(t[1] for t in terms.values())
        peak = max(n.value for n in (*self._spec.vector.values(), *self._tensor_peaks()))
        return ModelledTime(
            device=self._spec.name, low_us=low, high_us=high,
            term=max(terms, key=lambda name: terms[name][0] * terms[name][1]), terms_us=terms,
            occupancy=min(1.0, self._resident * self._warps / self._core.warps), limited_by=self._limited_by,
            operations_per_byte=self._operations() / max(self._counters.touched_bytes, 1),
            ridge=peak / self._spec.bandwidth.value,
        )  # fmt: skip

    def _core_us(self, clocks: float) -> float:
        """Return the time of clocks of all blocks, which multiprocessors share by whole blocks."""
        executed = max(self._counters.blocks, 1)
        return math.ceil(self._blocks / self._cores) * clocks / executed / self._hz * 1e6

    def _memory(self) -> dict[str, Interval]:
        c, spec, scale = self._counters, self._spec, self._scale
        touched, moved = c.touched_bytes * scale, c.total("global", "units") * _SECTOR
        far = spec.bandwidth.value / 1e6
        held = spec.l2_bytes is not None and touched <= spec.l2_bytes.value
        worst = touched if held else max(touched, moved * scale)
        passes = c.total("shared", "units")
        requests = c.total("global", "requests")
        near = max(moved / _L1_BYTES, float(requests))
        constant = sum(n for name, n in c.instructions.items() if name.startswith("ld.const"))
        waiting = constant if c.threads <= _WAITING_BLOCK else 0
        return {
            "dram": (touched / far, worst / far / _DRAM_SHARE),
            "l2": (
                self._core_us(c.touched_bytes / _L2_BYTES[1]),
                self._core_us(max(moved, c.touched_bytes) / _L2_BYTES[0]),
            ),
            "l1": (self._core_us(near), self._core_us(near)),
            "shared": (self._core_us(passes), self._core_us(passes)),
            "constant": (0.0, self._core_us(waiting * _CONSTANT)),
        }

    def _arithmetic(self) -> dict[str, Interval]:
        pipes = dict.fromkeys(("issue", "float32", "float64", "integer", "special"), 0.0)
        for name, count in self._counters.instructions.items():
            opcode, *modifiers = name.split(".")
            if opcode in _FREE or (opcode == "ld" and "param" in modifiers):
                continue
            pipes["issue"] += count / _SCHEDULERS
            pipe, rate = self._pipe(opcode, modifiers)
            if pipe:
                pipes[pipe] += count * _LANES / rate
        found = {
            name: (self._core_us(clocks * _ISSUE[0]), self._core_us(clocks * _ISSUE[1]))
            if name in {"issue", "integer"}
            else (self._core_us(clocks), self._core_us(clocks))
            for name, clocks in pipes.items()
        }
        return {**found, "tensor": self._tensor()}

    def _pipe(self, opcode: str, modifiers: list[str]) -> tuple[str, float]:
        kind = next((m for m in reversed(modifiers) if re.fullmatch(r"[bfsu]\d+(x2)?|bf16(x2)?", m)), "")
        if opcode in _SPECIAL and kind != "f64":
            return "special", _SPECIALS
        if opcode in {"add", "sub", "mul", "fma", "mad", "div", "sqrt", "rcp"}:
            if kind == "f64":
                return "float64", self._limits.float64
            if kind in {"f32", "f32x2", "f16", "f16x2", "bf16", "bf16x2"}:
                return "float32", self._limits.float32 / (2 if kind == "f32x2" else 1)
        return (
            ("integer", _INTEGER) if kind[:1] in {"b", "s", "u"} and opcode not in {"ld", "st"} else ("", 1)
        )

    def _tensor(self) -> Interval:
        total = 0.0
        for kind, operations in self._counters.tensor.items():
            peak = self._spec.tensor.get(_TENSOR_TYPES.get(kind, ""))
            if peak is None:
                raise InputError(
                    f"no model of {self._spec.name}: its specification has no tensor rate of {kind}"
                )
            total += operations / (peak.value / (self._cores * self._hz))
        return self._core_us(total), self._core_us(total)

    def _tensor_peaks(self) -> list[Number]:
        kinds = (self._spec.tensor.get(_TENSOR_TYPES.get(k, "")) for k in self._counters.tensor)
        return [n for n in kinds if n is not None]

    def _latency(self) -> Interval:
        """A warp's own way through the kernel, for each wave of blocks: nothing hides it but other warps."""
        c = self._counters
        waves = math.ceil(self._blocks / (self._cores * self._resident))
        of_warp = 1 / max(c.blocks * self._warps, 1)
        issued = sum(n for name, n in c.instructions.items() if name.partition(".")[0] not in _FREE) * of_warp
        far, near = c.total("global", "requests") * of_warp, c.total("shared", "requests") * of_warp
        quick = issued * _DEPENDENT[0] * _ISSUE[0] + (far * _FAR[0] + near * _NEAR[0]) / _IN_FLIGHT[1]
        slow = issued * _DEPENDENT[1] * _ISSUE[1] + (far * _FAR[1] + near * _NEAR[1]) / _IN_FLIGHT[0]
        return waves * quick / self._hz * 1e6, waves * slow / self._hz * 1e6

    def _operations(self) -> float:
        lanes = 0.0
        for name, count in self._counters.instructions.items():
            opcode, *modifiers = name.split(".")
            if self._pipe(opcode, modifiers)[0] in {"float32", "float64"}:
                lanes += count * _LANES * (2 if opcode in {"fma", "mad"} else 1)
        return lanes + sum(self._counters.tensor.values())
