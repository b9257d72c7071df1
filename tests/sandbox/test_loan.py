"""What the judge lends a worker on a GPU, with a memory file in its place: nothing is there before the clock starts."""

import ctypes
import time
from types import SimpleNamespace

import pytest
import torch

from kernelwright.sandbox import FailureKind, Reply, WorkerFailure, _pool, _worker
from kernelwright.sandbox._driver import DriverError
from kernelwright.sandbox._memory import read_memory
from kernelwright.sandbox._segments import Segments
from kernelwright.sandbox._sentry import Seen

from .conftest import payload, vector
from .held import holder

POLLS = """
import gc, sys, threading, time
import torch
found = {}
def poll():
    while True:
        time.sleep(0.0005)
        for state in [o for o in gc.get_objects() if type(o).__name__ == "WorkerState"]:
            for number, (kernel, arguments) in list(state._sets.items()):
                x = arguments[0]
                if bool((x != 0).any()):
                    found[x.data_ptr()] = x + 1
threading.Thread(target=poll, daemon=True).start()
def run(x):
    early = found.get(x.data_ptr())
    return torch.zeros_like(x) if early is None else early
"""
"""Answers right where a thread found the inputs before the call, else zeros."""


@pytest.fixture
def lent(pools):
    """Call a candidate on ones that are written late, into memory of a holder."""

    def called(text, held, size=4, early=False):
        pool = pools("none")
        pool.arena.reset()
        with pool.worker(payload(text)) as worker:
            worker.borrow(held)
            slot = pool.arena.place(torch.ones(size) if early else torch.zeros(size))
            numbers = worker.bind_all([[slot]], vector(size), late=True)
            time.sleep(0.05)
            reply = worker.call(
                numbers,
                fill=lambda: (held.asked.append("fill"), pool.arena.refill(slot, torch.ones(size))),
                quiet=lambda: (held.asked.append("quiet"), time.sleep(0.05)),
            )
            return reply, worker.fetch(reply.first).outputs[0]

    return called


def test_a_call_sees_what_was_written_while_its_worker_was_stopped(lent):
    reply, output = lent("def run(x): return x + 1\n", holder())
    assert isinstance(reply, Reply)
    assert output.tolist() == [2.0] * 4


def test_a_thread_that_polls_the_inputs_finds_them_only_where_they_are_early(lent):
    assert lent(POLLS, holder(), early=True)[1].tolist() == [2.0] * 4
    assert lent(POLLS, holder())[1].tolist() == [0.0] * 4


def test_the_judge_has_the_device_from_before_the_inputs_are_written_until_the_clock_starts(lent):
    held = holder()
    lent("def run(x): return x\n", held)
    assert held.asked == [
        "write False", "fill", "begin", "write True", "quiet", "hold", "release", "seen", "look", "close",
    ]  # fmt: skip


def test_what_was_seen_is_in_the_reply(lent):
    held = holder(Seen(40.0, 300.0, 6000.0, whole=True), Seen(900.0, 50.0, 3000.0, whole=True))
    reply, _ = lent("def run(x): return x\n", held)
    assert (reply.held.taken_us, reply.held.left_us) == (300.0, 950.0)


def test_a_hold_that_ended_by_itself_counts_as_taken(lent):
    reply, _ = lent("def run(x): return x\n", holder(Seen(40.0, 0.0, 1e7, whole=False)))
    assert reply.held.taken_us == 1e7


def test_memory_grows_with_what_is_bound_and_each_worker_has_its_own(pools):
    pool, held = pools("none"), holder()
    with (
        pool.worker(payload("def run(x): return x * 2\n")) as one,
        pool.worker(payload("def run(x): return x\n")),
    ):
        one.borrow(held)
        for size in (4, 1 << 16, 8):
            pool.arena.reset()
            slot = pool.arena.place(torch.zeros(size))
            numbers = one.bind_all([[slot]], vector(size), late=True)
            reply = one.call(numbers, fill=lambda slot=slot, n=size: pool.arena.refill(slot, torch.ones(n)))
            assert one.fetch(reply.first).outputs[0].tolist() == [2.0] * size
            one.release()
    assert len(held.made) == 2
    assert held.asked.count("close") == 2


def test_what_is_not_bound_late_is_as_it_was(pools):
    pool, held = pools("none"), holder()
    pool.arena.reset()
    with pool.worker(payload("def run(x): return x + 1\n")) as worker:
        worker.borrow(held)
        [number] = worker.bind_all([[pool.arena.place(torch.ones(4))]], vector())
        reply = worker.call([number])
        assert reply.held is None
        assert worker.fetch().outputs[0].tolist() == [2.0] * 4
    assert held.asked == []


def test_a_hold_that_fails_ends_the_worker(pools):
    pool = pools("none")
    pool.arena.reset()
    with pool.worker(payload("def run(x): return x\n")) as worker:
        worker.borrow(holder(refuses="cuMemCreate answered 2"))
        with pytest.raises(WorkerFailure, match="cuMemCreate answered 2") as caught:
            worker.bind_all([[pool.arena.place(torch.ones(4))]], vector(), late=True)
        assert caught.value.kind is FailureKind.PROTOCOL
        assert not worker.alive


BLOCKS_WHEN_ANNOUNCED = """
import sys, time
sys.modules["kernelwright.sandbox._worker_state"].WorkerState.plan = lambda *given: time.sleep(3600)
def run(x): return x
"""


