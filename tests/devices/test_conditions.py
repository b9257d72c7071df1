"""What is told of the machine while something is timed."""

import sys
from types import SimpleNamespace

import psutil
import pytest

from kernelwright.devices import Monitor, _conditions, detect
from kernelwright.devices._device import Device


def test_time_taken_by_other_machines_is_a_share_of_the_time_since_the_last_look(monkeypatch):
    times = iter([(100.0, 1.0), (110.0, 2.0), (130.0, 2.0)])
    monkeypatch.setattr(_conditions, "_times", lambda: next(times))
    monitor = Monitor(detect("cpu"))
    assert [monitor.look().stolen, monitor.look().stolen] == [0.1, 0.0]


def test_a_counter_that_moved_is_throttling(monkeypatch):
    counts = iter([3, 3, 4, 4])
    monkeypatch.setattr(_conditions, "_throttles", lambda: next(counts))
    monitor = Monitor(detect("cpu"))
    assert [monitor.look().throttled for _ in range(3)] == [False, True, False]


def test_the_kernel_s_counters_are_added_up(tmp_path):
    for core in (0, 11):
        folder = tmp_path / f"cpu{core}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text("2\n")
        (folder / "package_throttle_count").write_text("5\n")
    (tmp_path / "cpufreq").mkdir()
    assert _conditions._throttles(tmp_path) == 14


def test_a_clock_that_is_not_told_is_zero(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_freq", lambda: None)
    assert Monitor(detect("cpu")).look().clock_mhz == 0.0


GPU = Device(kind="cuda", name="g", cores=1, memory_bytes=1, torch_device="cuda:1", caches=(), facts={})


@pytest.mark.parametrize(("reasons", "throttled"), [(0x01, False), (0x40, True)])
def test_a_gpu_tells_its_clock_and_what_holds_it_down(monkeypatch, reasons, throttled):
    fake = SimpleNamespace(
        NVML_CLOCK_SM=1, nvmlInit=lambda: None, nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: reasons,
        nvmlDeviceGetClockInfo=lambda handle, clock: 1980 if (handle, clock) == (1, 1) else 0,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    seen = Monitor(GPU).look()
    assert (seen.clock_mhz, seen.throttled) == (1980.0, throttled)


def test_a_gpu_without_nvml_tells_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    seen = Monitor(GPU).look()
    assert (seen.clock_mhz, seen.throttled) == (0.0, False)
