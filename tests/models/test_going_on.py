"""A run that goes on after a loss, regions held against the model's best native form, and time that is too short."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.models.world import planted_world, tasks_of

from kernelwright.cli._model import model_text
from kernelwright.models import _optimize, _whole_judge
from kernelwright.models._native_forms import fastest_of, forms_of, held_against
from kernelwright.records import DecisionStatus
from kernelwright.store import Store

FREEZING = "compile-max-autotune-freezing"


@pytest.fixture
def world(monkeypatch, tmp_path, small_plan):
    return planted_world(monkeypatch, tmp_path, small_plan)


def blocks(*rounds):
    """Return an evaluation with these microseconds of each way in each block."""
    return SimpleNamespace(
        timing=SimpleNamespace(blocks=[SimpleNamespace(times_us=t, repeated=False) for t in rounds])
    )


def test_the_fastest_native_form_is_that_of_the_paired_blocks():
    slow = {"candidate": 30.0, "eager": 36.0, "compile": 30.0, FREEZING: 24.0}
    fast = {"candidate": 10.0, "eager": 12.0, "compile": 10.0, FREEZING: 8.0}
    alone = {"candidate": 10.0, "eager": 1.0}
    forms = forms_of(blocks(slow, fast, fast, alone))
    assert forms[FREEZING] == pytest.approx(0.8) and fastest_of(forms) == FREEZING
    assert held_against(FREEZING, ("eager", FREEZING)) == ("eager", "compile", FREEZING)
    assert not forms_of(SimpleNamespace(timing=None))


def timed_natives(monkeypatch, **forms):
    monkeypatch.setattr(_whole_judge, "forms_in", lambda *_: forms)


def test_a_region_whose_best_native_form_is_freezing_is_held_against_it(world, small_plan, monkeypatch):
    names = tasks_of(small_plan)
    timed_natives(monkeypatch, **{"eager": 1.0, "compile": 0.9, FREEZING: 0.7})
    world.found, world.effects = {names["norms.0"]: 1.5, names["layers.0"]: 1.3}, {"layers.0": 0.3}
    world.beaten_by = {names["norms.0"]: FREEZING}
    result = world.optimize(small_plan.loaded)
    assert set(world.held_against) == {("eager", "compile", FREEZING)} and world.native_asked == 1
    outcomes = {r.label: r for r in result.regions}
    assert outcomes["norms.0"].speedup is None, "it beats eager and compile alone, and is not accepted"
    assert result.improved and outcomes["layers.0"].kept
    assert all("norms.0" not in labels for _, labels in world.asked), "the whole is not judged with it"
    told = [e.data["message"] for e in world.events if e.event == "region"]
    assert any(
        t.startswith(f"the model's best native form is {FREEZING}; ") and "builds the weights in" in t
        for t in told
    )

    world.optimize(small_plan.loaded)
    assert world.native_asked == 1 and len(world.held_against) == 2, (
        "what was timed is kept, and searches taken over"
    )


@pytest.mark.parametrize("baselines", [("eager", "compile"), ("eager",)])
def test_nothing_is_timed_first_where_regions_are_held_against_all_forms_anyway(world, small_plan, baselines):
    world.optimize(small_plan.loaded, baselines=baselines)
    assert not world.native_asked and set(world.held_against) == {("eager", "compile")}


def test_where_no_form_is_known_as_the_fastest_regions_are_held_against_all(world, small_plan, monkeypatch):
    monkeypatch.setattr(_optimize, "forms_in", lambda *_: {"eager": 1.0})
    world.optimize(small_plan.loaded)
    assert world.native_asked == 1 and set(world.held_against) == {("eager", "compile", FREEZING)}
    slow = small_plan.plan.model_copy(update={"decided_s": 600.0})
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: replace(small_plan, plan=slow))
    world.store = world.folder / "no time to measure"
    timed_natives(monkeypatch, **{"eager": 1.0, "compile": 0.9, FREEZING: 1.2})
    world.optimize(small_plan.loaded, minutes=6.0)
    assert world.native_asked == 1 and set(world.held_against[2:]) == {("eager", "compile", FREEZING)}
    world.store = world.folder / "time to measure"
    world.optimize(small_plan.loaded, minutes=20.0)
    assert world.native_asked == 2 and world.held_against[-1] == ("eager", "compile")


def test_native_forms_that_the_search_of_the_whole_timed_are_not_timed_again(world, small_plan, monkeypatch):
    monkeypatch.setattr(_optimize, "forms_in", lambda *_: {"eager": 1.0, FREEZING: 0.5})
    world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    assert not world.native_asked and world.held_against[1:] == [("eager", "compile", FREEZING)] * 2


def test_having_lost_end_to_end_the_run_goes_on_where_something_is_expected(world, small_plan, monkeypatch):
    names, searched = tasks_of(small_plan), []
    first = "norms.0"
    rows = {r.label: r for r in small_plan.plan.regions}
    other = rows["layers.0"].model_copy(update={"cost_s": 400.0})
    plan = small_plan.plan.model_copy(update={"regions": (rows[first], other)})
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: replace(small_plan, plan=plan))
    world.found, world.effects = {names[first]: 1.5, names["layers.0"]: 1.4}, {first: -0.2, "layers.0": 0.3}
    search = world.search
    world.search = lambda task, **more: searched.append((task.name, len(world.asked))) or search(task, **more)
    result = world.optimize(small_plan.loaded, minutes=10.0)
    assert [name for name, _ in searched] == [names[first], names["layers.0"]]
    assert searched[0][1] == 0 and searched[1][1] > 0, (
        "minutes that were kept for the verdict are searched in afterwards"
    )
    outcomes = {r.label: r for r in result.regions}
    assert result.improved and outcomes["layers.0"].kept and not outcomes[first].kept
    assert result.ended == "a faster program was accepted" and outcomes[first].speedup == 1.5


def test_a_search_that_lost_says_why_it_ends_and_what_was_measured_last(world, small_plan, monkeypatch):
    names = tasks_of(small_plan)
    world.found, world.effects = (
        {names["norms.0"]: 1.5, names["layers.0"]: 1.2},
        {"norms.0": -0.2, "layers.0": -0.3},
    )
    result = world.optimize(small_plan.loaded)
    assert result.ended == "nothing left with an expected gain"
    assert (
        not result.improved
        and result.decision is DecisionStatus.INCONCLUSIVE
        and not any(r.kept for r in result.regions)
    )
    assert result.speedup.median == pytest.approx(0.8) and result.baseline == "compile" and result.run == "r1"
    assert result.eager_speedup == 1.5 and '"median":' in result.line()
    told = model_text(result)
    assert "nothing better found; 0.80" in told and "ended     nothing left with an expected gain" in told
    assert len(world.searched) == 2 and len(world.asked) == len(set(world.asked)), "no set is judged twice"


def test_a_full_verdict_counts_more_than_a_screening_that_was_faster(world, small_plan):
    names = tasks_of(small_plan)
    world.found, world.effects, world.final = {names["norms.0"]: 1.5}, {"norms.0": 0.4}, DecisionStatus.EQUAL
    result = world.optimize(small_plan.loaded)
    assert result.decision is DecisionStatus.EQUAL and result.reason == "planted"


def test_a_run_that_time_ended_says_what_was_left_and_for_how_long(world, small_plan, monkeypatch):
    rows = tuple(r.model_copy(update={"cost_s": 500.0}) for r in small_plan.plan.regions)
    plan = small_plan.plan.model_copy(update={"regions": rows})
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: replace(small_plan, plan=plan))
    result = world.optimize(small_plan.loaded, minutes=4.0)
    assert result.ended.startswith("time was up: ") and "is worth a search of 500 s, and 14" in result.ended
    assert not world.searched


def test_what_cannot_be_decided_in_the_minutes_is_not_begun(world, small_plan, monkeypatch):
    slow = small_plan.plan.model_copy(update={"decided_s": 700.0, "seconds": 65.0})
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: replace(small_plan, plan=slow))
    result = world.optimize(small_plan.loaded, proposers=("library", "schedule"), minutes=4.0)
    assert not world.searched and not world.native_asked and not result.improved
    assert "a decision takes about 700 s more here" in result.reason and "allow --minutes 19" in result.reason
    world.optimize(small_plan.loaded, proposers=("library", "schedule"), minutes=19.0)
    assert world.searched[0] == "small_whole"
    with Store(world.store) as store:
        assert store.runs()
