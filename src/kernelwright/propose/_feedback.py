"""Evaluation → feedback for a model or an agent: enough to fix and improve a candidate, nothing hidden.

Covers: compiler messages, the failed check, speedup and its limits on the search workloads, which term of
the bound binds and how far it is, static evidence, how many cores it kept busy, profiler counters.
Does not cover: hidden and confirm workloads (only that one failed, and at which check), seeds, tolerances,
expected values, error figures: none of these is in the result.
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
from ._relevance import bottleneck_of
from ._relevance import relevant as relevant_to

_MOST_DIAGNOSTICS = 4_000
_MOST_SOURCE = 24_000
_HEADERS = (".h", ".hpp", ".cuh", ".inl")


@dataclass(frozen=True)
class Shown:
    """One candidate as shown to a model."""

    key: str
    """The candidate's key, to refer to it."""
    language: str
    """Its language."""
    entry: str
    """Its entry."""
    reason: str
    """What it was intended to try."""
    sources: tuple[SourceFile, ...]
    """Its files, without Kernelwright's own headers."""
    parameters: Mapping[str, Scalar]
    """The configuration it was rendered with."""
    standing: str
    """Its outcome in one line."""
    diagnostics: str
    """Compiler messages, shortened; empty if there were none."""
    findings: tuple[str, ...]
    """Checks that failed or could not run."""
    times: tuple[str, ...]
    """One line for each search workload that was timed, or whose time was modelled."""
    evidence: tuple[str, ...]
    """Static facts and the problems they indicate."""
    counters: tuple[str, ...]
    """Profiler counters, one line each."""
    works: bool
    """Whether it built and no check failed."""


def shown(evaluation: Evaluation, task: Task, bounds: Sequence[Bound], *, relevant: bool = False) -> Shown:
    """Return what a model may know about an evaluation; `relevant` counters only, or all of them."""
    candidate, build = evaluation.candidate, evaluation.build
    built = build.status is BuildStatus.OK
    failed = {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    rejected = evaluation.decision.status in failed and not evaluation.is_executed
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
        counters=_counters(evaluation, bounds) if relevant else tuple(map(str, evaluation.counters)),
        works=built and not rejected,
    )


def shown_sources(sources: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """Return the files to show: without the headers included in every kernel, and of limited length."""
    kept = [s for s in sources if not s.path.endswith(_HEADERS)] or list(sources)
    return tuple(
        s if len(s.text) <= _MOST_SOURCE else SourceFile(path=s.path, text=shortened(s.text, _MOST_SOURCE))
        for s in kept
    )


def shortened(text: str, most: int) -> str:
    """Keep only the beginning and the end of a text that is too long.

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
    if evaluation.is_executed:
        return "right, executed and not timed here; no claim, but an order: the less the better"
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
        if found.status is CheckStatus.PASS or evaluation.is_executed:
            continue
        if found.workload in search:
            where = f" on {found.workload}" if found.workload else ""
            lines.append(f"{found.check}{where}: {found.message}")
        else:
            lines.append(f"{found.check}: failed on sizes, layouts or values that are not shown")
    return tuple(lines)


def _times(evaluation: Evaluation, task: Task, bounds: Sequence[Bound]) -> tuple[str, ...]:
    if evaluation.is_executed:
        return tuple(f"on {made.workload}, {made}" for made in evaluation.modelled)
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
        if bound is not None and bound.attainable_us and timed.time_us:
            share = bound.attainable_us / timed.time_us
            line += f"; {share:.0%} of what {bound.limit} allows ({bound.attainable_us:.1f} us)"
        lines.append(line)
    return tuple(lines)


def _counters(evaluation: Evaluation, bounds: Sequence[Bound]) -> tuple[str, ...]:
    """Name the bottleneck's class, and count only what matters for it."""
    bottleneck = bottleneck_of(evaluation, tuple(bounds))
    kept = [c for counters in evaluation.counters if (c := relevant_to(counters, bottleneck)) is not None]
    return (*map(str, kept), f"class: bound by {bottleneck}") if evaluation.counters else ()


def _cores(evaluation: Evaluation, workload: str) -> str:
    """Describe how many cores each variant kept busy: its process's CPU time over wall time; empty on a GPU."""
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
