"""The search on planted truths: candidates whose time and faults are written in them."""

import itertools
from types import SimpleNamespace

import pytest

from kernelwright.cli._console import result_text
from kernelwright.propose._feedback import shown
from kernelwright.records import Budget, CheckStatus, DecisionStatus, Finding, Parameter, Space
from kernelwright.search.archives import Scored
from kernelwright.search.evaluation._evaluation import Evaluator, costs_us
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Scheduler, Trial
from kernelwright.search.run._budget import Meter
from kernelwright.search.session._result import result_of
from kernelwright.search.session._session import Session
from kernelwright.search.tuners import make_tuner
from kernelwright.search.tuners._per_workload import TOGETHER
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

    def __init__(
        self, store, proposals, *, run=None, judge=None, overlap=False, clock=None, workloads=None, **budget
    ):
        self.store, self.events = store, []
        self.judge = judge or PlantedJudge()
        self.language = PlantedLanguage()
        limits = Budget(**budget) if budget else Budget(evaluations=20)
        task = planted_task(workloads=workloads)
        self.run = run or store.create_run(task, device="cpu-1", budget=limits, seed=3)
        spent = store.spent(self.run.id)
        self.meter = Meter(self.run.budget, spent, **({"clock": clock} if clock else {}))
        self.languages = {"planted": self.language}
        self.scheduler = Scheduler(iter(proposals), lambda space: make_tuner("local", space, self.run.seed))
        self.overlap = overlap

    def go(self):
        evaluator = Evaluator(self.run, self.store, self.judge, self.languages, self.meter)
        with Builder(self.languages, width=2, overlap=self.overlap) as builder:
            session = Session(self.scheduler, builder, evaluator, self.meter, self.emit)
            self.outcome = session.run()
        return self.outcome

    def emit(self, event, **data):
        self.events.append((event, data))

    @property
    def result(self):
        cut = [data["message"] for event, data in self.events if event == "budget"]
        return result_of(self.run, self.outcome, self.meter, None, cut, cut)


@pytest.mark.parametrize("overlap", [False, True])
def test_finds_the_best_configuration_and_accepts_it(store, overlap):
    rig = Rig(store, [tiles()], evaluations=40, overlap=overlap)
    outcome = rig.go()
    assert outcome.accepted
    assert outcome.best.candidate.parameters == {"tile": 11, "unroll": 2}
    assert outcome.best.stage == "full" and outcome.best.decision.confirmed
    assert rig.judge.accepted == [outcome.best.candidate.key]
    assert rig.result.time_us == pytest.approx(60.0)


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


def test_the_result_says_why_nothing_better_came_of_it(store):
    rig = Rig(store, [planted_candidate(10.0, fault="verify")], evaluations=2)
    rig.go()
    assert rig.result.reason == rig.outcome.best.decision.reason != ""
    rig = Rig(store, [], evaluations=2)
    rig.go()
    assert rig.result.reason == "nothing was evaluated: stopped by nothing left to try"
    rig = Rig(store, [planted_candidate(50.0)], evaluations=2)
    assert rig.go().accepted and rig.result.reason == ""


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


def test_one_that_is_wrong_at_other_sizes_makes_room_for_the_next_best(store):
    class Widening(PlantedJudge):
        def widen(self, accepted, **limits):
            super().widen(accepted, **limits)
            if accepted.candidate != odd:
                return accepted
            refused = accepted.decision.model_copy(update={"status": DecisionStatus.REJECTED})
            stages = accepted.stages_s | {"sizes": 2.0}
            return accepted.model_copy(update={"decision": refused, "stages_s": stages})

    odd, right = planted_candidate(20.0), planted_candidate(60.0)
    rig = Rig(store, [odd, right], judge=Widening())
    outcome = rig.go()
    assert rig.judge.accepted == rig.judge.widened == [odd.key, right.key]
    assert outcome.best.candidate == right and outcome.accepted
    assert rig.meter.stages_s["sizes"] == 2.0
    stored = {e.candidate.key: e.decision.status for e in store.evaluations(rig.run.id)}
    assert stored[odd.key] == "rejected"


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
        ({"minutes": 3.0, "search_minutes": 1.0}, 40.0, 3, 90.0),
        ({"minutes": 3.0}, 0.0, 9, 110.0),
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


