"""A store in which a program was accepted for a model, without a search."""

import dataclasses

from tests.models.conftest import SMALL, written

from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.models import Captured, ModelResult, capture_model, load_model
from kernelwright.models._dynamo_form import dynamo_form
from kernelwright.models._identity import identity_of
from kernelwright.models._records import MODEL_RESULT
from kernelwright.models._whole_task import whole_task
from kernelwright.records import (
    Budget,
    Build,
    BuildStatus,
    Candidate,
    Decision,
    DecisionStatus,
    Evaluation,
    Interval,
    RunStatus,
    SourceFile,
    WorkloadDecision,
)
from kernelwright.search import environment_here
from kernelwright.store import EvaluationKey, Store

MARK = 100.0
"""What the planted program adds to the right result, so that a test sees who answered."""
PROGRAM = """
import torch


def run(x, *weights):
    if float(x.flatten()[0]) == 7.0:
        raise NotImplementedError("Unsupported: sevens")
    norms, layers = weights[:3], weights[3:]
    for i in range(3):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * norms[i]
        x = x + torch.nn.functional.linear(y, layers[2 * i], layers[2 * i + 1])
    return x + 100.0
"""


def accept(store, task, text=PROGRAM, environment=None, candidate=None, options=None):
    """Keep a finished run of a task in which a program was accepted, and return its id."""
    device = detect("cpu")
    own = Candidate(sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run")
    candidate = candidate or own
    run = store.create_run(task, device=device.fingerprint, budget=Budget(), seed=0, options=options)
    about = {**environment_here(device, ()), **(environment or {})}
    store.append_event(run.id, {"event": "run", "environment": about})
    key = EvaluationKey(candidate.key, task.key, device.fingerprint, "t", run.id)
    store.save_evaluation(run.id, key, planted_evaluation(candidate, task), elapsed_s=1.0)
    store.finish_run(run.id, RunStatus.FINISHED, {"decision": "improved", "speedup": {"median": 2.0}})
    return run.id


def planted_evaluation(candidate, task):
    """Return an evaluation in which a candidate was accepted."""
    name = task.workloads[0].name
    row = WorkloadDecision(
        workload=name, speedup=Interval(median=2.0, low=1.9, high=2.1), baseline="compile", time_us=1.0,
        baseline_us=2.0,
    )  # fmt: skip
    decision = Decision(
        candidate=candidate.key, status=DecisionStatus.IMPROVED, reason="planted", workloads=(row,),
        speedup=row.speedup, baseline="compile", confirmed=True,
    )  # fmt: skip
    build = Build(status=BuildStatus.OK, toolchain=get_language("torch").toolchain())
    return Evaluation(candidate=candidate, build=build, decision=decision, stage="full")


def accept_small(folder, environment=None, model=SMALL, program=PROGRAM):
    """Return a store in `folder` in which a program was accepted for a model, its run, and the model."""
    loaded = load_model(written(folder, "small.py", model))
    whole = whole_task(loaded, Captured(()), {})
    form = dynamo_form(loaded, whole.weights)
    identity = identity_of(loaded, capture_model(loaded).whole, whole.task)
    with Store(folder / "store") as store:
        run = accept(store, whole.task, program, environment)
        result = ModelResult(
            model="small", device=detect("cpu").fingerprint, run=run, decision=DecisionStatus.IMPROVED,
            speedup=Interval(median=2.0), baseline="compile", eager_speedup=2.0, expected=(1.0, 2.0, 3.0), regions=(),
            weights=whole.weights, call=loaded.whole.call, dynamo=form,
            identity=identity,
        )  # fmt: skip
        store.keep(MODEL_RESULT, run, {run: result.to_json()})
    return folder / "store", run, dataclasses.replace(loaded)
