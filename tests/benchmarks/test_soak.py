"""The soak plants what it says, and sees an end that nobody accounts for."""

import pytest
from benchmarks.soaked_run import KINDS, STAGES

from benchmarks import soak


def test_every_fault_is_planted_at_every_stage():
    planted = soak.faults(200)
    assert len(planted) == 200
    assert {f"{stage}:{kind}:0" for stage in STAGES for kind in KINDS} <= set(planted)
    assert {f"outside:{kind}" for kind in soak.OUTSIDE} <= set(planted)


@pytest.mark.long
@pytest.mark.slow
def test_an_end_is_accounted_for_and_one_without_a_reason_is_not(tmp_path, monkeypatch):
    end = soak.soak(0, "screen:error:0", tmp_path / "0")
    assert (end.exit_code, end.status, end.accounted) == (1, "failed", True)
    assert end.reason.startswith("RuntimeError: as planted")
    monkeypatch.setattr(soak.Store, "ending", lambda _, run: (run.status, ""))
    assert not soak.soak(1, "screen:SIGKILL:0", tmp_path / "1").accounted
