"""The account of a run's time adds up, and tells vetting and torch.compile's code from other stages."""

import json
import sys
from types import SimpleNamespace

import pytest
from benchmarks.search_time import main, row_of, table

from kernelwright.records import Budget
from kernelwright.store import Store
from kernelwright.testing import planted_task


def evaluation(key, stage="screen", **stages_s):
    return SimpleNamespace(candidate=SimpleNamespace(key=key), cached=False, stage=stage, stages_s=stages_s)


def event(name, elapsed_s, **data):
    return {"event": name, "elapsed_s": elapsed_s, **data}


EVENTS = [
    event("hints", 1.0),
    event("verified", 3.0),
    event("evaluation", 10.0, candidate="a", proposer="schedule", cached=False),
    event("evaluation", 20.0, candidate="b", proposer="inductor", cached=False),
    event("explored", 20.0, stopped_by="minutes", evaluations=2, stages_s={"verify": 5.0}),
    event("spent", 30.0, stages_s={"build": 4.0, "verify": 9.0, "measure": 3.0}),
]
KNOWN = [evaluation("a", verify=1.0, build=2.0), evaluation("b", stage="full", verify=1.0, build=2.0)]
RUN = SimpleNamespace(id="r", task_name="t")


def kept(events, evaluations):
    return SimpleNamespace(events=lambda _: events, evaluations=lambda _: evaluations)


def test_a_runs_seconds_add_up():
    row = row_of(kept(EVENTS, KNOWN), RUN)
    assert (row["evaluations"], row["first_s"], row["begun_s"], row["end_s"]) == (2, 3.0, 1.0, 30.0)
    assert row["stages_s"] == {"build": 4.0, "verify": 6.0, "measure": 3.0, "vet": 3.0, "inductor": 7.0}
    assert row["begun_s"] + sum(row["stages_s"].values()) + row["rest_s"] == row["end_s"]
    text = table([row, row])
    assert text.splitlines()[1].split() == ["inductor", "7.0", "7.0"]
    assert text.endswith("2 runs, medians: 2 evaluations, 6.3 a minute; first correct kernel after 3.0 s")


def test_a_run_that_was_cut_off_has_no_row():
    assert row_of(kept(EVENTS[:-1], KNOWN), RUN) is None


def test_a_stores_finished_runs_are_printed_and_written(tmp_path, monkeypatch, capsys):
    with Store(tmp_path) as store:
        run = store.create_run(planted_task(), device="cpu-1", budget=Budget(evaluations=2), seed=0)
        for one in (EVENTS[0], *EVENTS[-2:]):
            store.append_event(run.id, one)
    out = tmp_path / "rows.jsonl"
    monkeypatch.setattr(sys, "argv", ["search_time", str(tmp_path), "--out", str(out)])
    main()
    assert "measure" in capsys.readouterr().out and json.loads(out.read_text())["run"] == run.id
    monkeypatch.setattr(sys, "argv", ["search_time", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit):
        main()
    assert "expected that of a store" in capsys.readouterr().err
