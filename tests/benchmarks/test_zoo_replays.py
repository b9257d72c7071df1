"""Replays of the zoo's rows: the forecast, and where minutes go, on planted searches."""

import pytest
from benchmarks.zoo.budget import closed_of, flow, told
from benchmarks.zoo.forecast import by_pilots
from benchmarks.zoo.forecast import told as forecast_told

RICH = {
    "key": "rich",
    "time_us": 60.0,
    "bound_us": 0.0,
    "cost_s": 20.0,
    "chosen": True,
    "points": [[25.0, 3.0]],
}
POOR = {
    "key": "poor",
    "time_us": 20.0,
    "bound_us": 14.0,
    "cost_s": 20.0,
    "chosen": True,
    "points": [[10.0, 1.1]],
}
BARE = {**POOR, "key": "bare", "points": []}


def model(name, *regions, overlaps=()):
    return {
        "model": name,
        "time_us": 100.0,
        "seconds": 40.0,
        "regions": regions,
        "overlaps": {r["key"]: list(overlaps) for r in regions},
    }


def test_minutes_flow_to_the_region_that_may_gain_the_most_until_it_did():
    assert flow(model("m", RICH, POOR), 60.0) == {"rich": 40.0, "poor": 20.0}


def test_a_replay_tells_who_saves_more_and_where_nobody_found_a_kernel():
    lines = told([model("rich", RICH, POOR)])
    assert lines[0].startswith("rich: 0.000 / 0.018, 0.400 / 0.018, 0.418 / 0.418 of the time saved")
    assert lines[-1] == "1 models: 1 won, 0 tied, 0 lost, 0 without a kernel"
    assert "1 lost" in told([model("late", {**RICH, "bound_us": 59.0}, POOR)])[-1]
    assert "1 without a kernel" in told([model("none", BARE)])[-1]


def test_what_searches_closed_of_the_gap_is_taken_from_the_other_models():
    assert closed_of([model("rich", RICH), model("poor", POOR)]) == pytest.approx(
        (0.303, 0.485, 0.667), abs=0.001
    )
    misled = told([model("rich", RICH, POOR), model("bare", {**RICH, "points": []})])
    assert misled[0].startswith("rich: 0.000 / 0.018, 0.000 / 0.018"), "by the other, nothing is to be gained"


def test_the_forecast_is_held_against_what_was_measured_and_against_the_other_models():
    rows = [{"model": "a", "gap": 0.5, "saved": 0.4}, {"model": "b", "gap": 0.5, "saved": 0.5}]
    assert "1 of 2 within the interval; by the others 10.0, 10.0" in forecast_told(rows)[-1]


def test_forecasts_of_pilots_are_held_against_the_intervals_of_the_verdicts():
    verdicts = {"sure": (0.99, 1.01), "unsure": (0.7, 1.3)}
    rows = [
        {
            "model": name,
            "pilot": 0.5,
            "eager_speedup": 2.5,
            "speedup": {"median": 1.0, "low": low, "high": high},
        }
        for name, (low, high) in verdicts.items()
    ]
    lines = by_pilots(rows).splitlines()
    assert lines[0].startswith("2 runs with a pilot: off by 13.2 points in the median")
    assert lines[0].endswith("the pilot as it is 10.0, by the others' ratio 0.0")
    assert lines[1].endswith("1 of 2 forecasts lie in them")


def test_a_run_without_a_verdict_says_nothing_of_a_forecast():
    ends = {"median": 1.0, "low": 0.9, "high": 1.1}
    row = {"model": "a", "pilot": 0.5, "eager_speedup": 2.5, "speedup": ends}
    assert by_pilots([row, {**row, "speedup": None}, {**row, "pilot": None}]).startswith(
        "1 runs with a pilot"
    )
