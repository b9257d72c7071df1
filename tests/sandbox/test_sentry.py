"""The kernel that holds a GPU: executed on a CPU, where its clock counts steps; and started by a planted driver."""

import ctypes

import numpy as np
import pytest

from kernelwright.executor import Module
from kernelwright.sandbox._driver import DriverError
from kernelwright.sandbox._sentry import PTX, Sentry


def executed(stop, limit, least):
    words = np.zeros(8, np.uint64)
    words[0] = stop
    execution = Module.load(PTX)["hold"](1, 1, [words, limit, least])
    assert execution.status == "ok", execution
    return dict(zip(("stop", "started", "lost", "ran"), words.tolist(), strict=False))


@pytest.mark.needs("C++ compiler")
def test_it_ends_when_it_is_told_to():
    seen = executed(stop=1, limit=1 << 40, least=1 << 40)
    assert seen["started"] == 1
    assert seen["ran"] < 100


@pytest.mark.needs("C++ compiler")
def test_it_ends_by_itself_when_its_time_is_over():
    assert 5000 <= executed(stop=0, limit=5000, least=1 << 40)["ran"] < 5100


@pytest.mark.needs("C++ compiler")
def test_readings_of_the_clock_that_lie_far_apart_count_as_lost():
    every = executed(stop=0, limit=5000, least=1)
    assert every["lost"] == every["ran"] > 0
    assert executed(stop=0, limit=5000, least=1000)["lost"] == 0


class Device:
    """A driver whose kernel starts after some readings of the clock, and then says what is planted."""

    def __init__(self, starts=True, lost_ns=0, ran_ns=6_000_000):
        self.memory = (ctypes.c_uint64 * 8)()
        self.starts, self.planted, self.launched = starts, (lost_ns, ran_ns), []

    def kernel(self, ptx, name):
        assert f".entry {name}(" in ptx
        return name

    def new_stream(self):
        return "stream"

    def host_memory(self, size_bytes):
        assert size_bytes == ctypes.sizeof(self.memory)
        return ctypes.addressof(self.memory)

    def enter(self):
        pass

    def launch(self, kernel, stream, words):
        self.launched.append(words)
        self.memory[1] = self.starts

    def wait(self, stream):
        if self.launched:
            self.memory[2], self.memory[3] = self.planted


def ticking():
    now = iter(range(1000))
    return lambda: next(now)


def test_what_the_kernel_wrote_is_told_in_microseconds():
    sentry = Sentry(Device(lost_ns=300_000), ticking())
    sentry.begin()
    seen = sentry.seen()
    assert (seen.late_us, seen.lost_us, seen.ran_us, seen.whole) == (1e6, 300.0, 6000.0, True)


def test_a_hold_that_ended_by_itself_is_not_whole():
    sentry = Sentry(Device(ran_ns=10_000_000_000), ticking())
    sentry.begin()
    assert not sentry.seen().whole


def test_it_is_released_by_a_word_and_started_with_none():
    device = Device()
    sentry = Sentry(device, ticking())
    sentry.release()
    assert device.memory[0] == 1
    sentry.begin()
    assert (device.memory[0], device.memory[2]) == (0, 0)


def test_a_gpu_that_lets_it_not_run_is_told():
    with pytest.raises(DriverError, match="let no kernel of the judge's run for 5 s"):
        Sentry(Device(starts=False), ticking()).begin()


def test_a_look_is_short():
    device = Device()
    Sentry(device, ticking()).look()
    [(_, limit_ns, _)] = device.launched
    assert limit_ns == 3_000_000
