"""Time and budgets: what begins, what is kept for the acceptance, what is counted."""

import itertools
from types import SimpleNamespace

import pytest

from kernelwright.records import Block, Budget, DecisionStatus, Timing
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.run._budget import Meter
from kernelwright.store import Spent
from kernelwright.testing import (
    PlantedJudge,
    PlantedLanguage,
    planted_candidate,
)

from .rig import Rig, tiles


def test_minutes_keep_a_reserve_for_acceptance(store):
    ticks = itertools.count(0.0, 1.0)
    rig = Rig(store, [tiles()], minutes=2.0, clock=lambda: next(ticks))
    rig.go()
    assert rig.outcome.stopped_by == "minutes"
    assert rig.outcome.accepted
    assert len(rig.outcome.evaluations) > 1


class Clocked(PlantedJudge):
    """Takes ten seconds a candidate, the first one thirty, by a clock of its own."""

    now = 0.0

    def screen(self, candidate, build, **limits):
        took_s = 10.0 if self.screened else 30.0
        self.now += took_s
        found = super().screen(candidate, build, **limits)
        stages = {"verify": 7.0, "screen": 3.0, "precompute": took_s - 10.0}
        return found.model_copy(update={"stages_s": stages})


@pytest.mark.parametrize(
    ("limits", "before_s", "screened", "until_s"),
    [
        ({"minutes": 3.0, "search_minutes": 1.0}, 0.0, 3, 50.0),
        ({"minutes": 3.0, "search_minutes": 1.0}, 40.0, 2, 80.0),
        ({"minutes": 3.0}, 0.0, 6, 80.0),
        ({"search_minutes": 1.5}, 0.0, 6, 80.0),
    ],
)
def test_no_candidate_begins_that_would_pass_the_time_for_searching(
    store, limits, before_s, screened, until_s
):
    """Each takes ten seconds: what would end in the limit's last second, or past it, is not begun."""
    judge = Clocked()
    rig = Rig(store, [tiles()], judge=judge, clock=lambda: judge.now, **limits)
    judge.now = before_s
    rig.go()
    assert (len(judge.screened), rig.outcome.stopped_by) == (screened, "minutes")
    assert judge.now == until_s and rig.outcome.accepted


def test_what_the_first_candidate_is_held_to_is_worked_out_once_while_it_is_built(store):
    events = []

    class Watched(PlantedJudge):
        def precompute(self):
            events.append("precompute")

        def screen(self, candidate, build, **limits):
            events.append("screen")
            return super().screen(candidate, build, **limits)

    candidates = [planted_candidate(float(time_us)) for time_us in (50, 60, 70)]
    Rig(store, candidates, judge=Watched()).go()
    assert events == ["precompute", "screen", "screen", "screen"]
    again = Rig(store, candidates)
    again.go()
    assert again.judge.screened == [] and again.judge.precomputed == 0, "what is known already needs nothing"


def test_device_seconds_stop(store):
    rig = Rig(store, [tiles()], device_seconds=4.0)
    rig.go()
    assert rig.outcome.stopped_by == "device seconds"
    assert len(rig.judge.screened) == 6
    assert rig.outcome.accepted


def test_nothing_is_accepted_of_a_budget_that_is_spent(store):
    rig = Rig(store, [planted_candidate(50.0)], device_seconds=0.4)
    rig.go()
    assert len(rig.judge.screened) == 1 and rig.judge.accepted == []
    assert not rig.outcome.accepted
    assert rig.result.reason.endswith("; no budget left to accept 1 finalists")
    assert "no budget left" in next(data["message"] for event, data in rig.events if event == "budget")


def test_no_acceptance_begins_that_would_take_longer_than_what_is_left(store, monkeypatch):
    class Last(PlantedJudge):
        def accept(self, candidate, build, **limits):
            final = super().accept(candidate, build, **limits)
            monkeypatch.setattr(rig.meter, "left_s", lambda: final.time_s - 0.1)
            return final

    rig = Rig(store, [planted_candidate(50.0, fault="accept"), planted_candidate(60.0)], judge=Last())
    rig.go()
    assert len(rig.judge.accepted) == 1
    assert "no budget left" in next(data["message"] for event, data in rig.events if event == "budget")


@pytest.mark.parametrize(("left_s", "accepted"), [(12.5, 2), (11.5, 1)])
def test_the_next_acceptance_needs_time_for_first_looks_alone(store, monkeypatch, left_s, accepted):
    """The first took 30 s: 20 for 80 rounds, of which 8 may decide."""

    class Long(PlantedJudge):
        def accept(self, candidate, build, **limits):
            final = super().accept(candidate, build, **limits)
            monkeypatch.setattr(rig.meter, "left_s", lambda: left_s)
            block = Block(
                workload="w", order=("candidate",), calls=1, times_us={"candidate": 1.0}, fetch_us={}
            )
            timing = Timing(variants=(), blocks=(block,) * 80, cache="warm", device="planted")
            return final.model_copy(update={"time_s": 30.0, "stages_s": {"measure": 20.0}, "timing": timing})

    rig = Rig(store, [planted_candidate(50.0, fault="accept"), planted_candidate(60.0)], judge=Long())
    rig.go()
    assert len(rig.judge.accepted) == accepted


