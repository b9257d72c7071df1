"""Model, accepted result → Patch: what was accepted for a model is loaded and put in place."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from torch import nn

from ..deploy import installed
from ..devices import detect
from ..errors import InputError
from ..records import TensorSpec
from ..search import accepted_of
from ..store import Store
from ._accepted import load_program
from ._identity import places_outside
from ._optimize import model_result, sized_result
from ._patch import Patch
from ._records import ModelResult, SizedResult
from ._sized_patch import SizedPatch
from ._snapshot import snapshots
from ._training_patch import TrainingPatch
from ._unusual import taken_out


def patch(
    model: nn.Module, kernels: ModelResult | SizedResult | str = "last", *, store: Path | str | None = None
) -> Patch | SizedPatch:
    """Patch a model with what was accepted for it; use it in a `with` block, or `remove` it later.

    A model that was optimised in training is patched for training alone: `TrainingPatch`; one that was optimised at
    several sizes, at all of them: `SizedPatch`.

    Args:
        model: The model that was optimised, or another with the same parameters.
        kernels: The result of `optimize_model` or `optimize_sizes`, or a run in which the model was judged.
        store: Folder of the run store; by default the user's.

    Raises:
        InputError: nothing was accepted in that run, it is of another model, such as one with other values in a buffer
            outside the state dictionary, or its kernels cannot be loaded here.
    """
    model, result = taken_out(model), kernels
    if isinstance(result, str):
        result = sized_result(result, store) or model_result(result, store)
    if isinstance(result, ModelResult):
        return _patched(model, result, store)
    if not result.improved:
        raise InputError(f"nothing was accepted for {result.model}: {result.reason or result.decision}")
    accepted = [one.result for one in result.outcomes if one.result.improved]
    return SizedPatch(model, [partial(_patched, model, one, store) for one in accepted])


def _patched(model: nn.Module, result: ModelResult, store: Path | str | None) -> Patch:
    with Store(store) as kept:
        if not result.improved:
            raise InputError(f"nothing was accepted for {result.model}: {result.reason or result.decision}")
        record = kept.run(result.run)
        if (state := installed(kept, record.id)).state != "in use":
            raise InputError(
                f"the result for {result.model} was switched to native: {state.reason or state.state}"
            )
        workload = kept.task(record.task).workloads[0]
        accepted = accepted_of(kept, record)
        if not accepted:
            raise InputError(f"{result.model} was judged by an earlier version; optimise it again")
        candidate = accepted[0].candidate
    program = load_program(candidate, workload)
    training = bool(result.trained)
    inputs, held = program.inputs, program.weights
    if training:
        count = len(inputs) - len(result.weights)
        inputs, held = inputs[: count - len(result.step.drawn)], inputs[count:]
    _check_weights(model, result, held)
    if result.identity is None and places_outside(model):
        raise InputError(
            f"{result.model} was judged by an earlier version, which did not keep what is outside its state "
            "dictionary; optimise it again"
        )
    if training:
        return TrainingPatch(
            model,
            program.kernel,
            result.weights,
            inputs,
            result.call,
            result.identity,
            snapshots(),
            trained=result.trained,
            form=result.step,
        )
    place = detect(str(record.options.get("device", "cpu"))).torch_device
    return Patch(
        model, program.kernel, result.weights, inputs, result.call, result.identity,
        snapshots() if place == "cpu" else None, place,
    )  # fmt: skip


def _check_weights(model: nn.Module, result: ModelResult, specs: Sequence[TensorSpec]) -> None:
    state = model.state_dict()
    for name, spec in zip(result.weights, specs, strict=True):
        value = state.get(name)
        if value is None or tuple(value.shape) != spec.shape or str(value.dtype) != f"torch.{spec.dtype}":
            found = "has none" if value is None else f"has {value.dtype}{list(value.shape)}"
            raise InputError(
                f"{result.model} was judged with {name!r} of {spec.dtype}{list(spec.shape)}; this model {found}"
            )
