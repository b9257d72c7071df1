"""The search on planted truths: candidates whose time and faults are written in them."""

import itertools

import pytest

from kernelwright.records import CheckStatus, Decision, DecisionStatus, Finding, Interval, WorkloadDecision
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Scheduler, Trial
from kernelwright.search.session._limit import at_limit
from kernelwright.search.session._session import best_of
from kernelwright.search.tuners import make_tuner
from kernelwright.store import Store
from kernelwright.testing import (
    PlantedJudge,
    PlantedLanguage,
    PlantedTemplate,
    planted_candidate,
)

from .rig import TILES, Rig, tiles


def test_finds_the_best_configuration_and_accepts_it(store):
    rig = Rig(store, [tiles()], evaluations=40)
    outcome = rig.go()
    assert outcome.accepted
    assert outcome.best.candidate.parameters == {"tile": 11, "unroll": 2}
    assert outcome.best.stage == "full" and outcome.best.decision.confirmed
    assert rig.judge.accepted == [outcome.best.candidate.key]
    assert rig.result.time_us == pytest.approx(60.0)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_evaluations_stop_exactly(store, most):
    rig = Rig(store, [tiles(), planted_candidate(80.0)], evaluations=most)
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


def test_a_search_for_so_many_evaluations_makes_them_at_a_bound_too(store):
    """The bound may be too high: it is measured once, on a machine that may have been busy."""
    at_bound, other = (
        PlantedTemplate(name, TILES, lambda c, us=us: us + 0.001 * c["tile"], {"tile": 1, "unroll": 1})
        for name, us in (("bound", 20.0), ("other", 90.0))
    )
    rig = Rig(store, [at_bound, other], judge=PlantedJudge(bound_us=19.9), evaluations=30)
    rig.scheduler = Scheduler(
        iter([at_bound, other]), lambda space: make_tuner("local", space, 3), patience=4, ends_at_bound=False
    )
    rig.go()
    names = [e.candidate.template for e in rig.outcome.evaluations]
    assert len(names) > 10 and names[:2] == ["bound", "other"]
    assert names[-1] == "bound" and "bound" not in names[1:5]


def timed(time_us, **fault):
    return planted_candidate({"n=4": time_us}, **fault)


@pytest.mark.parametrize(("bound_us", "screened"), [(45.1, 1), (44.0, 3), (70.0, 3)])
def test_a_search_ends_where_the_best_time_is_at_the_limit(store, bound_us, screened):
    """From 0.9 of what is attainable on; a bound that is far above a time is wrong, and ends nothing."""
    others = [timed(float(time_us)) for time_us in (50, 60, 70)]
    rig = Rig(store, others, judge=PlantedJudge(bound_us=bound_us), minutes=5.0)
    rig.go()
    assert len(rig.judge.screened) == screened and rig.outcome.accepted
    said = [data["message"] for event, data in rig.events if event == "limit"]
    assert said == ["at the limit: a kernel takes 1.11 times what is attainable on n=4"] * (screened == 1)


def test_a_time_that_is_short_by_luck_is_not_at_the_limit():
    """The native op takes 100 us and once 50, next to kernels as fast as it is; 48 are attainable."""

    def decision(native_us):
        one = WorkloadDecision(
            workload="w", speedup=Interval(median=1.0), time_us=native_us, baseline_us=native_us, baseline="eager",
            bound_us=48.0,
        )  # fmt: skip
        return Decision(candidate="k", status=DecisionStatus.INCONCLUSIVE, reason="", workloads=(one,))

    assert at_limit([decision(100.0), decision(50.0), decision(101.0)], ["w"]) is None
    assert at_limit([decision(50.0), decision(51.0)], ["w"])
    assert at_limit([decision(50.0)], ["w", "v"]) is None, "nothing is known of the other"


def test_a_kernel_that_is_wrong_in_full_ends_no_search(store):
    """What passes a screening and reaches the limit is verified in full before the search ends with it."""
    candidates = [timed(50.0, fault="vet"), timed(60.0), timed(70.0)]
    rig = Rig(store, candidates, judge=PlantedJudge(bound_us=49.0), minutes=5.0)
    rig.go()
    assert len(rig.judge.screened) == 3 and rig.outcome.stopped_by != "the device's limit"


def test_a_native_op_at_the_limit_ends_a_search_and_is_told(store):
    judge = PlantedJudge(bound_us=95.0)
    rig = Rig(store, [timed(130.0), timed(120.0)], judge=judge, minutes=5.0)
    rig.go()
    assert (len(rig.judge.screened), rig.outcome.stopped_by) == (1, "the device's limit")
    assert rig.result.reason.endswith("; at the limit: eager takes 1.05 times what is attainable on n=4")
    whole = Rig(store, [timed(140.0), timed(150.0)], judge=PlantedJudge(bound_us=95.0), evaluations=2)
    assert whole.go().stopped_by == "evaluations", "so many were asked for"


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


class Unsure(PlantedJudge):
    """A screening decides nothing."""

    def screen(self, candidate, build, **limits):
        seen = super().screen(candidate, build, **limits)
        unsure = seen.decision.model_copy(update={"status": DecisionStatus.INCONCLUSIVE})
        return seen.model_copy(update={"decision": unsure})


def test_where_none_promises_a_gain_the_best_is_decided(store):
    near, far = planted_candidate(105.0), planted_candidate(150.0)
    rig = Rig(store, [far, near], judge=Unsure())
    outcome = rig.go()
    assert rig.judge.accepted == [near.key] and not outcome.accepted
    assert outcome.best.candidate == near and rig.result.decision is DecisionStatus.SLOWER
    known = next(e for e in outcome.evaluations if e.candidate == far)
    closer = known.decision.model_copy(update={"speedup": Interval(median=0.99), "workloads": ()})
    screened = known.model_copy(update={"decision": closer})
    assert best_of((outcome.best, screened)) == outcome.best, "0.99 of a screening does not outdo a decision"
    promising = closer.model_copy(update={"speedup": Interval(median=1.2)})
    assert best_of((outcome.best, one := known.model_copy(update={"decision": promising}))) == one


def test_where_one_promises_a_gain_no_other_is_decided_without(store):
    good, near = planted_candidate(60.0), planted_candidate(105.0)
    rig = Rig(store, [near, good], judge=Unsure())
    assert rig.go().accepted and rig.judge.accepted == [good.key]


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


def test_the_first_trial_waits_for_no_other(store):
    with Builder({"planted": PlantedLanguage()}, width=2) as builder:
        batches, cost_us = [], itertools.count(50)
        for _ in range(3):
            while builder.hungry:
                builder.give(Trial(planted_candidate(next(cost_us))), known=False)
            batches.append(len(builder))
            builder.take()
    assert batches == [1, 2, 2], "alone at first, then the next is built while one is verified"


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
