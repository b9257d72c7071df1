"""What was accepted on this machine: for what, on what evidence, in which state; judged again after an upgrade.

Store ─▶ AcceptedRun ─▶ recheck of its package ─▶ in use, or native

Covers: every run in a store that accepted something, whole models too; packages that the store holds.
Does not cover: packages that were exported elsewhere; `kernelwright recheck DIR` judges those, and changes nothing.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..deploy import Installed, changed, installed, package_of, set_installed
from ..devices import Device, detect
from ..errors import InputError, KernelwrightError
from ..records import Interval, Record, Run
from ..search import OnEvent, accepted_of, accepted_with, environment_here, package_accepted
from ..store import Store
from .recheck import Recheck, recheck

__all__ = ["AcceptedRun", "Rechecked", "accepted_runs", "recheck_installed", "remove"]


class AcceptedRun(Record):
    """What one run accepted."""

    run: str
    """The run."""
    task: str
    """What it is for: the task's name."""
    candidates: tuple[str, ...]
    """Keys of the kernels."""
    speedup: Interval | None
    """Of the first over the faster native form."""
    baseline: str
    """That form."""
    workloads: tuple[str, ...]
    """Sizes that were timed."""
    package: str
    """Folder of the package in the store; empty where there is none."""
    differs: tuple[str, ...]
    """What is not as it was when the kernels were last found to hold: `recheck` tells whether that matters."""
    state: Installed
    """Whether they are in use."""


class Rechecked(Record):
    """What became of one run's kernels when they were judged again."""

    run: str
    """The run."""
    task: str
    """What it is for."""
    kernels: tuple[Recheck, ...]
    """One for each kernel; empty where they could not be judged."""
    state: Installed
    """Whether they are in use from now on."""
    switched: bool
    """Whether that is another state than before."""
    reason: str
    """Why, in one sentence."""


def accepted_runs(store: Store, names: Sequence[str] = ()) -> Iterator[AcceptedRun]:
    """Yield what was accepted, the newest first.

    Args:
        store: The store.
        names: Runs to be named; by default all. Runs that accepted nothing cannot be named.

    Raises:
        NotFoundError: there is no run of a name.
        InputError: a run that was named accepted nothing.
    """
    device = detect("cpu")
    for record in [store.run(name) for name in names] or store.runs():
        accepted = accepted_of(store, record)
        if not accepted:
            if names:
                raise InputError(
                    f"run {record.id} accepted no kernel; `kernelwright kernels` lists what was accepted"
                )
            continue
        state = installed(store, record.id)
        used = _device_of(record, device)
        now = environment_here(used, {e.candidate.language for e in accepted}) if used else {}
        decision = accepted[0].decision
        folder = package_of(store, record.id)
        yield AcceptedRun(
            run=record.id, task=record.task_name, candidates=tuple(e.candidate.key for e in accepted),
            speedup=decision.speedup, baseline=decision.baseline,
            workloads=tuple(w.workload for w in decision.workloads), package=str(folder) if folder.exists() else "",
            differs=changed(state.checked or accepted_with(store, record), now), state=state,
        )  # fmt: skip


def recheck_installed(
    store: Store,
    names: Sequence[str] = (),
    *,
    baselines: Sequence[str] = (),
    on_event: OnEvent | None = None,
    judge_again: Callable[..., Sequence[Recheck]] = recheck,
) -> Iterator[Rechecked]:
    """Judge accepted kernels again, and switch to native what no longer holds; what holds again is used again.

    Kernels of which nothing can be told stay as they are. What was removed is left out, unless it is named.

    Args:
        store: The store.
        names: Runs; by default all that accepted something.
        baselines: Native forms to beat; by default those that each was accepted against.
        on_event: Called with each event while it happens.
        judge_again: Judges a package; for tests.
    """
    for one in list(accepted_runs(store, names)):
        if one.state.state == "removed" and not names:
            continue
        try:
            found = _judged(store, one, baselines, on_event, judge_again)
        except KernelwrightError as error:
            yield _rechecked(one, (), one.state, f"cannot tell: {error}")
            continue
        yield _settled(store, one, found)


def remove(store: Store, name: str) -> AcceptedRun:
    """Take a run's kernels out of use: calls are native, and the run with its evidence stays in the store."""
    (one,) = accepted_runs(store, [name])
    state = Installed(run=one.run, state="removed", reason="removed by its owner")
    set_installed(store, state)
    return one.model_copy(update={"state": state})


def _judged(
    store: Store, one: AcceptedRun, baselines: Sequence[str], on_event: OnEvent | None,
    judge_again: Callable[..., Sequence[Recheck]],
) -> Sequence[Recheck]:  # fmt: skip
    """Judge a run's package; a run without one, as of a model put together of kernels, is packaged for this."""
    record = store.run(one.run)
    asked = record.options.get("baselines", ())
    options = {
        "device": str(record.options.get("device", "cpu")),
        "baselines": tuple(baselines) or (tuple(map(str, asked)) if isinstance(asked, tuple | list) else ()),
        "on_event": on_event,
    }
    if one.package:
        return judge_again(Path(one.package), **options)
    with tempfile.TemporaryDirectory(prefix="kernelwright-recheck-") as made:
        folder = Path(made) / "package"
        environment = accepted_with(store, record)
        package_accepted(store.task(record.task), record, accepted_of(store, record), folder, environment)
        return judge_again(folder, **options)


def _settled(store: Store, one: AcceptedRun, found: Sequence[Recheck]) -> Rechecked:
    failed = [r for r in found if r.status == "no longer holds"]
    unsure = [r for r in found if r.status == "cannot tell"]
    if not failed and unsure:
        return _rechecked(one, found, one.state, f"cannot tell: {unsure[0].reason}")
    if failed:
        state = Installed(run=one.run, state="native", reason=failed[0].reason)
    else:
        record = store.run(one.run)
        languages = {e.candidate.language for e in accepted_of(store, record)}
        now = environment_here(detect(str(record.options.get("device", "cpu"))), languages)
        state = Installed(run=one.run, checked=now)
    set_installed(store, state)
    return _rechecked(one, found, state, (failed or list(found))[0].reason)


def _rechecked(one: AcceptedRun, found: Sequence[Recheck], state: Installed, reason: str) -> Rechecked:
    return Rechecked(
        run=one.run, task=one.task, kernels=tuple(found), state=state, switched=state.state != one.state.state,
        reason=reason,
    )  # fmt: skip


def _device_of(record: Run, cpu: Device) -> Device | None:
    """Return the device that a run was for, where that is here."""
    name = str(record.options.get("device", "cpu"))
    if name == "cpu":
        return cpu
    try:
        return detect(name)
    except KernelwrightError:
        return None
