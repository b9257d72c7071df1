"""The bench in real workers, on a task small enough for a test."""

import random
import time
from types import SimpleNamespace

import pytest
import torch

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.errors import WorkerError
from kernelwright.languages import get_language
from kernelwright.measure import Bench, _bench, _block_runner
from kernelwright.measure._layout import Layout
from kernelwright.measure._sequential import WARM_BLOCKS
from kernelwright.measure._standing import Standing
from kernelwright.measure._variants import Baselines, CandidateVariants
from kernelwright.records import Block, Candidate, SourceFile, Split
from kernelwright.sandbox import Pool, Worker
from kernelwright.tasks import Problem, keeps_weights, load_task
from kernelwright.verify import verify

from .layer import LAYER, LINEAR

pytestmark = pytest.mark.alone

TASK = """
import torch
import torch.nn as nn

rows, dim = 32, 64

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "softmax.py").write_text(TASK)
    problem = Problem(load_task(str(folder / "softmax.py")))
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder)})
    with (
        Pool(settings, arena_bytes=8 << 20) as pool,
        Bench(problem, pool, detect("cpu"), baselines=("eager",)) as made,
    ):
        yield made


def measure(bench, body, phase="screen", **limits):
    candidate = Candidate(
        sources=(SourceFile(path="c.py", text=f"import torch\n{body}"),), language="torch", entry="c.py:run"
    )
    build = get_language("torch").build(candidate)
    return bench.measure(
        candidate, build, phase=phase, workloads=bench.problem.task.split(Split.SEARCH), deadline_s=300,
        **limits,
    )  # fmt: skip


def test_blocks_hold_every_variant_and_the_proof_of_what_ran(bench):
    timing, findings = measure(bench, "def run(x):\n    return torch.softmax(x, -1)\n")
    assert {f.check for f in findings} == {
        "timed-calls", "timed-outputs", "deferred-work", "two-clocks", "start-up",
    }  # fmt: skip
    assert {f.check for f in findings if f.status == "fail"} <= {"two-clocks"}
    assert {variant.name for variant in timing.variants} == {"candidate", "eager"}
    assert all(
        variant.load_us > 0 and variant.first_call_us > 0 and not variant.prepare_us
        for variant in timing.variants
    )
    assert len({variant.worker for variant in timing.variants}) == 2
    for block in timing.blocks:
        assert set(block.times_us) == set(block.order) == {"candidate", "eager"}
        assert block.calls > 1
        assert block.phase == "screen"


def test_the_baseline_stays_warm_and_the_candidate_is_fresh(bench):
    body = "def run(x):\n    return torch.softmax(x, -1)\n"
    first, second = (
        {variant.name: variant.worker for variant in measure(bench, body)[0].variants} for _ in range(2)
    )
    assert first["eager"] == second["eager"]
    assert first["candidate"] != second["candidate"]


def test_wrong_outputs_of_timed_calls_are_found(bench):
    _, findings = measure(bench, "def run(x):\n    return torch.softmax(x.half(), -1).float()\n")
    assert next(f.check for f in findings if f.status == "fail") == "timed-outputs"


def test_no_timed_call_has_the_arguments_of_another(bench):
    body = "    known, seen[id(x)] = id(x) in seen, x\n    return torch.softmax(x, -1) * (not known)\n"
    _, findings = measure(bench, f"seen = {{}}\ndef run(x):\n{body}")
    assert {f.check for f in findings if f.status == "fail"} <= {"two-clocks"}


def test_a_crash_in_a_timed_call_is_a_finding(bench):
    count = "import os\nn = 0\ndef run(x):\n    global n\n    n += 1\n    n < 4 or os._exit(1)\n"
    body = f"{count}    return torch.softmax(x, -1)\n"
    _, findings = measure(bench, body)
    assert findings[0].check == "timed-calls"
    assert findings[0].status == "fail"


SOFTMAX = "def run(x):\n    return torch.softmax(x, -1)\n"


def test_no_block_starts_after_the_end_and_no_baseline_is_given_up_for_it(bench):
    bench._baselines.drop(bench.problem.task.workloads[0], "eager")
    timing, findings = measure(bench, SOFTMAX, left_s=0.0)
    assert timing.blocks == ()
    assert {f.status for f in findings} == {"pass"}
    assert bench.notes == {}
    assert measure(bench, SOFTMAX)[0].blocks, "with time it goes on"


def test_baselines_start_together_and_are_ready_then(bench):
    workloads = bench.problem.task.split(Split.SEARCH)
    bench._baselines.drop(workloads[0], "eager")
    assert not bench.ready(workloads)
    assert bench.start(workloads)
    assert bench.ready(workloads)


def test_a_screening_far_from_the_best_is_short(bench, monkeypatch):
    place = bench.problem.task.workloads[0].name, "eager"
    monkeypatch.setattr(bench, "_standing", Standing())
    assert len(measure(bench, SOFTMAX)[0].blocks) > 2
    assert bench._standing._best[place] > 0, "it is the best so far"
    bench._standing._best[place] = 1e9
    assert len(measure(bench, SOFTMAX)[0].blocks) == 1
    assert bench._standing._best[place] == 1e9


def test_a_screening_relies_on_what_is_known_of_baselines_and_nothing_else_does(bench, monkeypatch):
    visits = []
    visit = _block_runner.BlockRunner._visit

    def counted(self, variant, *args, **more):
        visits.append(variant.name)
        return visit(self, variant, *args, **more)

    monkeypatch.setattr(_block_runner.BlockRunner, "_visit", counted)
    monkeypatch.setattr(bench, "_standing", Standing())
    counts = {}
    for phase in ("measure", "screen"):
        visits.clear()
        blocks = measure(bench, SOFTMAX, phase=phase, left_s=20.0)[0].blocks
        counts[phase] = {n: visits.count(n) - len(blocks) for n in ("eager", "candidate")}
    assert counts["measure"]["eager"] >= 4, "warmed up, timed to choose the calls, grown"
    assert counts["screen"]["eager"] <= 2, "waked"
    assert counts["screen"]["candidate"] >= 4, "a candidate is fresh"


def test_a_prescreen_has_the_first_baseline_alone(bench, monkeypatch):
    monkeypatch.setattr(bench._baselines, "names", ("eager", "compile"))
    timing, _ = measure(bench, SOFTMAX, phase="prescreen")
    assert {variant.name for variant in timing.variants} == {"candidate", "eager"}
    assert {b.phase for b in timing.blocks} == {"prescreen"}


SCALED = TASK.replace(
    "    def forward(self, x):\n        return torch.softmax(x, dim=-1)",
    "    def __init__(self):\n        super().__init__()\n        self.scale = nn.Parameter(torch.ones(dim))\n\n"
    "    def forward(self, x):\n        return torch.softmax(x, dim=-1) * self.scale",
)
PACKED = """
import traceback
def prepare(weights):
    assert not any(f.name == "__call__" for f in traceback.extract_stack()), "packed within a call"
    return weights["scale"].clone()
