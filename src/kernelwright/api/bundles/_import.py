"""Records from a device → checked, decided, stored.

Covers: what a file changed, swapped or left out on the way looks like; see the package's docstring.
Does not cover: times made up on the device with every hash to fit.
"""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from ...errors import InputError
from ...measure import CANDIDATE, decide, left_out
from ...records import (
    Bound,
    Budget,
    BuildStatus,
    Candidate,
    Evaluation,
    Record,
    RunStatus,
    Split,
    Task,
    VerdictStatus,
)  # fmt: skip
from ...search import Judgement, decides_alike, judgement_of, unbuilt
from ...store import EvaluationKey, Store
from ._manifest import (
    ASKED,
    CANDIDATES,
    DEVICE,
    EVALUATIONS,
    KEPT,
    KEPT_FILES,
    KEPT_RECORDS,
    MANIFEST,
    RECORDS,
    RUN,
    TASK,
    Asked,
    Bundle,
    Returned,
    check_manifest,
    files_of,
    is_of,
    read_record,
)  # fmt: skip

_RUN_IT = "run the bundle again"


class Imported(Record):
    """What came of a bundle."""

    run: str
    """The run of the store that holds its evaluations."""
    device: str
    """The device's name."""
    judgements: tuple[Judgement, ...]
    """One for each candidate, decided here."""


def import_records(folder: Path, store: Store) -> Imported:
    """Check the records of a bundle that was run elsewhere, decide on every candidate, and store the evaluations.

    Args:
        folder: The bundle's folder, with `records/`.
        store: The store that the bundle was written with.

    Raises:
        InputError: the folder is no bundle that this store wrote, was not run yet, or its records are not what was
            asked for, not complete or not consistent, or are in the store already.
    """
    bundle, task = _asked(folder, store)
    records = folder / RECORDS
    if not records.is_dir():
        raise InputError(f"{folder} holds no records yet; run `python3 run.py` in it on {bundle.target}")
    check_manifest(records, ("",))
    digest = _digest_of_new(records, store)
    returned = read_record(Returned, records / DEVICE)
    _check_device(bundle, task, returned)
    found = [_checked(folder, asked, bundle, task, returned) for asked in bundle.candidates]
    known = {f"{asked.candidate}.json" for asked in bundle.candidates}
    if extra := sorted(p.name for p in (records / EVALUATIONS).iterdir() if p.name not in known):
        raise InputError(f"the records hold {extra[0]}, which this bundle did not ask for; {_RUN_IT}")
    _check_files(folder, bundle, store)
    imported = _stored(store, bundle, task, returned, [_decided(e, task, returned.bounds) for e in found])
    store.keep(KEPT_RECORDS, digest, {digest: f"{digest} {imported.run}"})
    return imported


def _digest_of_new(records: Path, store: Store) -> str:
    """Return the hash of the records' manifest; records that are in the store already count once."""
    digest = hashlib.sha256((records / MANIFEST).read_bytes()).hexdigest()
    for line in store.kept(KEPT_RECORDS):
        known, _, run = line.partition(" ")
        if known == digest:
            raise InputError(
                f"these records were imported already, as run {run}; `kernelwright show {run}` has it"
            )
    return digest


def _asked(folder: Path, store: Store) -> tuple[Bundle, Task]:
    """Return what the bundle asks for; it must be what the store remembers, file by file."""
    if not (folder / ASKED).is_file():
        raise InputError(f"{folder} holds no {ASKED}; expected a folder that `kernelwright bundle` wrote")
    check_manifest(folder, (CANDIDATES,))
    bundle, task = read_record(Bundle, folder / ASKED), read_record(Task, folder / TASK)
    if bundle.to_json() not in store.kept(KEPT):
        raise InputError(f"{folder} is no bundle that the store in {store.folder} wrote; name the right one with "
                         "--store, or write the bundle again")  # fmt: skip
    if task.key != bundle.task:
        raise InputError(f"{folder / TASK} is another task than {bundle.task_name!r}, which was asked for")
    return bundle, task


def _check_files(folder: Path, bundle: Bundle, store: Store) -> None:
    """Every file must be the one that was written, those that judge there among them."""
    written = [line for line in store.kept(KEPT_FILES) if line.startswith(f"{bundle.key} ")]
    if written and files_of(folder, bundle) not in written:
        raise InputError(
            f"{folder / MANIFEST} is not what this store wrote, so a file was swapped that judges there, such as "
            f"{RUN} or the wheel; write the bundle again"
        )


def _check_device(bundle: Bundle, task: Task, returned: Returned) -> None:
    if returned.bundle != bundle.key:
        raise InputError(f"the records are of bundle {returned.bundle}, and this is {bundle.key}; {_RUN_IT}")
    if not is_of(bundle.target, returned.device):
        raise InputError(
            f"the records are of {returned.device.name!r}, which is not {bundle.target}; {_RUN_IT} there"
        )
    for bound in returned.bounds:
        if bound.device != returned.device.fingerprint:
            raise InputError(
                f"the bound of {bound.workload} is of another device than the records; {_RUN_IT}"
            )
    names = {bound.workload for bound in returned.bounds}
    lacking = [w.name for w in task.split(Split.SEARCH) if w.name not in names]
    if returned.bounds and lacking:
        raise InputError(f"the records hold no bound of workload {lacking[0]}; {_RUN_IT}")


