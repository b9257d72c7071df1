"""Work put off until after the reply: the worker is stopped there, and its bytes are read while it is.

What is put off waits until the judge writes into the argument, which it does after the reply.
"""

import time

import psutil
import pytest
import torch

from kernelwright.records import TensorSpec
from kernelwright.sandbox import FailureKind, Pool, WorkerFailure, _freeze

from .conftest import payload, vector

HEAD = "import ctypes, json, os, socket, sys, threading, time, torch\n"
THREAD = HEAD + (
    "def run(x):\n"
    "    out = torch.zeros(4)\n"
    "    def later():\n"
    "        while x[0] == 1: time.sleep(0.001)\n"
    "        out.copy_(x + 1)\n"
    "    threading.Thread(target=later).start()\n"
    "    return out\n"
)
PROCESS = HEAD + (
    "import mmap\n"
    "shared = mmap.mmap(-1, 4096)\n"
    "def run(x):\n"
    "    out = torch.frombuffer(shared, dtype=torch.float32, count=4)\n"
    "    out.zero_()\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        while x[0] == 1: time.sleep(0.001)\n"
    "        for i in range(4): ctypes.c_float.from_buffer(shared, 4 * i).value = 2.0\n"
    "        os._exit(0)\n"
    "    return out\n"
)
PATCHED = HEAD + (
    "from kernelwright.sandbox import _worker_state, _worker_main\n"
    "due = []\n"
    "def run(x):\n"
    "    out = torch.zeros(4)\n"
    "    due.append((out, x))\n"
    "    return out\n"
    "send = _worker_main.Worker._send\n"
    "def late(self, message):\n"
    "    send(self, message)\n"
    "    while due and due[0][1][0] == 1: time.sleep(0.001)\n"
    "    for out, x in due:\n"
    "        out.copy_(x + 1)\n"
    "    due.clear()\n"
    "_worker_main.Worker._send = late\n"
)
AT_FETCH = HEAD + (
    "from kernelwright.sandbox import _worker_state\n"
    "def run(x):\n"
    "    global out, source\n"
    "    out, source = torch.zeros(4), x\n"
    "    return out\n"
    "for name in ('facts', 'fetch'):\n"
    "    def wrapped(self, *a, _old=getattr(_worker_state.WorkerState, name)):\n"
    "        out.copy_(source + 1)\n"
    "        return _old(self, *a)\n"
    "    setattr(_worker_state.WorkerState, name, wrapped)\n"
)


@pytest.mark.parametrize(
    "text", [THREAD, PROCESS, PATCHED, AT_FETCH], ids=["thread", "process", "channel", "fetch"]
)
def test_work_put_off_until_after_the_reply_does_not_count(any_pool: Pool, text: str) -> None:
    with any_pool.worker(payload(text)) as worker:
        assert worker.reads_frozen
        slot = any_pool.arena.place(torch.ones(4))
        reply = worker.call([worker.bind((slot,), vector())])
        any_pool.arena.refill(slot, torch.full((4,), 2.0))
        time.sleep(0.2)
        assert worker.fetch(reply.first).outputs[0].tolist() == [0.0] * 4


def test_the_same_candidate_passes_where_outputs_are_not_read_frozen(pool: Pool) -> None:
    with pool.worker(payload(AT_FETCH)) as worker:
        worker.reads_frozen = False
        reply = worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
        assert worker.fetch(reply.first).outputs[0].tolist() == [2.0] * 4


def test_a_worker_uses_no_processor_while_it_is_not_asked(any_pool: Pool) -> None:
    text = HEAD + (
        "def spin():\n    while True: pass\n"
        "def run(x):\n    threading.Thread(target=spin, daemon=True).start()\n    return x + 1\n"
    )
    with any_pool.worker(payload(text)) as worker:
        worker.call([worker.bind((any_pool.arena.place(torch.ones(4)),), vector())])
        used = psutil.Process(worker.pid).cpu_times()
        time.sleep(0.1)
        assert psutil.Process(worker.pid).cpu_times() == used
        before, limit = worker.cpu_us(), time.monotonic() + 60
        while worker.cpu_us() - before <= 5_000:
            assert time.monotonic() < limit, "let go on, its thread does not"
            time.sleep(0.01)


