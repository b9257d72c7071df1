"""An evaluation → what a model or an agent is told of it: enough to fix and improve, nothing of what is hidden.

Covers: the compiler's words, the failed check, speedup and its limits on the search workloads, which term of
the bound binds and how far it is, static evidence, how many cores it kept busy, what profilers counted.
Does not cover: hidden and confirm workloads (only that one failed, and at which check), seeds, tolerances,
expected values, figures of errors: none of these is in what is returned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..records import (
    Bound,
    BuildStatus,
    CheckStatus,
    DecisionStatus,
    Evaluation,
    Scalar,
    SourceFile,
    Split,
    Task,
)  # fmt: skip

_MOST_DIAGNOSTICS = 4_000
_MOST_SOURCE = 24_000
_HEADERS = (".h", ".hpp", ".cuh", ".inl")


@dataclass(frozen=True)
class Shown:
    """One candidate as a model sees it."""

    key: str
    """The candidate's key, to speak of it."""
    language: str
    """Its language."""
    entry: str
    """Its entry."""
    reason: str
    """What it was meant to try."""
    sources: tuple[SourceFile, ...]
    """Its files, headers of ours left out."""
    parameters: Mapping[str, Scalar]
    """The configuration it was rendered with."""
    standing: str
    """One line: what came of it."""
    diagnostics: str
    """The compiler's words, shortened; empty where it built without any."""
    findings: tuple[str, ...]
    """Checks that failed or could not run."""
    times: tuple[str, ...]
    """A line for each search workload that was timed."""
    evidence: tuple[str, ...]
    """Static facts and what they hold against it."""
    counters: tuple[str, ...]
    """What profilers counted, a line for each of them."""
    works: bool
    """Whether it built and no check failed."""


def shown(evaluation: Evaluation, task: Task, bounds: Sequence[Bound]) -> Shown:
    """Say what a model may know of an evaluation."""
    candidate, build = evaluation.candidate, evaluation.build
    built = build.status is BuildStatus.OK
    rejected = evaluation.decision.status in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    return Shown(
        key=candidate.key,
        language=candidate.language,
        entry=candidate.entry,
        reason=candidate.reason,
        sources=shown_sources(candidate.sources),
        parameters=candidate.parameters,
        standing=_standing(evaluation),
        diagnostics=shortened(build.diagnostics.strip(), _MOST_DIAGNOSTICS) if not built else "",
        findings=_findings(evaluation, task),
        times=_times(evaluation, task, bounds),
        evidence=(*(f"{k} = {v}" for k, v in build.evidence.items()), *build.findings),
        counters=tuple(map(str, evaluation.counters)),
        works=built and not rejected,
    )


def shown_sources(sources: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """Return the files to show: not the headers that come with every kernel, and none without end."""
    kept = [s for s in sources if not s.path.endswith(_HEADERS)] or list(sources)
    return tuple(
        s if len(s.text) <= _MOST_SOURCE else SourceFile(path=s.path, text=shortened(s.text, _MOST_SOURCE))
        for s in kept
    )


def shortened(text: str, most: int) -> str:
    """Keep the beginning and the end of a text that is too long.

    Example:
        >>> shortened("abcdefghij", 4)
        'abc\\n... 6 characters left out ...\\nj'
    """
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most - most * 3 // 4
    return f"{text[:head]}\n... {len(text) - most} characters left out ...\n{text[-tail:]}"


def _standing(evaluation: Evaluation) -> str:
    decision, build = evaluation.decision, evaluation.build
    if build.status is not BuildStatus.OK:
        return f"did not build ({build.status})"
    if decision.alarms:
        return f"rejected, too good to be true: {', '.join(decision.alarms)}"
    if evaluation.verdict is not None and evaluation.verdict.failure:
        return f"wrong: the check {evaluation.verdict.failure!r} failed"
    if decision.lost and decision.speedup is None:
        return f"its gain was lost: {decision.lost}"
    if decision.speedup is None:
        return f"not timed ({decision.status})"
    lost = f"; its gain was lost: {decision.lost}" if decision.lost else ""
    return f"{decision.speedup} times the speed of {decision.baseline or 'the baseline'}: {decision.status}{lost}"


def _findings(evaluation: Evaluation, task: Task) -> tuple[str, ...]:
    if evaluation.verdict is None:
        return ()
    search = {w.name for w in task.split(Split.SEARCH)} | {""}
    lines = []
    for found in evaluation.verdict.findings:
        if found.status is CheckStatus.PASS:
            continue
        if found.workload in search:
            where = f" on {found.workload}" if found.workload else ""
            lines.append(f"{found.check}{where}: {found.message}")
        else:
            lines.append(f"{found.check}: failed on sizes, layouts or values that are not shown")
    return tuple(lines)


def _times(evaluation: Evaluation, task: Task, bounds: Sequence[Bound]) -> tuple[str, ...]:
    search = {w.name for w in task.split(Split.SEARCH)}
    bound_of = {bound.workload: bound for bound in bounds}
    lines = []
    for timed in evaluation.decision.workloads:
        if timed.workload not in search:
            continue
        line = f"{timed.workload}: {timed.time_us:.1f} us, {timed.speedup} times as fast as {timed.baseline}"
        if busy := _cores(evaluation, timed.workload):
            line += f"; {busy}"
        bound = bound_of.get(timed.workload)
        if bound is not None and bound.time_us and timed.time_us:
            share = bound.time_us / timed.time_us
            line += f"; {share:.0%} of what {bound.binding} allows ({bound.time_us:.1f} us)"
        lines.append(line)
    return tuple(lines)


def _cores(evaluation: Evaluation, workload: str) -> str:
    """Say how many cores each variant kept busy: its process's CPU time over the wall clock; nothing on a GPU."""
    timing = evaluation.timing
    if timing is None or not timing.device.startswith("cpu"):
        return ""
    blocks = [b for b in timing.blocks if b.workload == workload and not b.repeated]
    busy = {
        variant.name: [
            b.cpu_us[variant.name] / b.times_us[variant.name] for b in blocks if b.cpu_us.get(variant.name)
        ]
        for variant in timing.variants
    }
    return ", ".join(
        f"{name} keeps {median(shares):.1f} cores busy" for name, shares in busy.items() if shares
    )
