"""Report data → one HTML file."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from ..records import DecisionStatus, Evaluation
from ._charts import Level, Point, counts, headroom, intervals, microseconds, timeline
from ._data import ReportData, failure_kind

_HEADLINES = {
    DecisionStatus.IMPROVED: "faster, and accepted",
    DecisionStatus.EQUAL: "no gain worth having",
    DecisionStatus.SLOWER: "slower than what is there",
    DecisionStatus.INCONCLUSIVE: "not decided: the interval is too wide",
    DecisionStatus.REJECTED: "rejected",
    DecisionStatus.UNKNOWN: "unknown: a check could not run",
}


def render(report_data: ReportData) -> str:
    """Render the report as one HTML document without external resources.

    Candidates' sources and messages are untrusted text: everything is escaped.
    """
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["us"] = microseconds
    winner, decision = report_data.winner, report_data.decision
    formatter = HtmlFormatter(nowrap=True)
    return environment.get_template("report.html").render(
        report_data=report_data,
        winner=winner,
        decision=decision,
        headline=_headline(report_data),
        style=Markup((here / "report.css").read_text() + _syntax_style()),
        headroom=headroom(_levels(report_data)) if _levels(report_data) else "",
        intervals=intervals(_rows(winner), report_data.task.contract.least_effect),
        timeline=timeline(_points(report_data), _levels(report_data, kernel=False)),
        failures=counts(report_data.failures()),
        candidates=[
            _candidate_row(e, s) for e, s in zip(report_data.evaluations, report_data.finished_s, strict=True)
        ],
        sources=_highlighted(winner, formatter) if winner else [],
        diff=_diff(report_data, winner, formatter) if winner else "",
        findings=winner.verdict.findings if winner and winner.verdict else (),
        shows_warm=any(s.warm_speedup for s in report_data.standings),
        conditions=winner.timing.conditions if winner and winner.timing else "",
    )


def _headline(report_data: ReportData) -> str:
    if report_data.decision:
        return _HEADLINES[report_data.decision.status]
    return "not finished" if report_data.unfinished else "nothing better found"


def _levels(report_data: ReportData, kernel: bool = True) -> list[Level]:
    decision = report_data.decision or max(
        (e.decision for e in report_data.evaluations if e.decision.workloads),
        key=lambda d: d.blocks,
        default=None,
    )
    if decision is None:
        return []
    levels = [Level("bound", decision.bound_us, "bound")] if decision.bound_us else []
    if kernel and decision.time_us and report_data.best:
        levels.append(Level("kernel", decision.time_us, "kernel"))
    times = _baseline_times(report_data)
    return levels + [
        Level(name, time_us, "baseline") for name, time_us in sorted(times.items(), key=lambda t: t[1])
    ]


def _baseline_times(report_data: ReportData) -> dict[str, float]:
    """Microseconds of each baseline variant, geometric mean over workloads, from the raw blocks that decided.

    Next to a kernel each is what the kernel takes, times the median ratio to it in the same block: on a busy machine
    medians of their own would show another order than the decision.
    """
    from statistics import geometric_mean, median

    source = report_data.winner or next((e for e in reversed(report_data.evaluations) if e.timing), None)
    if source is None or source.timing is None:
        return {}
    own_us = source.decision.time_us
    samples: dict[str, dict[str, list[float]]] = {}
    for block in source.timing.blocks:
        kernel_us = block.times_us.get("candidate", 0.0)
        if block.repeated or block.phase in ("warm", "confirm"):
            continue
        for variant, time_us in block.times_us.items():
            found = time_us / kernel_us if own_us and kernel_us else time_us
            samples.setdefault(variant, {}).setdefault(block.workload, []).append(found)
    return {
        variant: (own_us or 1.0) * geometric_mean([median(times) for times in by_workload.values()])
        for variant, by_workload in samples.items()
        if variant != "candidate"
    }


def _rows(winner: Evaluation | None) -> list[tuple[str, float, float, float]]:
    workloads = winner.decision.workloads if winner else ()
    return [
        (w.workload, w.speedup.median, w.speedup.low or w.speedup.median, w.speedup.high or w.speedup.median)
        for w in workloads
    ]


def _points(report_data: ReportData) -> list[Point]:
    return [
        Point(
            at_s,
            e.decision.time_us,
            str(e.decision.status),
            f"{_title(e)}: {microseconds(e.decision.time_us)}",
        )
        for e, at_s in zip(report_data.evaluations, report_data.finished_s, strict=True)
        if e.decision.time_us > 0
    ]


def _candidate_row(evaluation: Evaluation, at_s: float) -> dict[str, object]:
    decision = evaluation.decision
    return {
        "at": f"{at_s:.1f} s",
        "key": evaluation.candidate.key,
        "title": _title(evaluation),
        "language": evaluation.candidate.language,
        "status": str(decision.status),
        "time": microseconds(decision.time_us) if decision.time_us else "",
        "speedup": f"{decision.speedup.median:.2f}×" if decision.speedup else "",
        "note": failure_kind(evaluation) or decision.reason,
        "stage": evaluation.stage + (", cached" if evaluation.cached else ""),
    }


def _title(evaluation: Evaluation) -> str:
    """Return a candidate's title: its template and the settings not already in the template's name."""
    candidate = evaluation.candidate
    name = candidate.template or candidate.proposer
    settings = [f"{k}={v}" for k, v in candidate.parameters.items() if not (isinstance(v, str) and v in name)]
    return " ".join([name, *settings])


def _highlighted(winner: Evaluation, formatter: "HtmlFormatter[str]") -> list[tuple[str, Markup]]:
    shown = [s for s in winner.candidate.sources if not s.path.endswith((".h", ".hpp"))]
    return [(s.path, _coloured(s.path, s.text, formatter)) for s in shown]


def _coloured(path: str, text: str, formatter: "HtmlFormatter[str]") -> Markup:
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    return Markup(highlight(text, lexer, formatter))  # Pygments escapes the text


def _diff(report_data: ReportData, winner: Evaluation, formatter: "HtmlFormatter[str]") -> Markup:
    parents = [e.candidate for e in report_data.evaluations if e.candidate.key in winner.candidate.parents]
    if not parents:
        return Markup("")
    lines: list[str] = []
    for source in winner.candidate.sources:
        before = next((s.text for s in parents[0].sources if s.path == source.path), "")
        lines += _unified(before, source.text, source.path)
    return _coloured("change.diff", "".join(lines), formatter)


def _unified(before: str, after: str, path: str) -> Sequence[str]:
    return list(
        difflib.unified_diff(
            before.splitlines(True), after.splitlines(True), f"parent/{path}", f"kernel/{path}"
        )
    )


def _syntax_style() -> str:
    light = HtmlFormatter(style="friendly").get_style_defs(".code")  # type: ignore[no-untyped-call]  # untyped
    dark = HtmlFormatter(style="monokai").get_style_defs(".code")  # type: ignore[no-untyped-call]  # untyped
    return (
        f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n.code {{ background: var(--panel); }}"
    )