def test_the_first_that_a_degenerate_task_keeps_from_acceptance_is_the_last(store):
    class Degenerate(PlantedJudge):
        def accept(self, candidate, build, **limits):
            final = super().accept(candidate, build, **limits)
            fault = Finding(
                check="admission", status=CheckStatus.UNKNOWN, message="the task is degenerate: zeros"
            )
            verdict = final.verdict.model_copy(update={"findings": (*final.verdict.findings, fault)})
            decision = final.decision.model_copy(update={"status": DecisionStatus.UNKNOWN})
            return final.model_copy(update={"verdict": verdict, "decision": decision})

    rig = Rig(store, [planted_candidate(50.0), planted_candidate(60.0)], judge=Degenerate())
    rig.go()
    assert len(rig.judge.accepted) == 1 and not rig.outcome.accepted
    (said,) = [data["message"] for event, data in rig.events if event == "budget"]
    assert said.startswith("the task is degenerate: zeros: none of its kernels can be accepted")


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
    assert 1 <= outcome.failures["correct"] <= 5, "once to see that it is wrong, then only for want of others"
    assert len(rig.judge.vetted) == outcome.failures["correct"] + 1


def test_templates_that_are_alike_are_not_each_verified_in_full(store):
    def template(name, time_us):
        return PlantedTemplate(name, TILES, lambda c: time_us, {"tile": 1, "unroll": 1})

    alike = [template(f"alike {i}", 50.0 - i / 10) for i in range(4)]
    rig = Rig(store, [*alike, template("better", 20.0)], evaluations=5)
    names = {e.candidate.key: e.candidate.template for e in rig.go().evaluations}
    assert [names[key] for key in rig.judge.vetted] == ["alike 0", "better"]


@pytest.mark.parametrize(("verify_s", "vetted"), [(1.0, 1), (9.0, 0)])
def test_where_verifying_takes_long_it_is_left_to_the_acceptance(store, verify_s, vetted):
    class Slow(PlantedJudge):
        def screen(self, candidate, build, **given):
            found = super().screen(candidate, build, **given)
            return found.model_copy(update={"stages_s": {"verify": verify_s}})

    rig = Rig(store, [tiles()], judge=Slow(), clock=lambda: 0.0, minutes=2.0, evaluations=1)
    assert rig.go().accepted and len(rig.judge.vetted) == vetted


def test_the_time_kept_for_the_acceptance_follows_what_its_stages_took():
    def kept_s(minutes, **stages_s):
        meter = Meter(Budget(minutes=minutes), Spent(), clock=lambda: 0.0)
        meter.charge(evaluation_of(stages_s))
        return meter.left_s() - meter.left_to_explore_s()

    assert kept_s(1) == 15.0 and kept_s(10) == 90.0
    assert kept_s(1, verify=4.0, baselines=13.0) == 21.0
    assert kept_s(1, verify=4.0, baselines=13.0, screen=1.5) == 27.0
    assert kept_s(1, precompute=3.0, verify=1.0, baselines=13.0) == 21.0
    assert kept_s(1, verify=30.0) == 30.0 and kept_s(10, verify=300.0) == 90.0


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


SIZES = {"small": 4, "large": 8}


def test_each_workload_is_accepted_for_who_is_best_on_it(store):
    """The second is better on one workload by far; there it is put to acceptance too, and serves it."""
    even, special = (
        planted_candidate({"small": 50.0, "large": 60.0}),
        planted_candidate({"small": 300.0, "large": 40.0}),
    )
    rig = Rig(store, [even, special], workloads=SIZES)
    outcome = rig.go()
    assert {name: e.candidate for name, e in outcome.served.items()} == {"small": even, "large": special}
    assert rig.judge.asked == [(even.key, ("small", "large"), 4), (special.key, ("large",), 4)]
    assert rig.result.decision is DecisionStatus.IMPROVED
    assert rig.result.speedup.median == pytest.approx((2 * 2.5) ** 0.5)
    assert rig.result.time_us == pytest.approx((50 * 40) ** 0.5)


def test_a_workload_that_stays_native_counts_as_one(store):
    only = planted_candidate({"small": 25.0, "large": 400.0})
    rig = Rig(store, [only], workloads=SIZES)
    outcome = rig.go()
    assert list(outcome.served) == ["small"] and rig.judge.asked[0][1] == ("small",)
    assert rig.result.decision is DecisionStatus.IMPROVED
    assert rig.result.speedup.median == pytest.approx(2.0)
    assert rig.result.speedup.low < 2.0 < rig.result.speedup.high


def test_a_second_kernel_must_promise_more_than_noise(store):
    first, second = (
        planted_candidate({"small": 50.0, "large": 50.0}),
        planted_candidate({"small": 70.0, "large": 49.0}),
    )
    rig = Rig(store, [first, second], workloads=SIZES)
    rig.go()
    assert rig.judge.accepted == [first.key]


def test_where_the_best_fails_another_serves_its_workloads(store):
    liar = planted_candidate({"small": 20.0, "large": 20.0}, fault="accept")
    honest = planted_candidate({"small": 60.0, "large": 110.0})
    rig = Rig(store, [liar, honest], workloads=SIZES)
    assert {name: e.candidate for name, e in rig.go().served.items()} == {"small": honest}


