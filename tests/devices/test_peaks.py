import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.ops.gemm.tile_products import REAL

from kernelwright.config import Settings
from kernelwright.devices import (
    Cache,
    Device,
    Peak,
    Peaks,
    _cpu_peaks,
    cached_peaks,
    peaks_of,
)
from kernelwright.devices import peaks as peaks_module
from kernelwright.devices._cpu_peaks import cpu_peaks
from kernelwright.devices._gpu_peaks import gpu_peaks

DEVICE = Device(kind="cpu", name="made up", cores=1, memory_bytes=1 << 30, torch_device="cpu")


def settings_in(folder: Path, **environ: str) -> Settings:
    return Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder), **environ})


def peaks_with(load: float = 0.0, source: str = "made up", **values: float) -> Peaks:
    return Peaks(
        device=DEVICE.fingerprint,
        values={n: Peak(value=v, unit="flop", source=source) for n, v in values.items()},
        load=load,
    )


class Measurements:
    """Stands for the measurement: gives what it is told, one after the other."""

    def __init__(self, *results: Peaks) -> None:
        self.results = list(results)

    def __call__(self, device: Device, settings: Settings) -> Peaks:
        return self.results.pop(0)


def test_peaks_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks_module, "measure", Measurements(peaks_with(float32=1.0)))
    settings = settings_in(tmp_path)
    assert cached_peaks(DEVICE, settings) is None
    first = peaks_of(DEVICE, settings)
    assert peaks_of(DEVICE, settings) == first == cached_peaks(DEVICE, settings)
    assert [p.name for p in (tmp_path / "peaks").iterdir()] == [f"{DEVICE.fingerprint}.json"]


def test_another_measurement_keeps_the_higher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = peaks_with(float32=2.0, float64=1.0), peaks_with(float32=1.0, float64=3.0)
    monkeypatch.setattr(peaks_module, "measure", Measurements(*rounds))
    settings = settings_in(tmp_path)
    peaks_of(DEVICE, settings)
    again = peaks_of(DEVICE, settings, refresh=True)
    assert {n: p.value for n, p in again.values.items()} == {"float32": 2.0, "float64": 3.0}
    assert again.rounds == 2


def test_a_busy_machine_is_measured_again_three_times_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = [peaks_with(load=4.0, float32=float(i)) for i in range(1, 4)]
    monkeypatch.setattr(peaks_module, "measure", Measurements(*busy))
    settings = settings_in(tmp_path)
    assert [peaks_of(DEVICE, settings).values["float32"].value for _ in range(5)] == [1.0, 2.0, 3.0, 3.0, 3.0]


def test_rates_of_vector_units_that_cannot_be_right_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = (1.2, 1.0), (1.1, 1.1), (2.0, 1.1)
    rounds = [peaks_with(float32=single, float64=double, source=_cpu_peaks.MICRO) for single, double in rates]
    monkeypatch.setattr(peaks_module, "measure", Measurements(*rounds))
    found = [peaks_of(DEVICE, settings_in(tmp_path)) for _ in range(5)]
    assert [p.rounds for p in found] == [1, 2, 3, 3, 3]
    assert [p.disturbed for p in found] == [True, True, False, False, False]
    assert not peaks_with(float32=1.0, float64=1.0).disturbed, "of torch's products, which have no such ratio"


@pytest.mark.parametrize("text", ["", "{", '{"device":"other","values":{}}', '{"device": 3}'])
def test_a_spoilt_cache_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(peaks_module, "measure", Measurements(peaks_with(float32=7.0)))
    (tmp_path / "peaks").mkdir()
    (tmp_path / "peaks" / f"{DEVICE.fingerprint}.json").write_text(text)
    assert peaks_of(DEVICE, settings_in(tmp_path)).values["float32"].value == 7.0


