"""Anything at all on the channel and in candidate files: a message, a failure or a clear error, in bounded time."""

import json
import os
import socket
import time
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.config import Settings
from kernelwright.errors import KernelwrightError
from kernelwright.languages import get_language
from kernelwright.records import Build, Candidate, SourceFile, Task, TensorSpec
from kernelwright.sandbox import FailureKind, Pool, WorkerFailure
from kernelwright.sandbox._channel import MAX_REPLY_BYTES, Channel, encode
from kernelwright.sandbox._output_transfer import OutputTransfer
from kernelwright.sandbox._types import OutputFact
from kernelwright.tasks import load_candidate, load_task

from .conftest import payload, vector

few = settings(
    max_examples=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
sizes = st.integers(0, 64) | st.sampled_from(
    [MAX_REPLY_BYTES - 1, MAX_REPLY_BYTES, MAX_REPLY_BYTES + 1, 2**32 - 1]
)
frames = st.one_of(
    st.binary(max_size=64),
    st.tuples(sizes, st.binary(max_size=64)).map(lambda f: f[0].to_bytes(4, "little") + f[1]),
    values.map(lambda v: json.dumps(v).encode()).map(lambda b: len(b).to_bytes(4, "little") + b),
    st.dictionaries(st.text(max_size=4), values, max_size=3).map(encode),
)


@few
@given(st.lists(frames, max_size=4), st.integers(0, 80))
def test_frames_end_in_messages_or_failures(sent: list[bytes], cut: int) -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    judge = Channel(ours, read, os.open(os.devnull, os.O_RDONLY))
    data = b"".join(sent)
    theirs.settimeout(60)
    theirs.sendall(data[: max(0, len(data) - cut)])
    theirs.close()
    os.close(write)
    with pytest.raises(WorkerFailure) as failure:
        while isinstance(judge.receive(time.monotonic() + 60), dict):
            continue
    assert failure.value.kind in {FailureKind.PROTOCOL, FailureKind.CRASHED}
    judge.close()


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deep_nesting_is_a_failure(depth: int) -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    judge = Channel(ours, read, os.open(os.devnull, os.O_RDONLY))
    theirs.sendall(depth.to_bytes(4, "little") + b"[" * depth)
    with pytest.raises(WorkerFailure, match="not JSON"):
        judge.receive(time.monotonic() + 60)
    theirs.close()
    os.close(write)
    judge.close()


def test_a_late_reply_is_not_taken_for_the_next_ones() -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    judge = Channel(ours, read, os.open(os.devnull, os.O_RDONLY))
    with pytest.raises(WorkerFailure) as failure:
        judge.receive(time.monotonic() + 0.02)
    assert failure.value.kind is FailureKind.TIMEOUT
    theirs.sendall(encode({"id": 1}))
    with pytest.raises(WorkerFailure, match="nobody asked"):
        judge.require_silence()
    theirs.close()
    os.close(write)
    judge.close()


class Peer:
    """What a `OutputTransfer` needs of a connection: a process whose memory it reads, and a way to end it."""

    pid = os.getpid()

    def reject(self, message: str) -> WorkerFailure:
        return WorkerFailure(FailureKind.PROTOCOL, message)


@few
@given(
    values
    | st.lists(st.integers(-(1 << 65), 1 << 65) | st.tuples(*[st.integers(-5, 1 << 40)] * 3), max_size=3),
    st.lists(st.integers(-2, 1 << 66), max_size=3),
    st.lists(st.integers(-2, 1 << 66), max_size=3),
    st.sampled_from(["float32", "int64", "Tensor", "__class__", ""]),
    st.booleans(),
)
def test_places_and_facts_end_in_tensors_or_failures(
    places: object, shape: list[int], strides: list[int], dtype: str, declared: bool
) -> None:
    transfer = OutputTransfer(Peer())  # type: ignore[arg-type]
    spec = TensorSpec(name="y", shape=(2, 3), dtype="float32")
    transfer.expect([spec])
    fact = OutputFact(
        plain=True, kind="torch.Tensor", shape=(2, 3) if declared else tuple(shape), strides=tuple(strides),
        dtype="float32" if declared else dtype, device="cpu", requires_grad=False, aliases=(), shares=(),
    )  # fmt: skip
    taken = transfer.snapshots(places, [spec])
    try:
        outputs = transfer.interpret(taken, [fact], [spec])
    except WorkerFailure as failure:
        assert failure.kind is FailureKind.PROTOCOL
    else:
        assert outputs is None or [t.shape for t in outputs] == [torch.Size((2, 3))]
    with pytest.raises(WorkerFailure):
        transfer.take([(tuple(shape), dtype)], (1 << 40,))


REPLIES = """
import json, os, random, torch
from kernelwright.sandbox import _worker_main
chance = random.Random({seed})
def nonsense(depth=0):
    kind = chance.randrange(7 if depth < 3 else 5)
    if kind == 0: return None
    if kind == 1: return chance.randrange(-2**63, 2**63)
    if kind == 2: return chance.random()
    if kind == 3: return "x" * chance.randrange(9)
    if kind == 4: return chance.random() < 0.5
    if kind == 5: return [nonsense(depth + 1) for _ in range(chance.randrange(4))]
    return {{chance.choice("abc"): nonsense(depth + 1) for _ in range(chance.randrange(4))}}
loaded = False
def lie(self, message, send=_worker_main.Worker._send):
    global loaded
    keys = [k for k in message if k != "id"]
    if loaded and keys and chance.random() < 0.6:
        message[chance.choice(keys)] = nonsense()
    loaded = True
    send(self, message)
_worker_main.Worker._send = lie
def run(x): return x + 1
"""


@pytest.mark.parametrize("seed", range(12))
def test_a_worker_that_lies_in_every_reply_ends_in_failures(pool: Pool, seed: int) -> None:
    with pool.worker(payload(REPLIES.format(seed=seed))) as worker:
        slot = pool.arena.place(torch.ones(4))
        for _ in range(6):
            try:
                worker.set_state({})
                number = worker.bind((slot,), vector())
                reply = worker.call([number], deadline_s=2)
                fetched = worker.fetch(reply.first, deadline_s=2)
                assert all(isinstance(t, torch.Tensor) for t in fetched.outputs)
                worker.state()
                worker.audit()
            except WorkerFailure as failure:
                if not failure.alive:
                    break


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task(str(Path(__file__).parents[1] / "benign" / "tasks" / "softmax.py"))


names = st.sampled_from(
    ["c.py", "c.cpp", "c.cu", "c.cl", "solution.json", "c.txt", "folder/solution.json", "folder/c.py"]
)
texts = (
    st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | values.map(lambda v: json.dumps(v).encode())
    | st.sampled_from(
        [b"def run(x): return x", b"class ModelNew: ...", b"\0", b"run = 1", b"\xff\xfe",
         b'{"spec": {}, "sources": []}', b'{"spec": {"entry_point": 3, "language": []}, "sources": [{}]}']
    )
)  # fmt: skip


@few
@given(names, texts)
def test_candidate_files_load_or_are_explained(tmp_path: Path, task: Task, name: str, data: bytes) -> None:
    path = tmp_path / f"{abs(hash(data))}-{len(name)}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    for target in (path, path.parent, f"{path}:run"):
        try:
            candidate = load_candidate(target, task)
        except KernelwrightError as error:
            assert str(error)
            continue
        assert isinstance(candidate, Candidate)
        if candidate.language == "torch":
            build = type(get_language("torch"))(_settings(tmp_path)).build(candidate)
            assert isinstance(build, Build)


@few
@given(st.sampled_from(["definition.json", "t.json", "workload.jsonl"]), texts)
def test_definitions_load_or_are_explained(tmp_path: Path, name: str, data: bytes) -> None:
    folder = tmp_path / f"{abs(hash(data))}-{name}"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    for target in (folder, folder / name):
        with pytest.raises(KernelwrightError):
            load_task(str(target))


@pytest.mark.parametrize(
    "text",
    ["", "\x0c", "run = None", "run = 3", "def run(: pass", "import nothing_of_this_name", "1/0",
     "def run(x):\n\treturn x\n  y",
     "raise SystemExit(0)", "raise KeyboardInterrupt", "class run(Exception): ...\nraise run",
     "def run(*, x): return x"],
)  # fmt: skip
def test_sources_that_are_no_kernels_end_in_failures(pool: Pool, text: str) -> None:
    candidate = Candidate(
        sources=(SourceFile(path="kernel.py", text=text),), language="torch", entry="kernel.py:run"
    )
    with pytest.raises(WorkerFailure) as failure, pool.worker(payload(text)) as worker:
        assert worker.loaded.content == candidate.key
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())], deadline_s=300)
    assert failure.value.kind in {FailureKind.ERROR, FailureKind.UNSUPPORTED}


def _settings(folder: Path) -> Settings:
    return Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder), "KERNELWRIGHT_STORE": str(folder)})
