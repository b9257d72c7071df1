"""Store → Programs: what was accepted for whole models and still holds, and how it is loaded."""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..deploy import changed, installed
from ..devices import detect
from ..errors import InputError
from ..languages import get_language
from ..languages.prepared import prepared
from ..records import BuildStatus, Candidate, Evaluation, Task, TensorSpec, Workload
from ..search import accepted_of, accepted_with, environment_here
from ..store import Store
from ._records import MODEL_RESULT, DynamoForm, ModelResult
from ._region_form import RegionForm, form_of_task

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


@dataclass(frozen=True)
class RegionProgram:
    """A kernel for a region, as the store has it: accepted alone, and kept in a model that was accepted with it."""

    name: str
    """The model."""
    form: RegionForm
    """What it computes."""
    candidate: Candidate
    """The kernel."""
    task: Task
    """What it was judged on."""

    def load(self) -> LoadedProgram:
        """Build and load it.

        Raises:
            InputError: it cannot be built here.
        """
        return load_program(self.candidate, self.task.workloads[0])


def programs(store: Store) -> Iterator[Program]:
    """Yield the programs that were accepted for whole models on this device and may be used here, the newest first.

    What was switched to native or removed is left out, and so is what was accepted with another torch or compiler and
    not rechecked since, which is said in the log.
    """
    for result in _results(store):
        if result.dynamo is not None:
            for one, task in _usable(store, result, result.run):
                yield Program(result.model, result.dynamo, one.candidate, task.workloads[0])


def region_programs(store: Store) -> Iterator[RegionProgram]:
    """Yield the kernels of regions that are part of accepted models, as `programs` does; each region once."""
    seen = set[str]()
    for result in _results(store):
        for region, program in regions_in(store, result, seen):
            seen.add(region)
            yield program


def regions_in(
    store: Store, result: ModelResult, known: Collection[str] = ()
) -> Iterator[tuple[str, RegionProgram]]:
    """Yield the kernels of an accepted model's regions that may be used here, each with its region, but known ones."""
    for region in (r for r in result.regions if r.kept and r.region not in known):
        found = [pair for run in region.runs for pair in _usable(store, result, run)]
        one, task = max(found, key=_speedup, default=(None, None))
        if one is not None and task is not None and (form := form_of_task(task)) is not None:
            yield region.region, RegionProgram(result.model, form, one.candidate, task)


def _speedup(found: tuple[Evaluation, Task]) -> float:
    speedup = found[0].decision.speedup
    return speedup.median if speedup else 0.0


def _results(store: Store) -> Iterator[ModelResult]:
    """Yield the results of models that were improved on this device, the newest first."""
    results = [
        r for r in map(ModelResult.from_json, store.kept(MODEL_RESULT)) if r.improved and not r.trained
    ]
    if results:
        device = detect("cpu").fingerprint
        yield from (r for r in reversed(results) if r.device == device)


def _usable(store: Store, result: ModelResult, run: str) -> Iterator[tuple[Evaluation, Task]]:
    """Yield what a run accepted first, with its task, where it and the model that it belongs to are in use."""
    state = installed(store, run)
    if state.state != "in use" or installed(store, result.run).state != "in use":
        return
    record = store.run(run)
    accepted = accepted_of(store, record)[:1]
    now = environment_here(detect("cpu"), {e.candidate.language for e in accepted})
    if differs := changed(state.checked or accepted_with(store, record), now):
        _LOG.warning(
            "%s is not used: it was accepted with %s; `kernelwright kernels recheck %s` judges it again",
            result.model, "; ".join(differs), run,
        )  # fmt: skip
        return
    yield from ((one, store.task(record.task)) for one in accepted)


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