def _checked(folder: Path, asked: Asked, bundle: Bundle, task: Task, returned: Returned) -> Evaluation:
    """Return the evaluation of one candidate, if it is of what was asked for and all there."""
    path = folder / RECORDS / EVALUATIONS / f"{asked.candidate}.json"
    if not path.is_file():
        raise InputError(f"the records hold nothing of candidate {asked.candidate}; {_RUN_IT}")
    found = read_record(Evaluation, path)
    given = read_record(Candidate, folder / CANDIDATES / path.name)
    if not given.key == found.candidate.key == asked.candidate:
        raise InputError(f"{path.name} is of candidate {found.candidate.key}, which is not the one asked for")
    if found.tried != len(bundle.candidates):
        raise InputError(
            f"{path.name} counts {found.tried} candidates, and {len(bundle.candidates)} were asked for"
        )
    verdict = found.verdict
    if verdict is None:
        if found.build.status is BuildStatus.OK:
            raise InputError(f"candidate {asked.candidate} was built but holds no verdict; {_RUN_IT}")
        return found
    if verdict.candidate != asked.candidate:
        raise InputError(f"the verdict in {path.name} is of candidate {verdict.candidate}; {_RUN_IT}")
    _check_seeds(found, asked, task)
    if verdict.status is VerdictStatus.ACCEPTED:
        _check_blocks(found, bundle, task, returned)
        if not decides_alike(found, returned.bounds, task.contract):
            raise InputError(
                f"the decision on candidate {asked.candidate} does not follow from its blocks; {_RUN_IT}"
            )
    return found


def _check_seeds(found: Evaluation, asked: Asked, task: Task) -> None:
    """Every seed must be one of those asked for, in their order; an accepted verdict has used one per workload."""
    used = found.verdict.seeds if found.verdict else ()
    if used != asked.seeds[: len(used)]:
        raise InputError(
            f"candidate {asked.candidate} was verified with other seeds than those asked for; {_RUN_IT}"
        )
    least = 1 + len(task.split(Split.HIDDEN)) + len(task.split(Split.CONFIRM))
    if found.verdict and found.verdict.status is VerdictStatus.ACCEPTED and len(used) < least:
        raise InputError(
            f"candidate {asked.candidate} was verified with {len(used)} of {least} seeds; {_RUN_IT}"
        )


def _check_blocks(found: Evaluation, bundle: Bundle, task: Task, returned: Returned) -> None:
    """Raw blocks of every search workload, with the candidate and every baseline, from this device."""
    key, timing, verdict = found.candidate.key, found.timing, found.verdict
    assert verdict is not None
    if timing is None:
        raise InputError(f"candidate {key} was verified but not timed ({found.decision.reason}); {_RUN_IT}")
    if timing.device != returned.device.fingerprint:
        raise InputError(f"candidate {key} was timed on another device than the records name; {_RUN_IT}")
    loaded = {v.content for v in timing.variants if v.name == CANDIDATE}
    if loaded != {key}:
        raise InputError(
            f"the worker loaded {', '.join(sorted(loaded)) or 'nothing'} instead of candidate {key}"
        )
    timed = {b.workload for b in timing.blocks if not b.repeated}
    early = {b.phase for b in timing.blocks} == {"refuter"}
    served = [w.name for w in task.split(Split.SEARCH) if w.name not in verdict.unsupported]
    for name in () if early else served:
        if name not in timed:
            raise InputError(f"the records hold no block of workload {name} for candidate {key}; {_RUN_IT}")
    slow = left_out(timing)
    for block in timing.blocks:
        absent = {b for b in bundle.baselines if (b, block.workload) in returned.absent}
        wanted = {CANDIDATE, *bundle.baselines} - absent - slow
        times = [block.times_us.get(name, math.nan) for name in wanted]
        if set(block.order) != set(block.times_us) or not all(math.isfinite(t) and t > 0 for t in times):
            raise InputError(
                f"a block of workload {block.workload} lacks a time of {', '.join(sorted(wanted))}; {_RUN_IT}"
            )


def _decided(found: Evaluation, task: Task, bounds: Sequence[Bound]) -> Evaluation:
    """Decide here, from the raw blocks alone."""
    if found.verdict is None:
        return unbuilt(found.candidate, found.build)
    decision = decide(found.timing, found.verdict, bounds, task.contract, tried=found.tried)
    return found.model_copy(update={"decision": decision})


def _stored(
    store: Store, bundle: Bundle, task: Task, returned: Returned, found: Sequence[Evaluation]
) -> Imported:
    device = returned.device
    run = store.create_run(
        task,
        device=device.fingerprint,
        budget=Budget(),
        seed=0,
        options={
            "device": device.torch_device, "tuner": "", "judged": True, "baselines": bundle.baselines,
            "bundle": bundle.key,
        },
    )  # fmt: skip
    metadata: dict[str, JsonValue] = {
        "environment": {**returned.environment}, "task": task.name, "device": device.name, "target": device.target,
    }  # fmt: skip
    told: tuple[tuple[str, dict[str, JsonValue]], ...] = (
        ("run", metadata),
        ("bound", {"bounds": [b.model_dump(mode="json") for b in returned.bounds]}),
        ("imported", {"bundle": bundle.key, "notes": list(returned.notes)}),
    )
    for event, data in told:
        store.append_event(run.id, {"event": event, "run": run.id, "elapsed_s": 0.0, **data})
    for evaluation in found:
        key = EvaluationKey(
            candidate=evaluation.candidate.key,
            task=task.key,
            device=device.fingerprint,
            toolchain=evaluation.build.toolchain,
            harness=bundle.harness,
        )
        store.save_evaluation(run.id, key, evaluation, elapsed_s=evaluation.time_s)
    names = [w.name for w in task.split(Split.SEARCH)]
    judgements = tuple(judgement_of(run, evaluation, names) for evaluation in found)
    store.finish_run(run.id, RunStatus.FINISHED, judgements[-1].model_dump(mode="json"))
    return Imported(run=run.id, device=device.name, judgements=judgements)
