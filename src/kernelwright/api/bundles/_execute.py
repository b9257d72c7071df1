"""On the device: the folder of a bundle → records of what was verified and timed there.

Covers: the same sandbox, checks, blocks and clocks as every judgement (`search.evaluation.Acceptance`).
Does not cover: deciding; what comes back is decided where it is imported.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from ...devices import Device, detect
from ...errors import InputError, KernelwrightError, MissingToolError
from ...flow import bounded
from ...languages import get_language
from ...records import Budget, Build, BuildStatus, Candidate, Evaluation, Task
from ...search import Event, Search, environment_of, unbuilt
from ...search.evaluation.acceptance import Acceptance
from ...store import Store
from ...tasks import Problem
from ..judge import judging_options
from ._manifest import (
    ASKED,
    CANDIDATES,
    DEVICE,
    EVALUATIONS,
    RECORDS,
    TASK,
    Asked,
    Bundle,
    Returned,
    check_manifest,
    is_of,
    read_record,
    write_manifest,
)  # fmt: skip


def program(arguments: Sequence[str]) -> int:
    """Run a bundle from the command line; the exit code is that of the program."""
    parser = argparse.ArgumentParser(prog="run.py")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--device", default=None, help="cuda, cuda:N or cpu; by default what the bundle is for"
    )
    given = parser.parse_args(list(arguments))
    try:
        found = execute(given.folder, device=given.device)
    except KernelwrightError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return error.exit_code
    for evaluation in found:
        print(f"{evaluation.candidate.key}: {evaluation.decision.status}, {evaluation.decision.reason}")
    print(f"records are in {given.folder / RECORDS}; bring the folder back and `kernelwright import` it")
    return 0


def execute(folder: Path, *, device: str | None = None) -> tuple[Evaluation, ...]:
    """Verify and time every candidate of a bundle, and write its records.

    Args:
        folder: The bundle's folder.
        device: `cpu`, `cuda` or `cuda:N`; by default the first device of the target's kind.

    Raises:
        InputError: the folder is no bundle, was changed, or is for another device.
    """
    check_manifest(folder)
    bundle, task = read_record(Bundle, folder / ASKED), read_record(Task, folder / TASK)
    used = _device(bundle.target, device)
    if not is_of(bundle.target, used):
        raise InputError(f"this bundle is for {bundle.target}, and {used.torch_device} here is {used.name}")
    records = folder / RECORDS
    if records.exists():
        shutil.rmtree(records)
    (records / EVALUATIONS).mkdir(parents=True)
    with Store() as store:
        options = judging_options(task, used, bundle.baselines)
        run = store.create_run(task, device=used.fingerprint, budget=Budget(), seed=0, options=options)
        setting, problem = Search.of(store, run, used, _say), Problem(task)
        with (
            setting.supervised(),
            Acceptance(
                problem,
                used,
                lambda: bounded(setting, problem),
                bundle.baselines,
                setting.timing,
                emit=setting.emit,
            ) as judge,
        ):
            found = [_judged(judge, folder, asked, len(bundle.candidates)) for asked in bundle.candidates]
            environment = environment_of(store.events(run.id))
            returned = _returned(bundle, used, judge, environment)
    for evaluation in found:
        (records / EVALUATIONS / f"{evaluation.candidate.key}.json").write_text(evaluation.to_json())
    (records / DEVICE).write_text(returned.to_json())
    write_manifest(records, [p for p in records.rglob("*.json") if p.is_file()])
    return tuple(found)


def _device(target: str, asked: str | None) -> Device:
    """Return the device to run on; say what to do where there is none of the target's kind."""
    try:
        return detect(asked or ("cpu" if target == "cpu" else "cuda"))
    except MissingToolError:
        raise MissingToolError(
            f"this bundle is for {target}, and torch {torch.__version__} sees no GPU here; take the whole folder to a "
            "machine that has one, or install a torch that is built for it (https://pytorch.org/get-started/locally/)"
        ) from None


def _judged(judge: Acceptance, folder: Path, asked: Asked, tried: int) -> Evaluation:
    candidate = read_record(Candidate, folder / CANDIDATES / f"{asked.candidate}.json")
    language = get_language(candidate.language)
    here = language.available()
    built: Build = language.build(candidate) if here.ok else here.missing()
    if built.status is not BuildStatus.OK:
        return unbuilt(candidate, built)
    found = judge.accept(candidate, built, tried=tried, seeds=asked.seeds)
    return found.model_copy(update={"tried": tried, "build": built.model_copy(update={"artefact": None})})


def _returned(bundle: Bundle, device: Device, judge: Acceptance, environment: dict[str, str]) -> Returned:
    return Returned(
        bundle=bundle.key,
        device=device,
        environment=environment,
        bounds=judge.bounds,
        notes=judge.notes,
        absent=judge.absent,
    )


def _say(event: Event) -> None:
    print(f"[{event.elapsed_s:7.1f} s] {event.event}", file=sys.stderr, flush=True)
