"""Whole training steps with an optimizer: judged by the weights that they end with, and by their time."""

from itertools import islice
from types import SimpleNamespace

import pytest
import torch
from benchmarks.training_models import autoencoder
from tests.models.planted import accept
from tests.models.test_training import LINEAR, STEP

from kernelwright.cli import main
from kernelwright.cli._model import model_text
from kernelwright.compiler import schedules
from kernelwright.errors import InputError
from kernelwright.models import (
    ModelResult,
    capture_step,
    load_model,
    model_result,
    optimize_training,
    step_task,
)
from kernelwright.models._records import StepProgram, StepsOutcome
from kernelwright.models._steps import _wrong, judged_steps
from kernelwright.records import DecisionStatus, Interval
from kernelwright.store import Store
from kernelwright.tasks import Problem

RIGHT = STEP.replace(" + 1.0", "")
WRONG = RIGHT.replace("scaled.sum(0)", "-scaled.sum(0)")


@pytest.fixture
def accepted(tmp_path):
    """Return a function that accepts a program for a small model's step; it returns the model and the result."""
    (tmp_path / "small.py").write_text(LINEAR)

    def made(text, **more):
        def search(task, *, store, **_):
            with Store(store) as kept:
                return SimpleNamespace(run=accept(kept, task, text))

        more = {"memory": False} | more
        result = optimize_training(str(tmp_path / "small.py"), store=tmp_path, search=search, **more)
        loaded = load_model(str(tmp_path / "small.py"))
        loaded.module.train()
        return loaded, result

    return made


def test_weights_after_some_steps_are_held_against_float64(accepted, tmp_path):
    loaded, result = accepted(RIGHT)
    assert _wrong(loaded, result, "adamw", tmp_path) == ""
    loaded, result = accepted(WRONG)
    assert "after 5 steps 'linear." in _wrong(loaded, result, "adamw", tmp_path)


@pytest.mark.long
def test_steps_are_judged_and_the_result_is_kept(accepted, tmp_path):
    loaded, result = accepted(RIGHT, optimizer="adamw")
    found = result.steps
    assert found.baseline in ("eager", "compile") and set(found.step_us) == {"eager", "compile", "ours"}
    assert found.speedup.low <= found.speedup.median <= found.speedup.high
    assert found.decision in (DecisionStatus.IMPROVED, DecisionStatus.EQUAL)
    _, wrong = accepted(WRONG)
    assert judged_steps(loaded, wrong, "adamw", store=tmp_path, seconds=0).decision is DecisionStatus.REJECTED


@pytest.mark.long
def test_memory_is_measured_beside_time(accepted, tmp_path):
    _, result = accepted(RIGHT, memory=True)
    assert [one.what.partition(":")[0] for one in result.programs][:2] == ["eager", "compile"]
    assert [(one.speedup, one.kept) for one in result.programs] == [(None, False), (None, False), (2.0, True)]
    assert all(one.peak_bytes is not None for one in result.programs)
    assert model_result("last", tmp_path).programs == result.programs


def test_the_command_says_what_came_of_programs():
    told = model_text(
        planted_result(
            StepProgram(what="eager", speedup=None, peak_bytes=3_000_000),
            StepProgram(what="partition: less", speedup=1.5, peak_bytes=None),
            StepProgram(what="partition: more", speedup=2.0, peak_bytes=1_500_000, kept=True),
        )
    )
    assert "memory    eager: 3.0 MB at most\n" in told
    assert "partition: less: 1.50x, memory not known\n" in told
    assert "partition: more: 2.00x, 1.5 MB at most, in the model" in told


def planted_result(*programs):
    return ModelResult(
        model="m", device="cpu", run="", decision=DecisionStatus.EQUAL, speedup=None, baseline="", eager_speedup=None,
        expected=(1.0, 1.0, 1.0), regions=(), programs=programs,
    )  # fmt: skip


def test_the_command_says_what_came_of_steps():
    steps = StepsOutcome(
        optimizer="adamw", decision=DecisionStatus.IMPROVED, speedup=Interval(median=1.3, low=1.2, high=1.4),
        baseline="compile", step_us={},
    )  # fmt: skip
    said = model_text(planted_result().model_copy(update={"steps": steps}))
    assert "with adamw: improved, 1.30x (1.20 to 1.40) against compile with torch's" in said
    assert "OptimizerPatch(optimizer)" in said


def test_other_optimizers_are_refused_before_anything_is_searched(capsys):
    with pytest.raises(InputError, match="no optimizer is called 'adam'; did you mean 'adamw'"):
        optimize_training(torch.nn.ReLU(), optimizer="adam")
    assert main(["optimize", "examples/small_transformer.py:build", "--optimizer", "adamw"]) == 2
    assert "add --training" in capsys.readouterr().err


@pytest.mark.long
def test_what_is_stored_for_the_backward_part_is_for_the_search_to_decide():
    """The first two schedules of a step: one stores every value that is read twice, the other computes them again."""
    loaded = load_model(autoencoder)
    loaded.module.train()
    task = step_task(loaded, capture_step(loaded))
    kept = []
    for schedule in islice(schedules(Problem(task), ("cpp",)), 2):
        program = schedule.leaf.state.program
        kept.append({b.name for b in program.buffers if b.role not in ("argument", "output")})
    assert len(kept[0]) >= 2 * len(kept[1]) > 0