def test_kernels_of_an_earlier_run_are_put_together_again(store):
    pair = [
        planted_candidate({"small": 50.0, "large": 60.0}),
        planted_candidate({"small": 300.0, "large": 40.0}),
    ]
    first, again = (Rig(store, pair, workloads=SIZES) for _ in range(2))
    assert first.go().served.keys() == again.go().served.keys() == SIZES.keys()
    assert again.judge.screened == [] and again.result.speedup == first.result.speedup


def test_the_first_trial_waits_for_no_other(store):
    with Builder({"planted": PlantedLanguage()}, width=2, overlap=False) as builder:
        batches, cost_us = [], itertools.count(50)
        for _ in range(3):
            while builder.hungry:
                builder.give(Trial(planted_candidate(next(cost_us))), known=False)
            batches.append(len(builder))
            builder.take()
    assert batches == [1, 2, 1], "alone at first, then full batches"


def test_no_build_is_given_longer_than_is_left(store):
    given = []

    class Asking(PlantedLanguage):
        def build(self, candidate, *, deadline_s=120.0):
            given.append(deadline_s)
            return super().build(candidate, deadline_s=deadline_s)

    with Builder({"planted": Asking()}, width=1, overlap=False, left_s=lambda: 7.0) as builder:
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


def test_a_template_that_fails_to_render_costs_that_candidate_alone(store):
    def cost(configuration):
        if configuration["tile"] % 2:
            raise KeyError("no such tile")
        return 100.0 - configuration["tile"]

    rig = Rig(store, [PlantedTemplate("odd", TILES, cost, {"tile": 1, "unroll": 1})], evaluations=30)
    outcome = rig.go()
    assert outcome.accepted and outcome.failures["build-failed"] > 1
    first = outcome.evaluations[0]
    assert first.candidate.parameters == {"tile": 1, "unroll": 1} and first.stage == "build"
    assert "'odd' was not rendered: KeyError: 'no such tile' (test_session.py, line" in first.decision.reason


def test_what_nothing_times_is_ordered_by_its_modelled_time_and_claims_nothing(store):
    found = {us: planted_candidate(us, fault="executed") for us in (40.0, 8.0, 20.0)}
    wrong = planted_candidate(2.0, fault="verify")
    rig = Rig(store, [wrong, *found.values()], evaluations=9)
    outcome = rig.go()
    assert rig.judge.accepted == [found[8.0].key]  # one is verified in full: the first
    assert outcome.best.candidate == found[8.0] and not outcome.accepted
    result = rig.result
    assert (result.executed, result.kernel, result.speedup, result.time_us) == (
        found[8.0].key,
        None,
        None,
        None,
    )
    assert result.decision is DecisionStatus.UNKNOWN and result.failures == {"correct": 1}
    assert f"of 3 right candidates {found[8.0].key}, verified in full, is the first" in result.reason
    assert "modelled for a planted GPU, not timed: 4 to 16 us" in result_text(result)
    assert "bundle" in result_text(result) and "improved" not in result_text(result)


def test_what_is_found_wrong_in_full_gives_way_to_the_next(store):
    wrong, right = planted_candidate(4.0, fault="executed-accept"), planted_candidate(9.0, fault="executed")
    rig = Rig(store, [wrong, right], evaluations=9)
    assert rig.go().best.candidate == right
    assert rig.judge.accepted == [wrong.key, right.key]
    assert [data["candidate"] for event, data in rig.events if event == "executed"] == [wrong.key, right.key]


def test_what_was_timed_comes_before_what_was_only_executed(store):
    timed, executed = planted_candidate(150.0), planted_candidate(3.0, fault="executed")
    rig = Rig(store, [executed, timed], evaluations=9)
    assert rig.go().best.candidate == timed
    assert rig.result.executed == "" and executed.key not in rig.judge.accepted


def test_a_tuner_goes_by_modelled_times(store):
    executed = planted_candidate(8.0, fault="executed")
    evaluation = PlantedJudge().screen(executed, PlantedLanguage().build(executed))
    assert costs_us(evaluation, 100.0) == {TOGETHER: pytest.approx(8.0)}
    faster = PlantedJudge().screen(
        planted_candidate(4.0, fault="executed"), PlantedLanguage().build(executed)
    )
    assert Scored.of(faster).merit > Scored.of(evaluation).merit
    assert Scored.of(faster).told == "modelled for a planted GPU, not timed: 2 to 8 us"


def test_a_proposer_is_told_that_it_is_modelled(store):
    executed = planted_candidate(8.0, fault="executed")
    task = planted_task()
    told = shown(PlantedJudge().screen(executed, PlantedLanguage().build(executed)), task, ())
    assert told.works and "not timed" in told.standing
    assert told.times[0].startswith("on n=4, modelled for a planted GPU, not timed: 4 to 16 us, most by dram")
