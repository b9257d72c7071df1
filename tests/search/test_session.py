"""The search on planted truths: candidates whose time and faults are written in them."""

import itertools

import pytest

from kernelwright.records import Budget, DecisionStatus, Parameter, Space
from kernelwright.search._budget import Meter
from kernelwright.search._builder import Builder
from kernelwright.search._evaluation import Evaluator
from kernelwright.search._result import result_of
from kernelwright.search._scheduler import Scheduler
from kernelwright.search._session import Session
from kernelwright.search.tuners import make_tuner
from kernelwright.store import Spent, Store
from kernelwright.testing import (
    PlantedJudge,
    PlantedLanguage,
    PlantedTemplate,
    planted_candidate,
    planted_task,
)

TILES = Space(
    parameters=(
        Parameter(name="tile", values=tuple(range(1, 17))),
        Parameter(name="unroll", values=(1, 2, 4)),
    )
)


def tiles(name="tiles", best=60.0, at=11):
    def cost(c):
        return best + 2 * abs(c["tile"] - at) + 5 * abs(c["unroll"] - 2)

    return PlantedTemplate(name, TILES, cost, {"tile": 1, "unroll": 1})


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


class Rig:
    """One planted run."""

    def __init__(self, store, proposals, *, run=None, judge=None, overlap=False, clock=None, **budget):
        self.store, self.events = store, []
        self.judge = judge or PlantedJudge()
        self.language = PlantedLanguage()
        limits = Budget(**budget) if budget else Budget(evaluations=20)
        self.run = run or store.create_run(planted_task(), device="cpu-1", budget=limits, seed=3)
        spent = store.spent(self.run.id)
        self.meter = Meter(self.run.budget, spent, **({"clock": clock} if clock else {}))
        self.languages = {"planted": self.language}
        self.scheduler = Scheduler(iter(proposals), lambda space: make_tuner("local", space, self.run.seed))
        self.overlap = overlap

    def go(self):
        evaluator = Evaluator(self.run, self.store, self.judge, self.languages, self.meter)
        with Builder(self.languages, width=2, overlap=self.overlap) as builder:
            session = Session(self.scheduler, builder, evaluator, self.meter, self.say)
            self.outcome = session.run()
        return self.outcome

    def say(self, event, **data):
        self.events.append((event, data))

    @property
    def result(self):
        return result_of(self.run, self.outcome, self.meter, None)


@pytest.mark.parametrize("overlap", [False, True])
def test_finds_the_best_configuration_and_accepts_it(store, overlap):
    rig = Rig(store, [tiles()], evaluations=40, overlap=overlap)
    outcome = rig.go()
    assert outcome.accepted
    assert outcome.best.candidate.parameters == {"tile": 11, "unroll": 2}
    assert outcome.best.stage == "full" and outcome.best.decision.confirmed
    assert rig.judge.accepted == [outcome.best.candidate.key]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_evaluations_stop_exactly(store, most, overlap):
    rig = Rig(store, [tiles(), planted_candidate(80.0)], evaluations=most, overlap=overlap)
    rig.go()
    assert rig.meter.evaluations == len(rig.judge.screened) == store.spent(rig.run.id).evaluations == most
    assert rig.outcome.stopped_by == "evaluations"


def test_defaults_and_candidates_before_any_tuning(store):
    plain = [planted_candidate(70.0), planted_candidate(75.0)]
    rig = Rig(store, [tiles("a"), plain[0], tiles("b", best=50.0), plain[1]], evaluations=4)
    rig.go()
    names = [e.candidate.template or e.candidate.key for e in rig.outcome.evaluations]
    assert names == ["a", plain[0].key, "b", plain[1].key]


def test_the_promising_template_gets_most(store):
    rig = Rig(store, [tiles("slow", best=300.0), tiles("fast", best=40.0)], evaluations=30)
    rig.go()
    counts = {n: sum(e.candidate.template == n for e in rig.outcome.evaluations) for n in ("slow", "fast")}
    assert counts["fast"] > 2 * counts["slow"] >= 2


def test_moves_on_from_a_template_at_its_bound(store):
    at_bound = PlantedTemplate("bound", TILES, lambda c: 20.0 + 0.001 * c["tile"], {"tile": 1, "unroll": 1})
    rig = Rig(store, [at_bound], judge=PlantedJudge(bound_us=19.9), evaluations=30)
    rig.go()
    assert len(rig.outcome.evaluations) <= 2
    assert rig.outcome.stopped_by == "nothing left to try"


def test_failures_are_data_and_counted_by_kind(store):
    def cost(c):
        return None if c["tile"] > 4 else 50.0 + c["tile"]

    faulty = PlantedTemplate("faulty", TILES, cost, {"tile": 16, "unroll": 1})
    rig = Rig(
        store, [faulty, planted_candidate(10.0, fault="verify"), planted_candidate(90.0)], evaluations=12
    )
    outcome = rig.go()
    assert outcome.failures["build-failed"] >= 1 and outcome.failures["correct"] == 1
    assert outcome.accepted and outcome.best.decision.time_us >= 50.0


def test_next_best_is_accepted_where_the_best_fails(store):
    liar, honest = planted_candidate(20.0, fault="accept"), planted_candidate(60.0)
    rig = Rig(store, [liar, honest])
    outcome = rig.go()
    assert rig.judge.accepted == [liar.key, honest.key]
    assert outcome.best.candidate == honest and outcome.accepted


