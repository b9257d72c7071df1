"""Model in training → ModelResult: loss and gradients as one task, searched and judged like any other."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..flow import optimize as search_op
from ..records import Budget, DecisionStatus, Evaluation, Numerics, Task
from ..search import OnEvent, accepted_of
from ..store import Store
from ..tasks.forms import kernelbench
from ._device import cpu_of_training
from ._dynamo_form import content
from ._identity import graph_hash, places_outside
from ._joint import Step, capture_step
from ._over_eager import ratio_to_eager
from ._peaks import programs_of
from ._records import MODEL_RESULT, Identity, ModelResult, RegionOutcome
from ._steps import check_optimizer, judged_steps
from ._target import Loaded, ModelTarget, load_model
from ._task import graph_text
from ._timing import untimed

BASELINES = ("eager", "compile")
"""Native forms of a training step. Freezing holds the weights for constants, so it is none of them."""
PROPOSERS = ("schedule", "inductor", "partition")
"""Who writes one program for a graph of any size: the compiler here, and torch's, for all of it or in two parts."""


def optimize_training(
    target: ModelTarget | Loaded,
    *,
    inputs: object = None,
    minutes: float = 10.0,
    device: str | None = None,
    baselines: Sequence[str] = BASELINES,
    proposers: Sequence[str] = PROPOSERS,
    languages: Sequence[str] = (),
    numerics: Numerics | None = None,
    optimizer: str | None = None,
    store: Path | str | None = None,
    on_event: OnEvent | None = None,
    memory: bool = True,
    search: Callable[..., Any] = search_op,
) -> ModelResult:
    """Make the training of a model faster: forward and backward as one program of inputs and weights.

    Args:
        target: The model, whose result is the loss, or has it as `.loss` or first; it is put into training mode, but an
            archive of torch.export stays in the one that it was exported in. Frozen parameters get no gradient.
        inputs: Inputs of one call, for a module that is passed as it is.
        minutes: Wall minutes for all of it.
        device: `cpu`, the default and so far the only one.
        baselines: Native forms of forward and backward to beat; the fastest counts.
        proposers: Who proposes programs.
        languages: Languages of programs; by default all that are available.
        numerics: How far a program may be off: `strict`, `native` or `fast`.
        optimizer: Judge whole steps with this optimizer afterwards: `adamw` or `adafactor`.
        store: Folder of the run store; by default the user's.
        on_event: Called with each event as it happens.
        memory: Measure the peak memory of native forms and programs afterwards, too.
        search: Searches one task; for tests.

    Raises:
        TaskError: the model has no graph of a training step; the message says why.
        InputError: another device is asked for, or an optimizer that is not known.
    """
    if optimizer is not None:
        check_optimizer(optimizer)
    begun, used = time.monotonic(), cpu_of_training(device)
    loaded = target if isinstance(target, Loaded) else load_model(target, inputs, training=True)
    loaded = replace(loaded, numerics=numerics)
    set_training(loaded)
    step = capture_step(loaded)
    task = step_task(loaded, step)
    found = search(
        task, budget=Budget(minutes=minutes), proposers=tuple(proposers), baselines=tuple(baselines),
        device=device or "cpu", languages=tuple(languages), store=store, on_event=on_event,
    )  # fmt: skip
    with Store(store) as kept:
        best = next(iter(accepted_of(kept, kept.run(found.run))), None)
        tried = kept.evaluations(found.run)
        result = _result(loaded, step, used.fingerprint, found.run, best, time.monotonic() - begun)
        kept.keep(MODEL_RESULT, found.run, {found.run: result.to_json()})
    more: dict[str, Any] = {}
    if memory:
        more["programs"] = programs_of(loaded, task, tried, best.candidate if best else None)
    if optimizer is not None:
        more["steps"] = judged_steps(loaded, result, optimizer, store=store)
    if more:
        result = result.model_copy(update={**more, "seconds": time.monotonic() - begun})
        with Store(store) as kept:
            kept.keep(MODEL_RESULT, found.run, {found.run: result.to_json()})
    return result


def set_training(loaded: Loaded) -> None:
    """Put a model into training mode; what torch.export made stays in the mode in which it was exported."""
    with suppress(NotImplementedError):
        loaded.module.train()


def step_task(loaded: Loaded, step: Step) -> Task:
    """Return a training step as a task: all weights are arguments, and the gradients are results like the loss.

    Raises:
        TaskError: the step does not run by itself.
    """
    text = graph_text(step.capture, untimed(step.capture), step.drawing)
    task = kernelbench.load(Path(f"{loaded.name}_step.py"), text, max_elements=None, contract=None)
    return loaded.judged(task)


def _result(
    loaded: Loaded, step: Step, device: str, run: str, best: Evaluation | None, seconds: float
) -> ModelResult:
    decision = best.decision if best else None
    status = decision.status if decision else DecisionStatus.INCONCLUSIVE
    reason = "" if decision else "no program for forward and backward was accepted"
    speedup = decision.speedup if decision else None
    outcome = RegionOutcome(
        region="step", label="forward and backward", uses=1, runs=(run,), speedup=speedup.median if speedup else None,
        expected_us=0.0, kept=best is not None, reason=reason,
    )  # fmt: skip
    return ModelResult(
        model=loaded.name, device=device, run=run, decision=status, speedup=speedup,
        baseline=(decision.baseline or "") if decision else "", eager_speedup=ratio_to_eager(best) if best else None,
        expected=(1.0, 1.0, 1.0), regions=(outcome,), weights=step.weights, trained=step.trained,
        step=step.form, call=loaded.whole.call, identity=_identity(loaded, step),
        numerics=loaded.numerics, reason=reason, seconds=seconds,
    )  # fmt: skip


def _identity(loaded: Loaded, step: Step) -> Identity:
    tensors = {place.name: content(place.tensor) for place in places_outside(loaded.module)}
    return Identity(tensors=tensors, graph=graph_hash(step.capture), torch=torch.__version__)
