"""Candidates in real workers: right ones are accepted, wrong ones die of the expected check."""

import os

import pytest
import torch

from kernelwright.records import Build, BuildStatus, Candidate, SourceFile, Split
from kernelwright.sandbox import FailureKind, WorkerFailure
from kernelwright.system.waiting import PatientDeadline
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, _case, _trial, _verify, admit, verify
from kernelwright.verify._case import Seeds
from kernelwright.verify._trial import Trial
from kernelwright.verify._verify import _probes
from kernelwright.verify.checks import PROBES, calls
from kernelwright.verify.checks.calls import Calls
from kernelwright.verify.checks.deployment import Deployment

RIGHT = "def run(x, weight):\n    return torch.softmax(x, -1) * weight\n"
WRONG = {
    "zeros": ("correct", "def run(x, weight):\n    return torch.zeros_like(x)\n"),
    "half": ("correct", "def run(x, weight):\n    return (x.half().softmax(-1) * weight.half()).float()\n"),
    "shape": ("returns", "def run(x, weight):\n    return (x.softmax(-1) * weight)[:-1]\n"),
    "dtype": ("returns", "def run(x, weight):\n    return (x.softmax(-1) * weight).double()\n"),
    "lazy": ("layout", "def run(x, weight):\n    return (x.softmax(-1) * weight)[:1].expand_as(x)\n"),
    "view": ("aliasing", "def run(x, weight):\n    return x\n"),
    "scratch": (
        "inputs-unchanged",
        "def run(x, weight):\n    y = x.softmax(-1) * weight\n    x.zero_()\n    return y\n",
    ),
    "one buffer": (
        "earlier-outputs",
        "buffers = {}\ndef run(x, weight):\n    y = buffers.setdefault(x.shape, torch.empty(x.shape))\n"
        "    torch.mul(x.softmax(-1), weight, out=y)\n    return y\n",
    ),
    "by pointer": (
        "fresh-content",
        "kept = {}\ndef run(x, weight):\n    key = (x.data_ptr(), x.shape)\n    if key not in kept or RESET:\n"
        "        kept[key] = x.softmax(-1) * weight\n    return kept[key].clone()\n".replace(" or RESET", ""),
    ),
    "stale weights": (
        "weights-followed",
        "kept = {}\ndef run(x, weight):\n    w = kept.setdefault(float(x.sum()), weight.clone())\n"
        "    return x.softmax(-1) * w\n",
    ),
    "raises": ("runs", "def run(x, weight):\n    raise ValueError('no')\n"),
    "exits": ("runs", "import os\ndef run(x, weight):\n    os._exit(0)\n"),
    "unsupported here": (
        "supported", "def run(x, weight):\n    raise NotImplementedError('Unsupported: never')\n",
    ),
    "does not load": ("loads", "raise RuntimeError('at import')\ndef run(x, weight): ...\n"),
}  # fmt: skip


@pytest.fixture(scope="module")
def oracle(problem):
    return Oracle(problem)


def test_a_right_candidate_is_accepted_in_full(problem, pool, make, oracle):
    found = verify(problem, *make(RIGHT), pool=pool, depth="full", oracle=oracle)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]
    assert {"correct", "earlier-outputs", "one-element", "repeatable", "process-clean"} <= {
        f.check for f in found.findings
    }
    assert len(found.seeds) > 1


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_candidate_dies_of_the_expected_check(name, problem, pool, make, oracle):
    check, body = WRONG[name]
    found = verify(problem, *make(body), pool=pool, depth="screen", oracle=oracle)
    assert (found.status, found.failure) == ("rejected", check), found.findings


