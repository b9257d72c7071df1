"""What is seen of processes from outside, and the wait for the judge's own threads."""

import subprocess
import time

from kernelwright.sandbox import _inspection, settle


def until(wanted, limit_s=60.0):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if wanted():
            return True
        time.sleep(0.01)
    return False


def test_threads_that_run_are_counted():
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        try:
            assert until(lambda: _inspection.running(busy.pid) == 1)
        finally:
            busy.kill()
    with subprocess.Popen(["sleep", "600"]) as idle:
        try:
            assert until(lambda: _inspection.running(idle.pid) == 0)
        finally:
            idle.kill()
    assert _inspection.running(idle.pid) == 0, "it is gone"


def test_settling_waits_for_every_thread_but_the_own(monkeypatch):
    seen = iter([3, 2, 1])
    monkeypatch.setattr(_inspection, "running", lambda _: next(seen))
    monkeypatch.setattr(_inspection, "_SETTLE_LIMIT_S", 600.0)
    settle()
    assert next(seen, None) is None


def test_settling_ends_beside_a_thread_that_never_sleeps(monkeypatch):
    monkeypatch.setattr(_inspection, "running", lambda _: 2)
    settle()
