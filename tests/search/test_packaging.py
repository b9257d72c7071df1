"""What of an accepted candidate goes behind the guard."""

import pytest

from kernelwright.records import Budget, Interval, Workload, WorkloadDecision
from kernelwright.search import _packaging
from kernelwright.store import Store
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task


@pytest.fixture
def packaged(monkeypatch):
    calls = []
    monkeypatch.setattr(_packaging, "package", lambda *given, **_: calls.append(given))
    return calls


def timed(workload, ratio):
    speedup = Interval(median=ratio, low=ratio - 0.1, high=ratio + 0.1)
    return WorkloadDecision(
        workload=workload, speedup=speedup, time_us=50.0, baseline_us=50.0 * ratio, baseline="eager"
    )


def test_workloads_that_are_slower_or_not_served_stay_outside_the_guard(tmp_path, packaged):
    one = planted_task()
    names = ("fast", "slow", "unserved")
    workloads = tuple(Workload(**{**one.workloads[0].model_dump(), "name": n}) for n in names)
    task, candidate = one.model_copy(update={"workloads": workloads}), planted_candidate(50.0)
    found = PlantedJudge().accept(candidate, PlantedLanguage().build(candidate))
    decision = found.decision.model_copy(
        update={"workloads": (timed("fast", 2.0), timed("slow", 0.8), timed("unserved", 2.0))}
    )
    verdict = found.verdict.model_copy(update={"unsupported": ("unserved",)})
    evaluation = found.model_copy(update={"decision": decision, "verdict": verdict})
    with Store(tmp_path / "store") as store:
        run = store.create_run(task, device="cpu-1", budget=Budget(evaluations=1), seed=0)
    _packaging.package_accepted(task, run, evaluation, tmp_path, {})
    ((_, variants, claim, _),) = packaged
    assert [w.name for w in variants[0].workloads] == ["fast"]
    assert "slow, unserved" in claim.not_tested[0] and "native op runs" in claim.not_tested[0]
