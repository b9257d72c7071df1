"""A run that goes from one store to another: the same run, once."""

import json

import pytest

from kernelwright.errors import StoreError
from kernelwright.records import Budget, Build, BuildStatus
from kernelwright.store import EvaluationKey, Store
from kernelwright.testing import PlantedJudge, planted_candidate, planted_task


@pytest.fixture
def stores(tmp_path):
    with Store(tmp_path / "one") as one, Store(tmp_path / "other") as other:
        yield one, other


def key_of(run, candidate):
    return EvaluationKey(candidate.key, run.task, run.device, "planted 1", "planted 1")


def filled(store, *times):
    run = store.create_run(planted_task(), device="cpu-1", budget=Budget(), seed=0)
    store.append_event(run.id, {"event": "run"})
    store.journal(run.id).add("ask", 0, {"operator": "draft"})
    call = store.calls.reserve(
        run.id, key="k", who="m", purpose="p", usd=0.5, cap_usd=None, request="question"
    )
    store.calls.settle(call, 0.25, reply="answer")
    store.keep("lesson", run.id, {"a": "text"})
    for time_us in times:
        candidate = planted_candidate(time_us)
        found = PlantedJudge().screen(candidate, Build(status=BuildStatus.OK))
        store.save_evaluation(run.id, key_of(run, candidate), found, elapsed_s=2.0)
    return run


def test_a_run_arrives_whole_and_once(stores):
    one, other = stores
    filled(other, 25.0)  # the numbers of rows differ, and one evaluation is known already
    run = filled(one, 50.0, 25.0, 400.0)
    packed = one.packed(run.id)
    assert other.adopt(packed) == other.adopt(packed) == run.id
    assert other.run(run.id) == run
    assert other.evaluations(run.id) == one.evaluations(run.id)
    assert other.spent(run.id) == one.spent(run.id)
    assert other.events(run.id) == one.events(run.id)
    assert other.journal(run.id).entries() == one.journal(run.id).entries()
    assert other.calls.transcript(run.id) == one.calls.transcript(run.id)
    assert other.calls.spent_usd(run.id) == 0.25
    assert len(other.kept("lesson")) == 2
    assert other.packed(run.id).count('"run_evaluations"') == 1
    assert other.lookup(key_of(run, planted_candidate(400.0))) is not None


def test_a_run_of_another_version_of_the_store_is_refused(stores):
    one, other = stores
    packed = json.loads(one.packed(filled(one).id))
    with pytest.raises(StoreError, match="schema 1, and this one has"):
        other.adopt(json.dumps({**packed, "schema": 1}))
    assert other.runs() == []
