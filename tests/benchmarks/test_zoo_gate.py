"""The zoo's command on small models: planned, a program accepted without a search, and the drift gate."""

import pytest
from benchmarks.zoo.__main__ import HERE, table
from benchmarks.zoo.gate import drifted
from tests.models.planted import PROGRAM, accept, accept_small

from kernelwright.devices import detect
from kernelwright.models import ModelResult
from kernelwright.models._assemble import assemble
from kernelwright.models._plan import planned
from kernelwright.models._records import MODEL_RESULT
from kernelwright.models._whole_task import whole_task
from kernelwright.records import DecisionStatus, Interval
from kernelwright.store import Store


def test_a_program_that_adds_to_the_result_drifts(tmp_path):
    store, run, _ = accept_small(tmp_path)
    found = drifted(str(tmp_path / "small.py"), run, store, draws=4)
    assert found["drift"] == "drifted", found


@pytest.mark.long
def test_a_program_that_is_right_is_the_same(tmp_path):
    store, run, _ = accept_small(tmp_path, program=PROGRAM.replace("x + 100.0", "x"))
    found = drifted(str(tmp_path / "small.py"), run, store, draws=4)
    assert found["drift"] == "same", found


def test_the_table_tells_what_the_drift_gate_said():
    row = {"category": "vision", "model": "resnet", "plan_s": 7.0, "forecast": 2.0, "decision": "improved",
           "speedup": {"median": 1.5, "low": 1.4, "high": 1.6}, "eager_speedup": 2.0, "drift": "same"}  # fmt: skip
    told = table(
        [row, {**row, "model": "vit", "drift": "drifted"}, {**row, "decision": "equal", "drift": "same"}]
    )
    assert told.splitlines()[2].endswith("| same |")
    assert "of 3 improved ones 2 are the same by the drift gate, 1 drifted, 0 inconclusive" in told


@pytest.mark.long
@pytest.mark.needs("transformers")
@pytest.mark.parametrize("target", ["science.py:physics_informed", "vision.py:poolformer"])
def test_a_model_of_the_zoo_is_planned_and_its_own_graph_is_the_same(target, tmp_path):
    target = f"{HERE}/{target}"
    plan = planned(target, device=detect("cpu"))
    assert plan.plan.whole is not None and plan.plan.regions and plan.plan.expected_of_whole[1] > 1.0
    whole = whole_task(plan.loaded, plan.captured, plan.timed)
    capture = plan.captured.whole
    program = assemble(capture, plan.timed[capture.name], (), whole.state, whole.names)
    with Store(tmp_path) as store:
        run = accept(store, whole.task, program.sources[0].text)
        result = ModelResult(
            model=plan.plan.model, device=detect("cpu").fingerprint, run=run, decision=DecisionStatus.IMPROVED,
            speedup=Interval(median=2.0), baseline="compile", eager_speedup=2.0, expected=(1.0, 2.0, 3.0), regions=(),
            weights=whole.weights, call=plan.loaded.whole.call,
        )  # fmt: skip
        store.keep(MODEL_RESULT, run, {run: result.to_json()})
    found = drifted(target, run, tmp_path, draws=6)
    assert found["drift"] == "same", found
