"""The CUDA side of a worker, with the driver and torch's device in place of which something else answers."""

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from kernelwright.sandbox import _pool
from kernelwright.sandbox._confinement import Confinement
from kernelwright.sandbox._cuda import Fence, Mirror, late

from .conftest import call_once

NAMES_ITSELF = """
import os
import threading
import torch
def name():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as name:
        name.write("driver")
    named.append(1)
named = []
def run(x):
    thread = threading.Thread(target=name)
    thread.start()
    thread.join()
    name()
    return x + len(named) - 1
"""
REACHES_OUT = """
def run(x):
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"):
        try:
            open(path, "w").close()
        except OSError:
            continue
        return x
    return x + 1
"""


class Event:
    """A marker on a device whose clock is 1.5 ms on at each."""

    now_ms = 0.0

    def __init__(self, *, enable_timing):
        assert enable_timing

    def record(self):
        Event.now_ms += 1.5
        self.at_ms = Event.now_ms

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at_ms - self.at_ms


@pytest.fixture
def asked(monkeypatch):
    """What was asked of the driver and of torch."""
    asked = []
    driver = SimpleNamespace(
        cuCtxSynchronize=lambda: asked.append("driver waits") or 0,
        cuCtxResetPersistingL2Cache=lambda: asked.append("driver resets") or 0,
    )
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: asked.append(f"torch waits for {device}"))
    return asked


def test_a_call_ends_by_functions_that_were_taken_before_the_candidate(asked, monkeypatch):
    fence = Fence("cuda:1")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: asked.append("patched"))
    fence.wait()
    assert asked == ["torch waits for cuda:1", "driver waits"]


def test_nothing_persists_in_l2_when_sets_are_bound(asked):
    Fence("cuda:0").clear()
    assert asked == ["driver resets"]


def test_a_cpu_is_asked_nothing(asked):
    fence = Fence("cpu")
    fence.clear()
    fence.begin()
    assert fence.wait() == 0.0
    assert asked == []


def test_the_device_s_own_clock_spans_the_calls(asked):
    fence = Fence("cuda:0")
    fence.begin()
    assert fence.wait() == 1500.0


def test_a_gpu_of_another_make_has_torch_alone(asked, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    fence = Fence("cuda:0")
    fence.clear()
    fence.wait()
    assert asked == ["torch waits for cuda:0"]


def test_content_comes_late_and_outputs_are_taken_in_the_callers_stream(monkeypatch):
    order = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "callers")
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: order.append("busy"))
    monkeypatch.setattr(torch.cuda, "stream", lambda s: order.append(f"copies in {s}") or nullcontext())
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, copy: self.clone())
    mirror = Mirror(torch.ones(4), torch.zeros(4))
    with late([mirror], "cuda:0") as copied:
        order.append(f"called on {mirror.device.tolist()}")
        [seen] = copied([mirror.device])
        mirror.device.add_(1)
    assert order == ["busy", "called on [1.0, 1.0, 1.0, 1.0]", "copies in callers"]
    assert seen.tolist() == [1.0] * 4


@pytest.mark.parametrize(("code", "fails"), [(0, False), (201, False), (700, True)])
def test_an_error_of_the_device_ends_the_call(asked, monkeypatch, code, fails):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuCtxSynchronize=lambda: code))
    fence = Fence("cuda:0")
    if not fails:
        fence.wait()
        return
    with pytest.raises(RuntimeError, match="700"):
        fence.wait()


def test_a_process_of_a_gpu_may_name_its_threads(any_pool, monkeypatch):
    """NVIDIA's driver does, by the numbers that the process has of itself, and starts nowhere else."""
    monkeypatch.setattr(_pool, "Confinement", lambda **given: Confinement(**{**given, "gpu": True}))
    assert call_once(any_pool, NAMES_ITSELF).tolist() == [2.0] * 4


@pytest.mark.needs("Landlock")
def test_a_process_of_a_gpu_writes_no_setting_of_the_machine(pools, monkeypatch):
    monkeypatch.setattr(_pool, "Confinement", lambda **given: Confinement(**{**given, "gpu": True}))
    assert call_once(pools("landlock"), REACHES_OUT).tolist() == [2.0] * 4
