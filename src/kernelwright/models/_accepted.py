"""Store → Programs: what was accepted for whole models and still holds, and how it is loaded."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..deploy import changed, installed
from ..devices import detect
from ..errors import InputError
from ..languages import get_language
from ..languages.prepared import prepared
from ..records import BuildStatus, Candidate, TensorSpec, Workload
from ..search import accepted_of, accepted_with, environment_here
from ..store import Store
from ._records import MODEL_RESULT, DynamoForm, ModelResult

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedProgram:
    """An accepted candidate, built and loaded in this process."""

    kernel: Callable[..., Any]
    """Takes the inputs and then the weights."""
    inputs: tuple[TensorSpec, ...]
    """What the inputs must be."""
    weights: tuple[TensorSpec, ...]
    """What the weights must be."""


@dataclass(frozen=True)
class Program:
    """One program for a whole model, as the store has it."""

    name: str
    """The model."""
    form: DynamoForm
    """The graph that it computes."""
    candidate: Candidate
    """The program."""
    workload: Workload
    """The sizes that it was verified on."""

    def load(self) -> LoadedProgram:
        """Build and load it.

        Raises:
            InputError: it cannot be built here.
        """
        return load_program(self.candidate, self.workload)


def programs(store: Store) -> Iterator[Program]:
    """Yield the programs that were accepted for whole models on this device and may be used here, the newest first.

    What was switched to native or removed is left out, and so is what was accepted with another torch or compiler and
    not rechecked since, which is said in the log.
    """
    results = [r for r in map(ModelResult.from_json, store.kept(MODEL_RESULT)) if r.improved and r.dynamo]
    if not results:
        return
    device = detect("cpu")
    for result in reversed(results):
        state = installed(store, result.run)
        if result.dynamo is None or result.device != device.fingerprint or state.state != "in use":
            continue
        record = store.run(result.run)
        accepted = accepted_of(store, record)[:1]
        now = environment_here(device, {e.candidate.language for e in accepted})
        if differs := changed(state.checked or accepted_with(store, record), now):
            _LOG.warning(
                "%s is not used: it was accepted with %s; `kernelwright kernels recheck %s` judges it again",
                result.model, "; ".join(differs), result.run,
            )  # fmt: skip
            continue
        for one in accepted:
            yield Program(result.model, result.dynamo, one.candidate, store.task(record.task).workloads[0])


def load_program(candidate: Candidate, workload: Workload) -> LoadedProgram:
    """Build and load an accepted candidate in this process.

    Raises:
        InputError: it cannot be built here.
    """
    language = get_language(candidate.language)
    build = language.build(candidate)
    if build.status is not BuildStatus.OK:
        raise InputError(
            f"kernel {candidate.key} cannot be built here: {build.status}: {build.diagnostics[:500]}"
        )
    loaded = language.load(candidate, Path(build.artefact or "."), workload.outputs)
    kernel = prepared(loaded, tuple(s.name for s in workload.state)) or loaded
    inputs = tuple(spec for spec in workload.arguments if isinstance(spec, TensorSpec))
    return LoadedProgram(kernel, inputs, workload.state)
