"""What this process does itself ends when its time is up."""

import contextlib
import os
import signal
import threading
import time

import pytest

from kernelwright.system.deadline import deadline

LONG_S = 600.0


def hang():
    """Sleep for good, whatever is raised of `Exception`."""
    while True:
        with contextlib.suppress(Exception):
            time.sleep(LONG_S)


def test_what_hangs_is_stopped_past_any_except():
    with pytest.raises(TimeoutError, match=r"after 0\.01 s"), deadline(0.01):
        hang()


def test_the_nearer_of_two_deadlines_holds():
    with pytest.raises(TimeoutError, match=r"after 0\.01 s"), deadline(0.01), deadline(LONG_S):
        hang()
    with pytest.raises(TimeoutError, match=r"after 0\.01 s"), deadline(LONG_S), deadline(0.01):
        hang()


def test_an_outer_deadline_goes_on_after_an_inner_one():
    with pytest.raises(TimeoutError, match=r"after 0\.2 s"), deadline(0.2):
        with pytest.raises(TimeoutError, match=r"after 0\.01 s"), deadline(0.01):
            hang()
        hang()


def test_nothing_is_left_of_a_deadline_that_was_kept():
    before = signal.getsignal(signal.SIGALRM)
    with deadline(LONG_S):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is before


def test_other_threads_and_endless_budgets_run_without_one():
    done = []

    def work():
        with deadline(LONG_S):
            done.append(signal.getitimer(signal.ITIMER_REAL)[0])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with deadline(float("inf")):
        done.append(signal.getitimer(signal.ITIMER_REAL)[0])
    assert done == [0.0, 0.0]


def test_an_alarm_that_comes_late_does_not_escape(monkeypatch):
    """One that is delivered while the block is left: nobody outside knows the exception it would raise."""
    stop = signal.setitimer

    def late(which, seconds, interval=0.0):
        if not seconds:
            os.kill(os.getpid(), signal.SIGALRM)
        return stop(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", late)
    with deadline(60):
        pass


def test_a_mode_that_was_being_entered_or_left_does_not_stay_entered():
    import torch
    from torch.overrides import TorchFunctionMode

    from kernelwright.system.dispatch_mode import DispatchMode

    class Through(DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Overriding(TorchFunctionMode):
        pass

    def entered():
        return torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()

    before = entered()
    with Through():
        with pytest.raises(TimeoutError), deadline(0.05):
            Through().__enter__()
            Overriding().__enter__()
            while True:
                pass
        assert entered() == (before[0] + 1, before[1]), "what was entered outside stays"
    assert entered() == before