def test_a_worker_that_does_not_say_that_it_is_ready_is_not_waited_for_as_long_as_a_call(pools, monkeypatch):
    monkeypatch.setattr(_worker, "_READY_S", 0.5)
    pool = pools("none")
    pool.arena.reset()
    with pool.worker(payload(BLOCKS_WHEN_ANNOUNCED)) as worker:
        [number] = worker.bind_all([[pool.arena.place(torch.ones(4))]], vector())
        with pytest.raises(WorkerFailure) as caught:
            worker.call([number], deadline_s=600.0)
    assert caught.value.kind is FailureKind.TIMEOUT


DEFERS = """
import sys
import torch
due = []
state = sys.modules["kernelwright.sandbox._worker_state"].WorkerState
first = state.facts
def facts(self, index):
    for x, out in due:
        out.copy_(x + 1)
    return first(self, index)
state.facts = facts
def run(x):
    due.append((x, torch.zeros_like(x)))
    return due[-1][1]
"""
"""Computes when its outputs are asked for."""


@pytest.fixture
def on_device(pools):
    """Call a candidate whose outputs the judge finds in the worker's memory, as on a GPU, unless they are `unknown`."""

    def called(text, *, unknown=False):
        pool, held = pools("none"), holder()
        pool.arena.reset()
        with pool.worker(payload(text)) as worker:
            worker.borrow(held)
            worker.reads_frozen = False
            segments = Segments(Device(worker.pid))
            segments.learn([] if unknown else [(0, 1 << 62, "00")])
            worker._loan.segments.close()
            worker._loan.segments = SimpleNamespace(learn=lambda said: None, close=segments.close)
            worker._transfer.read = segments.read
            slot = pool.arena.place(torch.zeros(4))
            numbers = worker.bind_all([[slot]], vector(), late=True)
            reply = worker.call(numbers, fill=lambda: pool.arena.refill(slot, torch.ones(4)))
            return worker.fetch(reply.first)

    return called


class Device:
    """A driver by which the memory of a process is opened, at the addresses that it has there."""

    def __init__(self, pid):
        self.pid = pid

    def enter(self):
        pass

    def opened(self, handle):
        assert handle == b"\0"
        return 0

    def read(self, address, target, size_bytes):
        content = read_memory(self.pid, address, size_bytes)
        if content is None:
            raise DriverError("cuMemcpyDtoHAsync_v2 answered 1")
        ctypes.memmove(target, content.data_ptr(), size_bytes)

    def closed(self, address):
        pass


def test_outputs_on_a_device_are_read_while_the_worker_is_stopped(on_device):
    fetched = on_device("def run(x): return x + 1\n")
    assert fetched.frozen
    assert fetched.outputs[0].tolist() == [2.0] * 4


def test_work_that_is_put_off_until_outputs_are_asked_for_is_not_in_them(on_device):
    assert on_device(DEFERS).outputs[0].tolist() == [0.0] * 4
    assert on_device(DEFERS, unknown=True).outputs[0].tolist() == [2.0] * 4, "the worker copied"


def test_outputs_in_memory_that_is_not_known_are_copied_by_the_worker(on_device):
    fetched = on_device("def run(x): return x + 1\n", unknown=True)
    assert not fetched.frozen
    assert fetched.outputs[0].tolist() == [2.0] * 4


@pytest.fixture
def offered(pools, monkeypatch):
    """Start workers that pass for a GPU's, trusted or not, on a pool that has tried nothing yet."""
    pool = pools("none")

    def start(trusted, opened):
        monkeypatch.setattr(_pool, "open_holder", opened)
        with pool.worker(payload("def run(x): return x\n")) as worker:
            worker.on_gpu = True
            pool._lend(worker, payload("", trusted=trusted))
            return worker.fills_late

    yield start, pool
    pool._holder, pool.not_held = None, ""


def test_only_a_worker_that_we_trust_finds_out_whether_memory_can_be_shared(offered):
    start, pool = offered
    held = holder()
    assert not start(False, lambda device: pytest.fail("a candidate decided"))
    assert start(True, lambda device: held)
    assert start(False, lambda device: pytest.fail("it is known"))
    assert pool.not_held == ""


@pytest.mark.parametrize("opened", [None, "cuMemCreate answered 801"])
def test_where_it_cannot_be_shared_the_pool_says_why_and_goes_on(offered, opened):
    start, pool = offered

    def refuse(device):
        if opened is None:
            raise DriverError("no NVIDIA driver: libcuda.so.1")
        return holder(refuses=opened)

    assert not start(True, refuse)
    assert pool.not_held == (opened or "no NVIDIA driver: libcuda.so.1")
    assert not start(True, lambda device: pytest.fail("it is known"))


def test_a_worker_that_cannot_map_what_is_lent_lives_on(offered):
    start, pool = offered
    assert not start(True, lambda device: holder(broken=True))
    assert pool.not_held.startswith(("ValueError", "OSError", "PermissionError")), pool.not_held


def test_a_device_that_does_not_answer_is_used_by_others(offered):
    _, pool = offered
    pool._holder = holder()

    def silent():
        raise DriverError("the GPU let no kernel of the judge's run for 5 s")

    pool._holder.sentry.look = silent
    assert pool.taken_by_others_us() > 0


def test_memory_of_a_device_that_failed_is_left(pools):
    pool, held = pools("none"), holder()
    pool.arena.reset()
    with pool.worker(payload("def run(x): return x\n")) as worker:
        worker.borrow(held)
        worker.bind_all([[pool.arena.place(torch.ones(4))]], vector(), late=True)
        [made] = held.made

        def failed():
            raise DriverError("cuMemUnmap answered 700")

        made.close = failed
    assert not worker.alive