@pytest.mark.parametrize(("depth", "status"), [("screen", "accepted"), ("full", "rejected")])
def test_a_screening_asks_little_of_who_is_hopeless_and_an_acceptance_everything(
    problem, pool, make, oracle, depth, status
):
    _, body = WRONG["one buffer"]
    limits = dict.fromkeys((w.name for w in problem.task.workloads), 1e-3)
    found = verify(problem, *make(body), pool=pool, depth=depth, oracle=oracle, hopeless_us=limits)
    assert found.status == status
    _, body = WRONG["zeros"]
    found = verify(problem, *make(body), pool=pool, depth=depth, oracle=oracle, hopeless_us=limits)
    assert found.failure == "correct", "it is right in any case"


@pytest.mark.parametrize("name", ["one buffer", "by pointer", "stale weights", "scratch"])
def test_each_check_carries_its_weight(name, problem, pool, make, oracle):
    check, body = WRONG[name]
    found = verify(
        problem, *make(body), pool=pool, depth="screen", oracle=oracle, disabled=frozenset({check})
    )
    assert found.failure != check


def test_a_candidate_may_decline_hidden_workloads(problem, pool, make, oracle):
    body = (
        "import sys\ndef run(x, weight):\n    if x.shape != (24, 48) or not sys.modules:\n"
        "        raise NotImplementedError('Unsupported: other shapes')\n    return x.softmax(-1) * weight\n"
    )
    found = verify(problem, *make(body), pool=pool, depth="full", oracle=oracle)
    assert found.status == "accepted"
    assert found.unsupported
    assert "suspect: looks into other code" in found.findings[0].message, "told, and nothing follows from it"


TWO_SIZES = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 24, "dim": 48}, {"rows": 32, "dim": 64}])
def scaled(x):
    return torch.softmax(x, -1)