def test_nothing_better_is_a_result(store):
    rig = Rig(store, [planted_candidate(150.0), planted_candidate(120.0)])
    outcome = rig.go()
    assert not outcome.accepted and rig.judge.accepted == []
    assert rig.result.decision is DecisionStatus.SLOWER
    assert rig.result.speedup.median == pytest.approx(100 / 120)


def test_nothing_proposed_is_unknown(store):
    rig = Rig(store, [])
    assert rig.go().best is None
    assert rig.result.decision is DecisionStatus.UNKNOWN and rig.result.evaluations == 0


def test_never_claims_improved_without_acceptance(store):
    rig = Rig(store, [planted_candidate(20.0, fault="accept")])
    rig.go()
    assert rig.result.decision is DecisionStatus.REJECTED


def test_same_proposals_for_the_same_seed(tmp_path):
    asked = []
    for name in ("one", "two"):
        with Store(tmp_path / name) as store:
            rig = Rig(store, [tiles("a"), tiles("b", best=70.0)], evaluations=15)
            rig.go()
            asked.append(rig.judge.screened)
    assert asked[0] == asked[1]


def test_known_candidates_are_not_evaluated_again(store):
    first = Rig(store, [tiles()], evaluations=15)
    first.go()
    second = Rig(store, [tiles()], evaluations=15)
    second.go()
    assert set(first.judge.screened).isdisjoint(second.judge.screened)
    assert second.meter.cached == 15 and second.meter.evaluations == len(second.judge.screened)
    assert second.outcome.accepted


def test_a_new_toolchain_is_evaluated_anew(store):
    Rig(store, [planted_candidate(50.0)]).go()
    again = Rig(store, [planted_candidate(50.0)])
    again.languages = {"planted": PlantedLanguage("planted 2")}
    again.go()
    assert len(again.judge.screened) == 1


class Dying(PlantedJudge):
    """Interrupted while it screens the nth candidate."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def screen(self, candidate, build, **limits):
        if len(self.screened) == self.at:
            raise KeyboardInterrupt
        return super().screen(candidate, build, **limits)


def test_interrupt_keeps_everything_and_resume_goes_on(store):
    whole = Rig(store, [tiles()], evaluations=12)
    whole.go()
    with Store(store.folder / "other") as other:
        broken = Rig(other, [tiles()], judge=Dying(at=5), evaluations=12)
        assert broken.go().stopped_by == "interrupted"
        assert len(other.evaluations(broken.run.id)) == 5
        resumed = Rig(other, [tiles()], run=broken.run)
        resumed.go()
        assert broken.judge.screened + resumed.judge.screened == whole.judge.screened
        assert other.spent(broken.run.id).evaluations == 12
        assert resumed.outcome.best == whole.outcome.best


def test_minutes_keep_a_reserve_for_acceptance(store):
    ticks = itertools.count(0.0, 1.0)
    rig = Rig(store, [tiles()], minutes=2.0, clock=lambda: next(ticks))
    rig.go()
    assert rig.outcome.stopped_by == "minutes"
    assert rig.outcome.accepted
    assert len(rig.outcome.evaluations) > 1


def test_device_seconds_stop(store):
    rig = Rig(store, [tiles()], device_seconds=4.0)
    rig.go()
    assert rig.outcome.stopped_by == "device seconds"
    assert len(rig.judge.screened) == 6
    assert rig.outcome.accepted


def test_meter_counts_a_candidate_once_whatever_its_stages():
    meter, judge = Meter(Budget(evaluations=5), Spent()), PlantedJudge()
    candidate = planted_candidate(50.0)
    build = PlantedLanguage().build(candidate)
    meter.charge(judge.screen(candidate, build))
    meter.charge(judge.accept(candidate, build), again=True)
    assert (meter.evaluations, meter.device_s) == (1, 1.0)


def test_progress_says_best_failures_and_eta(store):
    rig = Rig(store, [planted_candidate(50.0), planted_candidate(10.0, fault="build")], evaluations=5)
    rig.go()
    told = [data for event, data in rig.events if event == "evaluation"]
    assert told[-1]["best"]["median"] == 2.0
    assert told[-1]["failures"] == {"build-failed": 1}
    assert told[-1]["eta_s"] >= 0.0
    assert told[0]["fraction_of_bound"] == pytest.approx(0.2)


def test_a_template_that_is_wrong_on_hidden_workloads_is_left_early(store):
    wrong = PlantedTemplate("wrong", TILES, lambda c: 20.0 + c["tile"], {"tile": 1, "unroll": 1})
    wrong.render = lambda c: planted_candidate(20.0 + c["tile"], fault="vet", parameters=dict(c))
    rig = Rig(store, [wrong, tiles("right")], evaluations=30)
    outcome = rig.go()
    assert outcome.accepted and outcome.best.candidate.template == "right"
    assert 1 <= outcome.failures["correct"] <= 4, "once to see that it is wrong, then only for want of others"
    assert len(rig.judge.vetted) == outcome.failures["correct"] + 1


class Hurried(PlantedJudge):
    """Runs out of time while it accepts."""

    def accept(self, candidate, build, *, tried=1, deadline_s=1e9):
        done = super().accept(candidate, build, tried=tried)
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
        def accept(self, candidate, build, *, tried=1, deadline_s=1e9):
            given.append(deadline_s)
            return super().accept(candidate, build, tried=tried)

    ticks = itertools.count(0.0, 1.0)
    Rig(store, [planted_candidate(50.0)], judge=Asking(), minutes=1.0, clock=lambda: next(ticks)).go()
    assert given and all(0 < seconds < 60 for seconds in given)
