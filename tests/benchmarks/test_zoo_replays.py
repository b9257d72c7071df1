"""Replays of the zoo's rows: the forecast, and where minutes go, on planted searches."""

import pytest
from benchmarks.zoo.budget import closed_of, flow, told
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
