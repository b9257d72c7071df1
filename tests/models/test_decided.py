"""The chance that something is decided in the minutes: by recorded runs, by a store's, and in plans."""

import json
from pathlib import Path

import pytest
from benchmarks.zoo.decided import chance, fitted, runs_of, score

from kernelwright.cli.plan import _print
from kernelwright.models import Gain, keep_metadata
from kernelwright.models import _plan as planning
from kernelwright.models._decided import PLANS, SLOPE, Seen, chance_of, enough_s, factor_of, seen_in
from kernelwright.models._records import MODEL_PLAN, MODEL_RESULT, ModelResult
from kernelwright.records import DecisionStatus
from kernelwright.store import Store

ROWS = Path(__file__).parents[2] / "benchmarks" / "results" / "cpu"


@pytest.fixture(scope="module")
def recorded():
    files = (ROWS / f"2026-11-27{name}-zoo.jsonl" for name in ("", "-b", "-c", "-e"))
    return [run for file in files for run in runs_of(file.read_text())]


def test_the_constants_are_those_of_the_recorded_runs(recorded):
    median, slope = fitted(recorded)
    assert median == pytest.approx(PLANS, rel=0.01) and slope == SLOPE


def test_each_recorded_run_is_foretold_by_the_others_better_than_by_their_share(recorded):
    share = sum(run.decided for run in recorded) / len(recorded)
    fits = {run: fitted([other for other in recorded if other is not run]) for run in recorded[::3]}
    some = list(fits)
    assert score(some, lambda run: chance(run, *fits[run])) < 0.8 * score(some, lambda _: share)
    unseen = runs_of((ROWS / "2026-11-26-c-zoo.jsonl").read_text())
    assert score(unseen, lambda run: chance_of(run.plans, PLANS)) < 0.2


def test_a_chance_rises_with_the_seconds_and_falls_with_what_is_needed():
    chances = [chance_of(left, 100.0) for left in (0.0, 10.0, 50.0, 100.0, 200.0, 1000.0)]
    assert chances == sorted(chances) and chances[0] == 0.0 and chances[3] == 0.5 and chances[-1] > 0.99
    assert chance_of(enough_s(300.0), 300.0) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("times", "decided", "least", "most"), [(4.0, False, 2.0, 5.0), (0.25, True, 0.2, 0.5)]
)
def test_what_a_machine_took_moves_what_is_expected_of_it(times, decided, least, most):
    seen = [Seen(times, decided)] * 5
    assert least < factor_of(seen) < most
    assert factor_of([Seen(1.0, True), Seen(1.0, False)]) == pytest.approx(1.0)
    assert abs(factor_of(seen[:1]) - 1.0) < abs(factor_of(seen) - 1.0)


def kept_run(store, plan, run, *, seconds, decision, ended="time was up: first is next", device="cpu-x"):
    plan = plan.model_copy(update={"seconds": 10.0, "decided_s": 146.0})
    result = ModelResult(
        model="small", device=device, run=run, decision=decision, speedup=None, baseline="", eager_speedup=None,
        expected=(1.0, 1.1, 1.2), regions=(), ended=ended, seconds=seconds,
    )  # fmt: skip
    store.keep(MODEL_RESULT, result.origin, {result.origin: result.to_json()})
    keep_metadata(store, MODEL_PLAN, result.origin, plan)


def test_attempts_are_read_from_the_store(tmp_path, small_plan):
    with Store(tmp_path) as store:
        late, found = DecisionStatus.INCONCLUSIVE, DecisionStatus.IMPROVED
        kept_run(store, small_plan.plan, "r1", seconds=10.0 + 20 * PLANS, decision=late)
        kept_run(store, small_plan.plan, "r2", seconds=10.0 + 5 * PLANS, decision=found)
        kept_run(store, small_plan.plan, "r3", seconds=100.0, decision=late, ended="nothing left")
        kept_run(store, small_plan.plan, "r4", seconds=100.0, decision=found, device="another")
        seen = seen_in(store, "cpu-x")
    assert [(round(one.times, 6), one.decided) for one in seen] == [(2.0, False), (0.5, True)]


def test_a_plan_tells_what_can_be_decided_in_its_minutes(small_plan, capsys):
    idle = [row.model_copy(update={"cost_s": 40.0}) for row in small_plan.plan.regions]
    rows, whole = planning._stretched(idle, small_plan.plan.whole, 300.0, 5.0, 240.0)
    assert all(row.cost_s == 200.0 and row.chance < 0.5 for row in rows) and 0.2 < whole.chance < 0.4
    made = small_plan.plan.model_copy(
        update={"regions": tuple(rows), "whole": whole, "decided_s": 300.0, "chance": whole.chance}
    )
    _print(made)
    told = capsys.readouterr().out
    assert f"a decision takes about 300 s more here: {whole.chance:.0%} within the minutes" in told
    assert "decided" in told and f"{rows[0].chance:.0%}" in told


def test_what_cannot_be_decided_is_not_chosen(small_plan):
    time_us = small_plan.plan.time_us
    large, small = (
        Gain(low=0.0, expected=time_us * share, high=2 * time_us * share) for share in (0.5, 0.05)
    )
    whole = small_plan.plan.whole.model_copy(update={"gain": large})
    regions = [row.model_copy(update={"gain": small, "cost_s": 30.0}) for row in small_plan.plan.regions]

    def chosen(cost_s):
        return planning._chosen(
            regions, small_plan.regions, whole.model_copy(update={"cost_s": cost_s}), time_us, 240.0
        )  # fmt: skip

    assert chosen(60.0)["whole"].chosen and not chosen(2000.0)["whole"].chosen
    assert any(row.chosen for row in chosen(2000.0)["regions"])
    slow = [row.model_copy(update={"cost_s": 150.0}) for row in regions]
    late = planning._chosen(slow, small_plan.regions, None, time_us, 240.0)
    assert not any(row.chosen for row in late["regions"]), "150 s of 144 that regions get"


def test_runs_that_tell_no_minutes_are_left_out():
    rows = [{"model": "a", "plan_s": 10.0, "decision": "improved"}, {"model": "b", "error": "no answer"}]
    assert not runs_of("\n".join(map(json.dumps, rows)))
    told = {"model": "a", "plan_s": 13.5, "decision": "equal", "command": "x --minutes 4; y"}
    ((model, plans, decided),) = runs_of(json.dumps(told))
    assert (model, decided) == ("a", True) and plans == pytest.approx(226.5 / 10.0)
