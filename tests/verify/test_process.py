"""A worker that computes unasked is seen on a busy machine too, where it gets no processor."""

from itertools import chain, count, repeat

import pytest

from kernelwright.verify.checks import process
from kernelwright.verify.checks.process import idle_share


class Idle:
    """A worker that gets no processor; `wants` says, look by look, whether it would take one."""

    def __init__(self, wants):
        self.wants = iter(wants)

    def cpu_us(self):
        return 0.0

    def running(self):
        return next(self.wants)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(process, "_IDLE_S", 1e-3)


def test_a_thread_that_always_waits_for_a_processor_computes():
    assert idle_share(Idle(repeat(True))) == 1.0


def test_a_thread_that_comes_to_rest_does_not():
    assert idle_share(Idle(chain(repeat(True, 50), repeat(False)))) < process._IDLE_CPU


class Spinning(Idle):
    """A worker that has a processor and never waits for one; `cpu_us` is what its clock says, look by look."""

    def __init__(self, cpu_us):
        super().__init__(repeat(False))
        self.clock = iter(cpu_us)

    def cpu_us(self):
        return next(self.clock)


def test_threads_that_spin_for_a_while_and_rest_do_not_compute():
    assert idle_share(Spinning(chain([0.0, 4e4, 4e4, 8e4], repeat(8e4)))) == 0.0


def test_a_thread_that_spins_on_computes():
    assert idle_share(Spinning(count(0.0, 4e4))) > process._IDLE_CPU