def run(x, packed):
    return torch.softmax(x, -1) * packed
"""


def test_weights_are_packed_outside_of_timed_calls_and_the_cost_is_recorded(bench, tmp_path):
    (tmp_path / "scaled.py").write_text(SCALED)
    problem = Problem(load_task(str(tmp_path / "scaled.py")))
    with Bench(problem, bench.pool, bench.device, baselines=("eager",)) as scaled:
        timing, findings = measure(scaled, PACKED, phase="prescreen")
    assert not [f for f in findings if f.check.startswith("timed") and f.status == "fail"], findings
    costs = {variant.name: variant.prepare_us for variant in timing.variants}
    assert costs["candidate"] > 0
    assert costs["eager"] == 0


def test_every_worker_runs_on_the_pools_device(bench, monkeypatch):
    asked = []

    def refuse(payload, deadline_s=0.0):
        asked.append(payload.device)
        raise WorkerError("no worker here")

    monkeypatch.setattr(bench.pool, "device", "cuda:7")
    monkeypatch.setattr(bench.pool, "worker", refuse)
    workload = bench.problem.task.split(Split.SEARCH)[0]
    candidate = bench.problem.baseline("eager", workload)
    build = get_language(candidate.language).build(candidate)
    with pytest.raises(WorkerError):
        CandidateVariants(bench.problem, bench.pool, candidate, build).of(workload, 1.0)
    with pytest.raises(WorkerError):
        list(Baselines(bench.problem, bench.pool, ("eager",)).started(workload, time.monotonic() + 1, None))
    found = verify(bench.problem, candidate, build, pool=bench.pool, depth="screen")
    assert found.status == "unknown"
    assert asked == ["cuda:7"] * 3


@pytest.mark.parametrize("late", [True, False])
def test_content_is_there_after_the_announcement_or_for_a_gpu_before_binding_copies_it(bench, late):
    layout = Layout(bench.pool, bench.device, random.Random(0))
    content = torch.arange(6.0).reshape(2, 3) + 1
    ((slot,),) = layout.place([[content]], late=late)
    seen = layout._arena.view(slot)
    assert torch.equal(seen, torch.zeros(2, 3) if late else content)
    layout.fill()
    assert torch.equal(seen, content)


COLD_TASK = """
import torch

