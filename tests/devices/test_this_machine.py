"""Peaks of this machine: they stand in order, and a real copy may come near the bound and not pass it."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelwright.bound import bound
from kernelwright.config import Settings
from kernelwright.devices import Device, Peak, detect, peaks_of
from kernelwright.records import Contract, TensorSpec, Workload

COUNT = 1 << 25
LEAST_FRACTION = 0.3
"""torch's copy reads what it overwrites and does not prefetch: on a quiet machine it reached 0.65."""


def copy_us(cores: int) -> tuple[float, float]:
    """Least wall time of a copy, and least time that each core worked on one, whatever else ran meanwhile."""
    source, target = torch.ones(COUNT), torch.empty(COUNT)
    walls, busy = [], []
    for _ in range(20):
        wall, cpu = time.perf_counter(), time.process_time()
        target.copy_(source)
        walls.append(time.perf_counter() - wall)
        busy.append((time.process_time() - cpu) / cores)
    return min(walls) * 1e6, min(busy) * 1e6


def in_order(device: Device, values: dict[str, Peak]) -> None:
    """Hold the peaks that a C++ compiler measures against one another."""
    for level in ("dram", *(c.level for c in device.caches)):
        assert {f"{level}.{p}" for p in ("read", "write", "copy", "add")} <= set(values)
    assert values["l1.copy"].value > values["dram.copy"].value > 1e9
    assert values["float32"].value > 1.3 * values["float64"].value > 1e9
    assert values["tensor-float32"].value >= values["float32"].value
    assert values["float32"].value > 0.3 * values["tensor-float32"].value, "products need multiply-adds"
    pairs = "avx512_bf16" in device.vector_units
    assert values["tensor-bfloat16"].value > (1.3 if pairs else 0.99) * values["float32"].value
    assert 1e4 < values["launch"].value < 1e9
    assert all(p.source.startswith("measured: ") for p in values.values())


class Copying:
    """As much of a problem as a bound needs."""

    task = SimpleNamespace(contract=Contract())

    def reference(self, workload: Workload) -> Callable[..., torch.Tensor]:
        return lambda x: x.clone()


@pytest.mark.alone
def test_peaks_stand_in_order_and_a_large_copy_is_near_its_bound_and_never_beats_it(
    shared_cache: Path,
) -> None:
    device = detect("cpu")
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(shared_cache)})
    wall_before, busy_before = copy_us(device.cores)
    peaks = peaks_of(device, settings)
    while peaks.disturbed and peaks.rounds < 3:
        peaks = peaks_of(device, settings)
    wall_after, busy_after = copy_us(device.cores)
    if "_micro.cpp" in peaks.values["dram.read"].source:
        in_order(device, peaks.values)
    problem = Copying()
    workload = Workload(name="w", arguments=(TensorSpec(name="x", shape=(COUNT,), dtype="float32"),))
    found = bound(problem, workload, device, peaks)
    assert found.binding.startswith("dram")
    assert min(wall_before, wall_after) >= found.time_us * (1 - found.slack)
    assert found.time_us / min(busy_before, busy_after) > LEAST_FRACTION
