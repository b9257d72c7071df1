"""Candidates that were executed and not timed: ordered by modelled times, which claim nothing."""

import pytest

from kernelwright.cli._console import result_text
from kernelwright.propose._feedback import shown
from kernelwright.records import DecisionStatus
from kernelwright.search.archives import Scored
from kernelwright.search.evaluation._evaluation import costs_us
from kernelwright.search.tuners._per_workload import TOGETHER
from kernelwright.testing import (
    PlantedJudge,
    PlantedLanguage,
    planted_candidate,
    planted_task,
)

from .rig import Rig


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
