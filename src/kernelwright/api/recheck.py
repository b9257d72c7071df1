"""Judge an exported package again, here and now: after an upgrade, on another machine.

Package ─▶ Task, Candidates ─▶ verify ─▶ measure ─▶ holds, or does not

Covers: every kernel of the package in full, with fresh seeds and nothing taken from a store; files of the package that
are not what was judged.
Does not cover: the guard, and files of the package that are no kernels; what every verification does not.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ..deploy import JUDGED, Claim, Judged
from ..devices import detect
from ..errors import InputError
from ..flow import bounded
from ..languages import get_language
from ..records import (
    Budget,
    Candidate,
    Decision,
    DecisionStatus,
    Evaluation,
    Interval,
    Record,
    VerdictStatus,
)  # fmt: skip
from ..search import Judge, OnEvent, Search, open_judge, unbuilt, usable_languages
from ..store import Store
from ..tasks import Problem
from .judge import judging_options

__all__ = ["Recheck", "recheck"]

Status = Literal["holds", "no longer holds", "cannot tell"]


class Recheck(Record):
    """What became of one kernel's claim."""

    candidate: str
    """The candidate's key."""
    status: Status
    """Whether it is right, honest and faster here."""
    reason: str
    """Why, in one sentence."""
    claimed: Interval | None
    """The speedup on its claim sheet."""
    speedup: Interval | None
    """The speedup now; none where it was not timed."""


def recheck(
    folder: Path,
    *,
    device: str | None = None,
    baselines: Sequence[str] = (),
    on_event: OnEvent | None = None,
) -> tuple[Recheck, ...]:
    """Judge every kernel of a package again, on the search workloads that it serves.

    Args:
        folder: The package's folder, with `claim.json`.
        device: `cpu`, `cuda` or `cuda:N`; by default the first GPU, else the CPU.
        baselines: Native forms to beat, as for `optimize`; by default those that the claim names.
        on_event: Called with each event while it happens.

    Raises:
        InputError: the folder holds no package, one exported before there was a `judged.json`, or one that was changed.
        MissingToolError: a kernel's language lacks its tools here.
    """
    claim, judged = _read(folder)
    used, task = detect(device), judged.task
    usable_languages(tuple({c.language for c in judged.candidates}), used)
    with tempfile.TemporaryDirectory(prefix="kernelwright-recheck-") as made, Store(made) as store:
        options = judging_options(task, used, baselines or claim.baselines)
        record = store.create_run(task, device=used.fingerprint, budget=Budget(), seed=0, options=options)
        setting, problem = Search.of(store, record, used, on_event), Problem(task)
        with setting.supervised(), open_judge(setting, problem, lambda: bounded(setting, problem)) as judge:
            return tuple(_again(judge, candidate, claim) for candidate in judged.candidates)


def _read(folder: Path) -> tuple[Claim, Judged]:
    """Read what the package claims, and what it was judged as; its kernels must be just that."""
    try:
        claim = Claim.from_json((folder / "claim.json").read_text())
        judged = Judged.from_json((folder / JUDGED).read_text())
    except FileNotFoundError as error:
        raise InputError(
            f"{folder} lacks {Path(error.filename).name}; expected an exported package: `kernelwright export RUN --to "
            "FOLDER` writes one"
        ) from None
    except ValidationError as error:
        raise InputError(f"{folder} holds a claim that cannot be read: {error.errors()[0]['msg']}") from None
    if judged.task.key != claim.task_key:
        raise InputError(f"{folder / JUDGED} is of another task than the claim; export the package again")
    for candidate in judged.candidates:
        _require_unchanged(folder, candidate)
    return claim, judged


def _require_unchanged(folder: Path, candidate: Candidate) -> None:
    homes = list(folder.glob(f"**/specialisations/{candidate.language}-{candidate.key}"))
    for file in candidate.sources:
        if (
            not homes
            or not (homes[0] / file.path).is_file()
            or (homes[0] / file.path).read_text() != file.text
        ):
            raise InputError(
                f"{file.path} of specialisation {candidate.language}-{candidate.key} in {folder} is not what was "
                "judged; export the package again"
            )


def _again(judge: Judge, candidate: Candidate, claim: Claim) -> Recheck:
    """Put one kernel through the whole of the acceptance, on what it serves."""
    serves = [workload for workload, key in claim.serves.items() if key == candidate.key]
    build = get_language(candidate.language).build(candidate)
    found = (
        unbuilt(candidate, build)
        if build.status != "ok"
        else judge.accept(candidate, build, workloads=serves)
    )
    status, reason = _status(found)
    before = next((d for d in claim.decisions if d.candidate == candidate.key), None)
    return Recheck(
        candidate=candidate.key,
        status=status,
        reason=reason,
        claimed=_speedup(before),
        speedup=_speedup(found.decision),
    )


def _speedup(decision: Decision | None) -> Interval | None:
    return decision.speedup if decision is not None else None


def _status(found: Evaluation) -> tuple[Status, str]:
    """Say what an evaluation means for a claim that the kernel is right and faster."""
    verdict, decision = found.verdict, found.decision
    if verdict is not None and verdict.status is VerdictStatus.REJECTED:
        said = next((f"{f.check}: {f.message}" for f in verdict.findings if f.check == verdict.failure), "")
        return "no longer holds", said or decision.reason
    match decision.status:
        case DecisionStatus.IMPROVED:
            return "holds", decision.reason
        case DecisionStatus.REJECTED | DecisionStatus.EQUAL | DecisionStatus.SLOWER:
            return "no longer holds", decision.reason
    return "cannot tell", decision.reason