def test_a_new_method_makes_old_peaks_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_in(tmp_path)
    (tmp_path / "peaks").mkdir()
    old = json.loads(peaks_with(float32=1.0).to_json()) | {"method": peaks_module.METHOD - 1}
    (tmp_path / "peaks" / f"{DEVICE.fingerprint}.json").write_text(json.dumps(old))
    assert cached_peaks(DEVICE, settings) is None


@pytest.mark.parametrize("compiler", ["/no/such/compiler", "false"])
def test_without_a_compiler_torch_stands_in_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    monkeypatch.setattr(_cpu_peaks, "_LEAST_DRAM_BYTES", 1 << 24)
    monkeypatch.setattr(_cpu_peaks, "_MATRIX_SIZE", 128)
    values = cpu_peaks(DEVICE, settings_in(tmp_path, KERNELWRIGHT_CXX=compiler))
    assert {n for n in values if "." in n} == {"dram.read", "dram.write", "dram.copy", "dram.add"}
    assert f"torch ops times {_cpu_peaks._TORCH_SHORTFALL} ({compiler}" in values["dram.read"].source
    assert values["float32"].value <= values["tensor-float32"].value


class FakeEvent:
    """A device event on a clock that moves a millisecond each time it is read."""

    clock_ms = 0.0

    def __init__(self, enable_timing: bool) -> None:
        self.at_ms = 0.0

    def record(self) -> None:
        FakeEvent.clock_ms += 1.0
        self.at_ms = FakeEvent.clock_ms

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "FakeEvent") -> float:
        return end.at_ms - self.at_ms


class FakeGraph:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...
    def replay(self) -> None: ...


def test_gpu_peaks_come_from_events_and_the_spec_fills_in(monkeypatch: pytest.MonkeyPatch) -> None:
    real_ones = torch.ones

    def ones(*sizes: int, device: str = "cpu", **more: Any) -> torch.Tensor:
        assert device == "cuda:0"
        return real_ones(*(min(s, 64) for s in sizes), **more)

    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: graph)
    device = Device(
        kind="cuda", name="NVIDIA H100 80GB HBM3", cores=132, memory_bytes=80 << 30, torch_device="cuda:0",
        caches=(Cache(level="l2", size_bytes=50 << 20),),
    )  # fmt: skip
    values = gpu_peaks(device)
    assert values["dram.copy"].value == pytest.approx(2 * values["dram.read"].value)
    assert values["dram.copy"].value == pytest.approx(20 * 2 / 3 * 2**30 / 1e-3, rel=1e-3)
    assert values["tensor-bfloat16"].value == pytest.approx(2 * 8192**3 / 1e-3)
    assert values["launch"].value == pytest.approx(100 / 1e-3)
    assert values["float32"].source.startswith("NVIDIA H100"), "torch cannot show the vector rate"
    assert values["tensor-bfloat16"].source.startswith("measured"), (
        "a measured rate stands before a published one"
    )


@pytest.mark.parametrize(("seconds", "calls"), [(0.3, 1), (0.0, 8)])
def test_what_takes_long_is_timed_once(seconds, calls, monkeypatch):
    clock, made = [0.0], []

    def run():
        made.append(1)
        clock[0] += seconds or 0.01 * len(made)

    monkeypatch.setattr(_cpu_peaks.time, "perf_counter", lambda: clock[0])
    assert _cpu_peaks._least_seconds(run) == pytest.approx(seconds or 0.03), (
        "the second of those after the first"
    )
    assert len(made) == calls


@pytest.mark.long
@pytest.mark.needs("g++ with AMX", "objdump")
def test_the_rate_of_tiles_is_measured_where_the_unit_may_be_used(tmp_path):
    made = tmp_path / "micro.o"
    subprocess.run(
        ["g++", *_cpu_peaks._FLAGS, *REAL, "-c", str(_cpu_peaks._SOURCE), "-o", str(made)],
        check=True,
        timeout=120,
    )
    code = subprocess.check_output(["objdump", "-d", str(made)], text=True, timeout=60)
    assert code.count("tdpbf16ps") >= 4 and "tilerelease" in code
