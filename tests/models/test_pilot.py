"""The first programs of a model, timed before its search: what the forecast is made of."""

import subprocess
from types import SimpleNamespace

import pytest

from kernelwright.models import _pilot, capture_model, load_model
from kernelwright.models._pilot import Pilot, forecast_of, piloted, shares_of
from kernelwright.models._whole_task import whole_task


def test_a_forecast_follows_the_pilot_and_promises_no_loss():
    low, expected, high = forecast_of(0.3)
    assert 1.0 < low < expected < high and expected > forecast_of(0.5)[1]
    assert forecast_of(1.2) == (1.0, 1.0, pytest.approx(1.0)) and forecast_of(0.01)[1] > 20


def test_where_first_programs_are_slow_a_forecast_is_their_share_and_some_percent():
    found = {share: share * forecast_of(share)[1] for share in (0.36, 0.5, 0.75, 0.9)}
    assert found == pytest.approx(dict.fromkeys(found, found[0.5])) and 0.9 < found[0.5] < 1.0


def test_a_pilot_that_does_not_end_in_time_tells_what_it_timed_until_then(monkeypatch):
    def cut(*_, timeout, **__):
        told = (
            b'{"share": 0.5, "program": "a"}\n{"share": 0.4, "program": "b"}\n{"share": 0.'
            if timeout > 1
            else None
        )
        raise subprocess.TimeoutExpired("pilot", timeout, output=told)

    monkeypatch.setattr(_pilot, "got_share", lambda: 1.0)
    monkeypatch.setattr(subprocess, "run", cut)
    task = SimpleNamespace(to_json=lambda: "{}")
    assert piloted(task, 30.0) == Pilot(0.4, ("b", "a")) and piloted(task, 0.5) is None


@pytest.mark.long
@pytest.mark.needs("C++ compiler")
def test_first_programs_are_timed_in_a_process_of_their_own_unless_the_machine_is_busy(small, monkeypatch):
    loaded = load_model(small)
    task = whole_task(loaded, capture_model(loaded), {}).task
    monkeypatch.setattr(_pilot, "got_share", lambda: 0.1)
    assert piloted(task, 300.0) is None
    monkeypatch.setattr(_pilot, "got_share", lambda: 1.0)
    assert 0.0 < piloted(task, 300.0).share < 1.0, (
        "twelve operators of a few microseconds each become one call"
    )
    assert piloted(task, 0.1) is None
    assert len(list(shares_of(task, 0.0))) == 1, "no second one is begun that would end too late"