def test_meter_counts_a_candidate_once_whatever_its_stages():
    meter, judge = Meter(Budget(evaluations=5), Spent()), PlantedJudge()
    candidate = planted_candidate(50.0)
    build = PlantedLanguage().build(candidate)
    meter.charge(judge.screen(candidate, build))
    meter.charge(judge.accept(candidate, build), again=True)
    assert (meter.evaluations, meter.device_s) == (1, 1.0)


@pytest.mark.parametrize(("verify_s", "vetted"), [(1.0, 1), (9.0, 0)])
def test_where_verifying_takes_long_it_is_left_to_the_acceptance(store, verify_s, vetted):
    class Slow(PlantedJudge):
        def screen(self, candidate, build, **given):
            found = super().screen(candidate, build, **given)
            return found.model_copy(update={"stages_s": {"verify": verify_s}})

    rig = Rig(store, [tiles()], judge=Slow(), clock=lambda: 0.0, minutes=2.0, evaluations=1)
    assert rig.go().accepted and len(rig.judge.vetted) == vetted


def test_the_time_kept_for_the_acceptance_follows_what_its_stages_took():
    def kept_s(minutes, promising=True, **stages_s):
        meter = Meter(Budget(minutes=minutes), Spent(), clock=lambda: 0.0)
        meter.promising = promising
        meter.charge(evaluation_of(stages_s))
        return meter.left_s() - meter.left_to_explore_s()

    assert kept_s(1) == 15.0 and kept_s(10) == 90.0
    assert kept_s(2, verify=4.0, baselines=13.0) == 37.0
    assert kept_s(2, verify=4.0, baselines=13.0, screen=1.5) == 50.5
    assert kept_s(2, precompute=3.0, verify=1.0, baselines=13.0) == 37.0
    assert kept_s(1, verify=30.0) == 30.0 and kept_s(10, verify=300.0) == 90.0
    assert kept_s(2, promising=False) == 0.0 and kept_s(2, promising=False, verify=2.0, screen=0.5) == 16.5


@pytest.mark.parametrize(("first_us", "screened"), [(90.0, 9), (200.0, 12)])
def test_only_what_promises_a_gain_is_kept_time_for(store, first_us, screened):
    """The native op takes 100 us; each takes ten seconds, and verifying none."""

    class Slow(Clocked):
        def screen(self, candidate, build, **limits):
            self.now += 10.0
            return PlantedJudge.screen(self, candidate, build, **limits)

    judge = Slow()
    others = [planted_candidate(200.0 + i) for i in range(1, 30)]
    rig = Rig(
        store, [planted_candidate(first_us), *others], judge=judge, clock=lambda: judge.now, minutes=2.0
    )
    rig.go()
    assert len(judge.screened) == screened


def evaluation_of(stages_s):
    return SimpleNamespace(cached=False, device_s=0.0, stages_s=stages_s)


class Hurried(PlantedJudge):
    """Runs out of time while it accepts."""

    def accept(self, candidate, build, **given):
        done = super().accept(candidate, build, **given)
        decision = done.decision.model_copy(update={"status": DecisionStatus.INCONCLUSIVE})
        return done.model_copy(update={"decision": decision, "stage": "screen"})


def test_time_up_before_confirmation_is_inconclusive_and_not_held_against_it(store):
    rig = Rig(store, [planted_candidate(50.0)], judge=Hurried())
    outcome = rig.go()
    assert not outcome.accepted and rig.result.decision is DecisionStatus.INCONCLUSIVE
    assert any("time was up" in data.get("message", "") for _, data in rig.events)
    again = Rig(store, [planted_candidate(50.0)])
    assert again.go().accepted
    assert again.judge.screened == []


def test_the_judge_is_told_how_long_it_has(store):
    given = []

    class Asking(PlantedJudge):
        def accept(self, candidate, build, **named):
            given.append(named["deadline_s"])
            return super().accept(candidate, build, **named)

    ticks = itertools.count(0.0, 1.0)
    Rig(store, [planted_candidate(50.0)], judge=Asking(), minutes=1.0, clock=lambda: next(ticks)).go()
    assert given and all(0 < seconds < 60 for seconds in given)


def test_no_build_is_given_longer_than_is_left(store):
    given = []

    class Asking(PlantedLanguage):
        def build(self, candidate, *, deadline_s=120.0):
            given.append(deadline_s)
            return super().build(candidate, deadline_s=deadline_s)

    with Builder({"planted": Asking()}, width=1, left_s=lambda: 7.0) as builder:
        builder.build(planted_candidate(50.0))
    assert given == [7.0]


def test_seconds_are_counted_by_stage_over_all_that_was_done(store):
    class Staged(PlantedJudge):
        def screen(self, candidate, build, **limits):
            return super().screen(candidate, build, **limits).model_copy(update={"stages_s": {"screen": 2.0}})

        def vet(self, candidate, build, **limits):
            return super().vet(candidate, build, **limits).model_copy(update={"stages_s": {"verify": 3.0}})

        def accept(self, candidate, build, **limits):
            return (
                super().accept(candidate, build, **limits).model_copy(update={"stages_s": {"measure": 5.0}})
            )

    rig = Rig(store, [tiles(), planted_candidate(90.0)], judge=Staged(), evaluations=3)
    rig.go()
    seconds = {"screen": 2.0 * 3, "verify": 3.0 * len(rig.judge.vetted), "measure": 5.0}
    assert rig.meter.stages_s == seconds
    assert next(data for event, data in rig.events if event == "explored")["stages_s"]["screen"] == 6.0