import kernelwright as kw


@kw.task(x="float32[rows, 64]", workloads=[{"rows": 32}], contract=kw.Contract(cache="cold"))
def softmax(x):
    return torch.softmax(x, -1)
"""


@pytest.fixture
def cold(bench, tmp_path, monkeypatch):
    (tmp_path / "cold.py").write_text(COLD_TASK)
    called = []
    call = Worker.call

    def seen(worker, sets, deadline_s=60.0, *, fill=None, **rest):
        def filled():
            called.append((tuple(sets), torch.get_num_threads()))
            fill()

        return call(worker, sets, deadline_s, fill=filled if fill else None, **rest)

    monkeypatch.setattr(Worker, "call", seen)
    monkeypatch.setattr(_block_runner, "_COLD_BLOCK_US", 1e9)
    with Bench(Problem(load_task(str(tmp_path / "cold.py"))), bench.pool, bench.device) as made:
        made._baselines.names = ("eager",)
        yield made, called


def test_with_cold_caches_every_call_of_a_block_has_a_set_of_its_own(cold, monkeypatch):
    bench, called = cold
    timing, _ = measure(bench, SOFTMAX)
    assert timing.cache == "cold"
    assert {block.calls for block in timing.blocks} == {8}, "a short call is made as often as there are sets"
    assert all(len(set(sets)) == len(sets) for sets, _ in called)
    monkeypatch.setattr(_block_runner, "_SHARED_SHARE", -1.0)
    timing, _ = measure(bench, SOFTMAX)
    assert {block.calls for block in timing.blocks} == {1}, (
        "shared weights would be warm from the second call on"
    )


def test_what_is_confirmed_on_cold_caches_is_timed_with_warm_ones_beside(cold, monkeypatch):
    bench, _ = cold
    flushed, beside = [], Bench._warm_blocks
    monkeypatch.setattr(Layout, "flush_caches", lambda layout: flushed.append(layout))
    monkeypatch.setitem(_bench._ROUNDS, "confirm", 2)
    monkeypatch.setattr(Bench, "_is_confirmed", lambda bench, blocks: False)
    timing, _ = measure(bench, SOFTMAX, phase="confirm")
    assert {b.phase for b in timing.blocks} == {"confirm"}

    def unflushed(*given):
        flushed.clear()
        beside(*given)
        assert not flushed, "their caches are left as they are"

    monkeypatch.setattr(Bench, "_is_confirmed", lambda bench, blocks: len(blocks) >= 2)
    monkeypatch.setattr(Bench, "_warm_blocks", unflushed)
    timing, _ = measure(bench, SOFTMAX, phase="confirm")
    assert [b.phase for b in timing.blocks if b.phase == "warm"] == ["warm"] * WARM_BLOCKS


def test_the_judge_works_on_one_thread_and_settles_before_the_clock_starts(cold, monkeypatch):
    bench, called = cold
    settled = []
    monkeypatch.setattr(_block_runner, "settle", lambda: settled.append(len(called)))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        measure(bench, SOFTMAX, phase="prescreen")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert settled == list(range(1, len(called) + 1)), "once in every fill"
    assert {threads for _, threads in called} == {1}


KEEPING = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(32, 32)
        self.kept = None

    def forward(self, x):
        self.kept = self.kept or [w.clone() for w in self.parameters()]
        return torch.relu(nn.functional.linear(x, *self.kept)) * SHARE
"""


