"""Runs → steps: each candidate with its parents and its judgement, as training data."""

from collections.abc import Iterator

from ..records import DecisionStatus, Finding, Interval, Record, SourceFile
from ..store import Store


class Step(Record):
    """One candidate of a run: its parents, the edit and the decision."""

    run: str
    """The run's id."""
    task: str
    """The task's key."""
    task_name: str
    """The task's name."""
    device: str
    """Fingerprint of the device."""
    number: int
    """Position in the run, from 0."""
    candidate: str
    """The candidate's key."""
    parents: tuple[str, ...]
    """Keys of the candidates it was made from."""
    proposer: str
    """The proposer or editor that made it."""
    edit: str
    """The edit in words."""
    language: str
    """Its language."""
    sources: tuple[SourceFile, ...]
    """Its files."""
    parameters: dict[str, bool | int | float | str | None]
    """Its configuration, if a template rendered it."""
    build: str
    """The build status, and the compiler's messages if it failed."""
    findings: tuple[Finding, ...]
    """The findings of checks that did not pass."""
    decision: DecisionStatus
    """The decision."""
    reason: str
    """Reason for the decision."""
    speedup: Interval | None
    """Over the faster baseline."""
    stage: str
    """How far it went."""


def steps_of(store: Store, run: str) -> Iterator[Step]:
    """Yield the steps of a run in order, including what hidden workloads revealed."""
    record = store.run(run)
    for number, e in enumerate(store.evaluations(record.id)):
        candidate, build = e.candidate, e.build
        yield Step(
            run=record.id,
            task=record.task,
            task_name=record.task_name,
            device=record.device,
            number=number,
            candidate=candidate.key,
            parents=candidate.parents,
            proposer=candidate.proposer,
            edit=candidate.reason,
            language=candidate.language,
            sources=candidate.sources,
            parameters=candidate.parameters,
            build=f"{build.status}: {build.diagnostics}".removesuffix(": ") if build.status != "ok" else "ok",
            findings=tuple(f for f in e.verdict.findings if f.status != "pass") if e.verdict else (),
            decision=e.decision.status,
            reason=e.decision.reason,
            speedup=e.decision.speedup,
            stage=e.stage,
        )
