"""A worker that computes unasked is seen on a busy machine too, where it gets no processor."""

from itertools import chain, count, repeat

import pytest

from kernelwright.sandbox import Audit
from kernelwright.verify import verify
from kernelwright.verify.checks import process
from kernelwright.verify.checks.process import compare_audits, idle_share


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


LEAVE = """
import os, time, torch

def leave():
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)

begun = []

def once():
    if not begun:
        begun.append(leave())

"""
ANSWER = "    return torch.softmax(x, -1) * weight\n"


@pytest.mark.parametrize(
    "rest",
    [
        f"leave()\ndef run(x, weight):\n{ANSWER}",
        pytest.param(f"def run(x, weight):\n    once()\n{ANSWER}", marks=pytest.mark.long),
        pytest.param(
            "import threading\nthreading.Timer(0.01, leave).start()\n"
            f"def run(x, weight):\n    time.sleep(0.02)\n{ANSWER}",
            marks=pytest.mark.long,
        ),
        f"def run(x, weight):\n    if x.shape != (24, 48): once()\n{ANSWER}",
    ],
    ids=["at import", "in a call", "between", "on hidden workloads only"],
)
def test_a_process_that_is_left_is_refused_whenever_it_was_started(rest, problem, pool, make):
    found = verify(problem, *make(LEAVE + rest), pool=pool, disabled=frozenset({"deployment"}))
    assert found.failure == "process-clean", [f for f in found.findings if f.status != "pass"]
    assert "left alive" in found.findings[-1].message


def test_one_that_was_there_after_loading_and_ended_since_is_told():
    audits = [Audit(threads=1, processes=n, descriptors=(), cpu_us=0.0, rss_bytes=0) for n in (1, 0)]
    assert compare_audits(*audits) == "1 process that it started was left alive"
    assert compare_audits(audits[1], audits[1]) == ""


def test_a_process_that_ended_is_none(problem, pool, make):
    body = f"import subprocess, torch\nsubprocess.run(['/bin/true'])\ndef run(x, weight):\n{ANSWER}"
    assert verify(problem, *make(body), pool=pool).status == "accepted"
