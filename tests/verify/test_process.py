"""A worker that computes unasked is seen on a busy machine too, where it gets no processor."""

from itertools import chain, repeat

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