def test_a_worker_at_rest_cannot_touch_what_another_sees(any_pool: Pool) -> None:
    text = HEAD + (
        "def spoil(x):\n    while True: x.fill_(-1)\n"
        "def run(x):\n    threading.Thread(target=spoil, args=(x,), daemon=True).start()\n    return x + 1\n"
    )
    arena = any_pool.arena
    with (
        any_pool.worker(payload(text)) as bad,
        any_pool.worker(payload("def run(x): return x + 1\n")) as good,
    ):
        slot = arena.place(torch.ones(4))
        bad.call([bad.bind((slot,), vector())])
        bad.fetch()
        for _ in range(10):
            arena.refill(slot, torch.ones(4))
            good.call([good.bind((slot,), vector())])
            assert good.fetch().outputs[0].tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.t()", torch.arange(6.0).reshape(2, 3).t()),
        ("x[:, ::2]", torch.arange(6.0).reshape(2, 3)[:, ::2]),
        ("x[:1].expand(4, 3)", torch.arange(6.0).reshape(2, 3)[:1].expand(4, 3)),
        ("x[:0]", torch.empty(0, 3)),
        ("x.sum()", torch.tensor(15.0)),
        ("(x + 1j * x).conj()", torch.arange(6.0).reshape(2, 3) * (1 - 1j)),
        ("(x + 1j * x).conj().imag", -torch.arange(6.0).reshape(2, 3)),
        ("x > 2", torch.arange(6.0).reshape(2, 3) > 2),
        ("x.bfloat16()", torch.arange(6.0).reshape(2, 3).bfloat16()),
    ],
)  # fmt: skip
def test_layouts_and_lazy_bits_are_read_as_they_are(
    pool: Pool, expression: str, expected: torch.Tensor
) -> None:
    spec = TensorSpec(name="y", shape=tuple(expected.shape), dtype=str(expected.dtype).removeprefix("torch."))
    with pool.worker(payload(f"def run(x): return {expression}\n")) as worker:
        worker.call([worker.bind((pool.arena.place(torch.arange(6.0).reshape(2, 3)),), (spec,))])
        got = worker.fetch().outputs[0]
    assert got.dtype == expected.dtype and torch.equal(got, expected)


def test_an_output_of_another_shape_is_copied_for_the_judge_to_see(pool: Pool) -> None:
    with pool.worker(payload("def run(x): return x[:2].clone(), x.double()\n")) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector() * 2)])
        fetched = worker.fetch()
    assert [tuple(t.shape) for t in fetched.outputs] == [(2,), (4,)]
    assert fetched.outputs[1].dtype == torch.float64


@pytest.mark.parametrize(
    "places",
    ["[8]", "[None]", "['x']", "[[[1, 2]]]", "[-1]", "[[[8, 1 << 70, 0]]]", "[[True, 0]]", "[1 << 90]"],
)
def test_places_that_are_not_there_are_a_failure(pool: Pool, places: str) -> None:
    text = HEAD + (
        "from kernelwright.sandbox import _worker_state\n"
        "run_ = _worker_state.WorkerState.run\n"
        f"def lie(self, plan):\n    run_(self, plan)\n    return {places}\n"
        "_worker_state.WorkerState.run = lie\n"
        "def run(x): return x + 1\n"
    )
    with pool.worker(payload(text)) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
        with pytest.raises(WorkerFailure) as failure:
            worker.fetch()
    assert failure.value.kind is FailureKind.PROTOCOL


def test_a_worker_that_closes_its_memory_gains_nothing(pool: Pool) -> None:
    text = HEAD + "def run(x):\n    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n    return x + 1\n"
    with pool.worker(payload(text)) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
        try:
            assert worker.fetch().outputs[0].tolist() == [2.0] * 4  # a judge with the right to trace reads on
        except WorkerFailure as failure:
            assert failure.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize(("stopped", "found"), [(200, True), (None, False)])
def test_a_pause_of_the_machine_is_no_time_that_a_worker_had_to_stop_in(
    monkeypatch: pytest.MonkeyPatch, stopped: int | None, found: bool
) -> None:
    now, looks = [0.0], [0]

    def at_work(_: int) -> bool:
        looks[0] += 1
        now[0] += 600.0 if looks[0] == 3 else 0.01
        return stopped is not None and looks[0] >= stopped

    monkeypatch.setattr(_freeze.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(_freeze.time, "sleep", lambda _: None)
    monkeypatch.setattr(_freeze, "_stopped", at_work)
    assert _freeze.Freezer(-1, -1).settle() is found
    assert looks[0] < 2100


def test_a_worker_that_is_stopped_and_one_that_goes_on_are_told_apart(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_freeze, "_LIMIT_S", 0.2)
    with pool.worker(payload(HEAD + "def run(x): return x + 1\n")) as worker:
        process = psutil.Process(worker.pid)
        process.suspend()
        while process.status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)
        assert worker._connection.freezer.settle()
        process.resume()
        while process.status() == psutil.STATUS_STOPPED:
            time.sleep(0.001)
        assert not worker._connection.freezer.settle()
        with pytest.raises(WorkerFailure, match=rf"could not be stopped: .*\b{worker.pid} \([RS]\)"):
            monkeypatch.setattr(_freeze.signal, "pidfd_send_signal", lambda *_: None)
            worker._connection.rest()
