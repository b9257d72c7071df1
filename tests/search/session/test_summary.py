"""What an agent is told of a judgement: nothing that passed without a word, nothing twice, nothing empty."""

import json

from kernelwright.records import CheckStatus, Finding
from kernelwright.search.session._summary import shorten
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task


def finding(check, status=CheckStatus.PASS, message="", **more):
    return Finding(check=check, status=status, message=message, **more).model_dump(mode="json")


def test_what_passed_is_counted_and_the_rest_is_said():
    told = shorten({
        "reason": "correct: 3.2 times the tolerance", "verdict": "rejected",
        "findings": [
            finding("runs"), finding("guards", CheckStatus.UNKNOWN, "no room"), finding("two-clocks", message="coarse"),
            finding("correct", CheckStatus.FAIL, "3.2 times the tolerance", figures={"error": 1.23456789}),
        ],
    })  # fmt: skip
    assert told["checks"] == "2 of 4 checks passed" and "reason" not in told
    assert told["findings"] == [
        {"check": "guards", "status": "unknown", "message": "no room"},
        {"check": "two-clocks", "status": "pass", "message": "coarse"},
        {
            "check": "correct",
            "status": "fail",
            "message": "3.2 times the tolerance",
            "figures": {"error": 1.235},
        },
    ]


def test_a_reason_that_no_finding_gives_is_kept():
    told = shorten({"reason": "the ratio to eager is 1.19", "findings": [finding("runs")]})
    assert told == {"reason": "the ratio to eager is 1.19", "checks": "1 of 1 checks passed"}


def test_nothing_empty_is_said_and_one_workload_is_not_said_twice():
    rows = [{"workload": "a", "time_us": 1.0}, {"workload": "b", "time_us": 2.0}]
    told = shorten(
        {"diagnostics": "", "start_up": None, "declined": [], "evidence": {}, "run": "", "workloads": rows}
    )
    assert told == {"run": "", "workloads": rows}
    assert "workloads" not in shorten({"workloads": rows[:1]})


def test_the_whole_judgement_is_there_for_whoever_asks():
    from kernelwright.records import Budget, Run
    from kernelwright.search.session._result import judgement_of

    candidate = planted_candidate(50.0)
    found = PlantedJudge().screen(candidate, PlantedLanguage().build(candidate))
    run = Run(id="r", task=planted_task().key, task_name="planted", device="cpu-1", budget=Budget(), seed=0)
    judgement = judgement_of(run, found, ("n=4",))
    short, whole = json.loads(judgement.line()), json.loads(judgement.line(verbose=True))
    assert whole == {"event": "result", **judgement.model_dump(mode="json")}
    assert short["checks"] == "1 of 1 checks passed" and "findings" not in short