@pytest.fixture
def keeping(bench, tmp_path, monkeypatch):
    """Return what measures beside a baseline that keeps its first weights, as a frozen graph does, times a share."""
    (tmp_path / "layer.py").write_text(LAYER)
    problem = Problem(load_task(str(tmp_path / "layer.py")))
    native, share = problem.baseline, 1.0

    def planted(name, workload):
        if not keeps_weights(name):
            return native(name, workload)
        text = KEEPING.replace("SHARE", str(share))
        return Candidate(
            sources=(SourceFile(path="m.py", text=text),),
            language="torch",
            entry="m.py:Model",
            style="module",
        )

    monkeypatch.setattr(problem, "baseline", planted)

    def measured(names, body=LINEAR, factor=1.0):
        nonlocal share
        share = factor
        with Bench(problem, bench.pool, bench.device, baselines=names) as made:
            return made.notes, *measure(made, body)

    return measured


def test_a_baseline_that_keeps_its_weights_is_timed_and_never_compared_with(keeping):
    notes, timing, findings = keeping(("compile-freezing", "eager"))
    assert notes == {}
    assert {f.check for f in findings if f.status == "fail"} <= {"two-clocks"}
    assert all({"eager", "compile-freezing"} <= set(block.times_us) for block in timing.blocks)


def test_a_baseline_that_keeps_its_weights_and_answers_wrongly_with_them_is_left_out(keeping):
    notes, timing, _ = keeping(("eager", "compile-freezing"), factor=1.01)
    (why,) = notes.values()
    assert why.startswith("wrong with the weights that it keeps:")
    assert {name for block in timing.blocks for name in block.times_us} == {"candidate", "eager"}


def test_nothing_is_timed_against_a_baseline_that_keeps_its_weights_alone(keeping):
    _, timing, _ = keeping(("compile-freezing",))
    assert {name for block in timing.blocks for name in block.times_us} == {"candidate"}


def test_without_weights_a_baseline_that_keeps_them_is_superfluous(bench):
    workload = bench.problem.task.workloads[0]
    baselines = Baselines(bench.problem, bench.pool, ("compile-max-autotune-freezing", "eager"))
    assert baselines.names[0] == "eager", "every screening has one first that it can be compared with"
    assert baselines.started(workload, 0.0) == []
    (why,) = baselines.notes.values()
    assert why == "the task owns no weights that could be built in: it is compile-max-autotune"


def test_a_candidate_may_load_as_long_as_while_it_was_verified_if_the_run_has_the_time():
    now = time.monotonic()
    for soft, hard, least in ((10, 100, 59), (1, 2, 5), (80, 100, 79)):  # rounds may begin until the first
        assert least <= _bench._load_s(_block_runner.Ends(now + soft, now + hard)) <= least + 1


def test_a_slow_measurement_goes_on_to_its_first_look_if_the_run_has_the_time(bench, monkeypatch):
    monkeypatch.setattr(Bench, "_is_enough", lambda *_: False)
    times = {"candidate": 1.0, "eager": 2.0}
    block = Block(workload="w", order=tuple(times), calls=1, times_us=times)
    slow, now = SimpleNamespace(block=lambda _: block, leave=lambda _: None), time.monotonic()
    for phase, hard, rounds in (
        ("measure", 100, 8),
        ("confirm", 100, 8),
        ("screen", 100, 3),
        ("confirm", -1, 0),
    ):
        blocks = []
        bench._rounds([slow], phase, blocks, _block_runner.Ends(now - 1, now + hard), 1)
        assert len(blocks) == rounds, "the soft limit is over, the hard one is not or is"
