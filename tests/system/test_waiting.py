"""A deadline leaves out what was waited for a processor, and nothing else, up to a limit."""

import os

import pytest

from kernelwright.system import waiting
from kernelwright.system.waiting import PATIENCE, PatientDeadline, waits_ns

OTHER = 10**9
"""The number of a process that is no more."""


class Machine:
    """A clock, and how long each thread of each process has waited."""

    def __init__(self):
        self.now_s = 100.0
        self.threads = {os.getpid(): {"1": 5 * 10**9}, OTHER: {"1": 0, "2": 0}}

    def passes(self, seconds, pid=0, thread="1", waiting=0.0):
        self.now_s += seconds
        if waiting:
            self.threads[pid][thread] = self.threads[pid].get(thread, 0) + int(waiting * 1e9)

    def deadline(self, seconds, **more):
        return PatientDeadline(
            seconds, clock=lambda: self.now_s, waits=lambda pid: dict(self.threads.get(pid, {})), **more
        )


def test_seconds_of_work_and_of_sleep_count_and_seconds_of_waiting_do_not():
    machine = Machine()
    deadline = machine.deadline(10.0)
    machine.passes(4.0)
    assert deadline.left_s == pytest.approx(6.0) and deadline.within(2.0) == 2.0
    machine.passes(4.0, os.getpid(), waiting=3.0)
    assert deadline.left_s == pytest.approx(5.0) and deadline.within(2.0) == pytest.approx(2 * 8 / 5)
    machine.passes(7.0)
    assert deadline.left_s == 0.0


def test_the_longest_wait_of_a_watched_process_counts_from_when_it_is_watched():
    machine = Machine()
    machine.passes(0.0, OTHER, waiting=50.0)
    deadline = machine.deadline(10.0)
    deadline.watch(OTHER)
    machine.passes(0.0, OTHER, "2", waiting=1.0)
    machine.passes(4.0, OTHER, waiting=2.0)
    assert deadline.left_s == pytest.approx(8.0)
    del machine.threads[OTHER]
    machine.passes(1.0)
    assert deadline.left_s == pytest.approx(7.0)


def test_no_more_is_left_out_than_has_passed():
    machine = Machine()
    deadline = machine.deadline(10.0)
    machine.passes(2.0, os.getpid(), waiting=500.0)
    assert deadline.left_s == pytest.approx(10.0) and deadline.within(0.1) == pytest.approx(
        0.1 * (1 + PATIENCE)
    )


@pytest.mark.parametrize(("most_s", "passes_at_s"), [(float("inf"), 10.0 * (1 + PATIENCE)), (15.0, 15.0)])
def test_who_only_waits_is_given_up_in_the_end(most_s, passes_at_s):
    machine = Machine()
    deadline = machine.deadline(10.0, most_s=most_s)
    for _ in range(int(passes_at_s) - 1):
        machine.passes(1.0, os.getpid(), waiting=1.0)
        assert deadline.left_s > 0
    machine.passes(1.0, os.getpid(), waiting=1.0)
    assert deadline.left_s == 0.0


def test_what_was_cut_at_it_ends_it_though_waiting_moved_it_on():
    machine = Machine()
    deadline = machine.deadline(10.0)
    machine.passes(8.0)
    assert deadline.within(20.0) == pytest.approx(2.0) and not deadline.has_cut()
    machine.passes(2.0, os.getpid(), waiting=1.0)
    assert deadline.left_s == pytest.approx(1.0)
    assert deadline.within(0.5) == pytest.approx(0.5 * 10 / 9)
    machine.passes(0.6)
    assert not deadline.has_cut()
    assert deadline.within(20.0) == pytest.approx(0.4)
    machine.passes(0.4, os.getpid(), waiting=0.3)
    assert deadline.has_cut() and deadline.left_s == 0.0


@pytest.mark.needs("waiting times")
def test_waiting_is_read_of_every_thread():
    assert str(os.getpid()) in waits_ns(os.getpid())
    assert waits_ns(OTHER) == {}


def test_the_part_of_a_processor_that_a_thread_gets_is_its_time_by_the_clocks(monkeypatch):
    wall, own = iter([0.0, 0.1, 0.2, 0.31]), iter([5.0, 5.0775])
    monkeypatch.setattr(waiting.time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(waiting.time, "thread_time", lambda: next(own))
    assert waiting.got_share(0.3) == pytest.approx(0.25)