"""


@pytest.fixture(scope="module")
def two_sizes(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "two_sizes.py"
    path.write_text(TWO_SIZES)
    return Problem(load_task(str(path)))


def test_a_candidate_may_decline_some_search_workloads_and_is_probed_on_another(two_sizes, pool, make):
    body = (
        "def run(x):\n    if len(x) == 24:\n        raise NotImplementedError('Unsupported: 24 rows')\n"
        "    return x.softmax(-1){wrong}\n"
    )
    found = verify(two_sizes, *make(body.format(wrong="")), pool=pool, depth="screen")
    assert found.status == "accepted", found.findings
    assert found.unsupported == (two_sizes.task.split(Split.SEARCH)[0].name,)
    assert "earlier-outputs" in {f.check for f in found.findings}
    wrong = verify(two_sizes, *make(body.format(wrong=" * 1.01")), pool=pool, depth="screen")
    assert wrong.failure == "correct"


def test_wrong_on_hidden_shapes_is_rejected_without_telling_which(problem, pool, make, oracle):
    body = "def run(x, weight):\n    y = x.softmax(-1) * weight\n    return y if len(x) == 24 else y * 1.01\n"
    found = verify(problem, *make(body), pool=pool, depth="full", oracle=oracle)
    assert found.failure == "correct"
    failed = next(f for f in found.findings if f.status == "fail")
    assert failed.workload in {"hidden", "confirm"}
    assert "hidden workload" in failed.message


@pytest.mark.parametrize(("split", "most", "failure"), [("hidden", "50", "correct"), ("confirm", "inf", "")])
def test_wrong_under_large_values_at_pinned_sizes_alone_is_rejected(
    split, most, failure, pool, make, tmp_path
):
    sizes = {"hidden": "[]", "confirm": "[]"} | {split: "[{'rows': 7, 'dim': 48}, {'rows': 9, 'dim': 40}]"}
    path = tmp_path / "pinned.py"
    path.write_text(
        TWO_SIZES.replace(
            '"dim": 64}]', f'"dim": 64}}], hidden={sizes["hidden"]}, confirm={sizes["confirm"]}'
        )
    )
    pinned = Problem(load_task(str(path)))
    body = (
        "def run(x):\n    y = x.softmax(-1)\n"
        f"    return y * 1.01 if len(x) < 10 and x.abs().max() > float('{most}') else y\n"
    )
    found = verify(pinned, *make(body), pool=pool, depth="full")
    assert found.failure == failure, found.findings


def test_the_hidden_workload_that_refused_others_comes_first_under_the_same_seeds(
    problem, pool, make, monkeypatch
):
    oracle, looked, probed = Oracle(problem), [], []
    look, probe = _verify.observe, _verify._probes
    monkeypatch.setattr(
        _verify,
        "_probes",
        lambda t, c, probes, d: probed.extend(p.name for p in probes) or probe(t, c, probes, d),
    )
    monkeypatch.setattr(_verify, "observe", lambda trial, case: looked.append(case) or look(trial, case))
    largest = max(problem.task.split(Split.HIDDEN), key=lambda w: w.arguments[0].shape[0])
    rows = largest.arguments[0].shape[0]
    body = f"def run(x, weight):\n    y = x.softmax(-1) * weight\n    return y * 1.01 if len(x) == {rows} else y\n"
    first = verify(problem, *make(body), pool=pool, oracle=oracle)
    before, looked[:] = [c.workload.name for c in looked], []
    once = {p.name for p in PROBES}
    assert once & set(probed)
    probed.clear()
    told = oracle.afresh()
    again = verify(problem, *make(body), pool=pool, oracle=told, seeds=first.seeds)
    searched = len(problem.task.split(Split.SEARCH))
    assert [c.workload.name for c in looked[1:]] == before[-1:] and len(before) > searched + 1
    assert not once & set(probed), "what takes long on the search workloads comes later"
    assert (first.failure, again.failure, again.seeds) == ("correct", "correct", first.seeds)
    at = [oracle.case(largest, seed).inputs[0] for seed in first.seeds]
    assert any(torch.equal(looked[-1].inputs[0], x) for x in at), "the seed goes with the workload"


def test_what_is_not_done_by_the_deadline_is_unknown(problem, pool, make, oracle):
    found = verify(problem, *make(RIGHT), pool=pool, depth="full", oracle=oracle, deadline_s=0.0)
    assert found.status != "accepted"


def test_what_its_worker_waits_for_a_processor_does_not_count(problem, pool, make, oracle):
    asked = []

    def waits(pid):
        asked.append(pid)
        return {"1": len(asked) * 10**15}

    deadline = PatientDeadline(20.0, waits=waits)
    with Trial(oracle, *make(RIGHT), pool, deadline=deadline, seeds=Seeds()) as trial:
        assert set(asked) == {os.getpid()}
        worker = trial.worker(problem.task.split(Split.SEARCH)[0])
        assert set(asked) == {os.getpid(), worker.pid}


HANGS = "def run(x, weight):\n    while {when}: pass\n    return torch.softmax(x, -1) * weight\n"


@pytest.mark.long
@pytest.mark.parametrize("when", ["True", "torch.is_grad_enabled() or N.append(0) or len(N) > 3"])
def test_a_hang_just_before_the_deadline_is_unknown_and_an_earlier_one_is_not(
    when, problem, pool, make, oracle, monkeypatch
):
    body = f"N = []\n{HANGS.format(when=when)}"
    late = verify(problem, *make(body), pool=pool, depth="screen", oracle=oracle, deadline_s=2.0)
    assert late.status == "unknown" and not late.failure, late.findings
    monkeypatch.setattr(_trial, "_CALL_LIMIT_S", 1.0)
    early = verify(problem, *make(body), pool=pool, depth="screen", oracle=oracle, deadline_s=600.0)
    assert early.status == "rejected", early.findings


@pytest.mark.parametrize("place", ["_watched", "_alone", "_deployed"])
def test_time_that_runs_out_in_a_worker_of_its_own_is_no_fault(
    place, problem, pool, make, oracle, monkeypatch
):
    probe = Deployment() if place == "_deployed" else Calls()
    contract = problem.task.contract.model_copy(update={"calls": "library-allowed"})
    monkeypatch.setattr(problem, "task", problem.task.model_copy(update={"contract": contract}))
    monkeypatch.setattr(calls, "_forbidden", lambda *_: "")
    candidate, build = make(RIGHT)
    call = Trial.call
    with Trial(oracle, candidate, build, pool, deadline=PatientDeadline(600.0), seeds=Seeds()) as trial:

        def late(self, placed):
            if self is trial or not getattr(self, place):
                return call(self, placed)
            self._deadline = trial._deadline = PatientDeadline(0.0)
            raise WorkerFailure(FailureKind.TIMEOUT, "no answer before the deadline")

        monkeypatch.setattr(Trial, "call", late)
        found = [*_probes(trial, oracle.case(problem.task.split(Split.SEARCH)[0], 1), [probe], frozenset())]
    assert [f.status for f in found] == ["unknown"], found


def test_a_replay_uses_the_recorded_seeds(problem, pool, make, oracle):
    first = verify(problem, *make(RIGHT), pool=pool, depth="screen", oracle=oracle)
    again = verify(problem, *make(RIGHT), pool=pool, depth="screen", seeds=first.seeds)
    assert again.seeds == first.seeds


def test_an_honest_task_refuses_every_wrong_answer(problem, oracle):
    found = admit(problem, oracle=oracle)
    assert not found.degenerate
    assert {"zeros", "stale", "float16", "input-0", "other-weights"} <= set(found.caught)


def test_a_constant_task_is_degenerate(tmp_path):
    from kernelwright.tasks import Problem, load_task

    path = tmp_path / "nothing.py"
    path.write_text(
        "import torch\nimport torch.nn as nn\nn = 32\n"
        "class Model(nn.Module):\n    def forward(self, x):\n        return (x - x).clamp(min=0)\n"
        "def get_inputs():\n    return [torch.randn(n, n)]\ndef get_init_inputs():\n    return []\n"
    )
    found = admit(Problem(load_task(str(path))))
    assert "zeros" in found.passing
    assert found.finding.status == "unknown"


def test_few_bytes_of_expected_values_are_worked_out_by_one_thread(problem, monkeypatch):
    seen, run = [], Problem.run_oracle
    monkeypatch.setattr(
        Problem, "run_oracle", lambda *a, **k: seen.append(torch.get_num_threads()) or run(*a, **k)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Oracle(problem).case(problem.task.workloads[0], 1)
        assert (set(seen), torch.get_num_threads()) == ({1}, 2)
        seen.clear()
        monkeypatch.setattr(_case, "_ONE_THREAD_BYTES", 0)
        Oracle(problem).case(problem.task.workloads[0], 1)
        assert set(seen) == {2}
    finally:
        torch.set_num_threads(before)


def test_answers_to_another_state_are_worked_out_once_unless_they_drive_out_others(problem, monkeypatch):
    oracle, workload = Oracle(problem), problem.task.workloads[0]
    case = oracle.case(workload, 1)
    other = oracle.with_state(case, 4)
    assert other.inputs == case.inputs and any((other.state[k] != v).any() for k, v in case.state.items())
    assert not torch.equal(other.outputs[0].output, case.outputs[0].output)
    assert oracle.with_state(case, 4) is other and oracle.case(workload, 1) is case
    assert oracle.again(case, 4) is not other and oracle.case(workload, 4) is not other
    monkeypatch.setattr(_case, "_SMALL_SHARE", 0)
    assert oracle.with_state(case, 5) is not oracle.with_state(case, 5)


def test_what_is_compiled_and_never_run_is_unknown(problem, pool):
    source = SourceFile(path="k.hip", text="")
    candidate = Candidate(sources=(source,), language="hip", entry="k.hip:k", style="destination")
    verdict = verify(problem, candidate, Build(status=BuildStatus.OK), pool=pool)
    assert verdict.status == "unknown" and not verdict.failure
    assert "not run" in next(f.message for f in verdict.findings if f.check == "loads")
