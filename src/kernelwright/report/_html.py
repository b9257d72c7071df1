"""Story → one HTML file."""

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
from ._story import Story, failure_kind

_HEADLINES = {
    DecisionStatus.IMPROVED: "faster, and accepted",
    DecisionStatus.EQUAL: "no gain worth having",
    DecisionStatus.SLOWER: "slower than what is there",
    DecisionStatus.INCONCLUSIVE: "not decided: the interval is too wide",
    DecisionStatus.REJECTED: "rejected",
    DecisionStatus.UNKNOWN: "unknown: a check could not run",
}


def render(story: Story) -> str:
    """Render the report as one HTML document that loads nothing from anywhere.

    Candidates' sources and messages are hostile text: everything is escaped.
    """
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["us"] = microseconds
    winner, decision = story.winner, story.decision
    formatter = HtmlFormatter(nowrap=True)
    return environment.get_template("report.html").render(
        story=story,
        winner=winner,
        decision=decision,
        headline=_headline(story),
        style=Markup((here / "report.css").read_text() + _syntax_style()),
        headroom=headroom(_levels(story)) if _levels(story) else "",
        intervals=intervals(_rows(winner), story.task.contract.least_effect),
        timeline=timeline(_points(story), _levels(story, kernel=False)),
        failures=counts(story.failures()),
        candidates=[_candidate_row(e, s) for e, s in zip(story.evaluations, story.finished_s, strict=True)],
        sources=_highlighted(winner, formatter) if winner else [],
        diff=_diff(story, winner, formatter) if winner else "",
        findings=winner.verdict.findings if winner and winner.verdict else (),
        beside=any(s.warm_speedup for s in story.standings),
        conditions=winner.timing.conditions if winner and winner.timing else "",
    )


def _headline(story: Story) -> str:
    if story.decision:
        return _HEADLINES[story.decision.status]
    return "not finished" if story.unfinished else "nothing better found"


def _levels(story: Story, kernel: bool = True) -> list[Level]:
    decision = story.decision or max(
        (e.decision for e in story.evaluations if e.decision.workloads), key=lambda d: d.blocks, default=None
    )
    if decision is None:
        return []
    levels = [Level("bound", decision.bound_us, "bound")] if decision.bound_us else []
    if kernel and decision.time_us and story.best:
        levels.append(Level("kernel", decision.time_us, "kernel"))
    times = _baseline_times(story)
    return levels + [
        Level(name, time_us, "baseline") for name, time_us in sorted(times.items(), key=lambda t: t[1])
    ]


def _baseline_times(story: Story) -> dict[str, float]:
    """Median microseconds of each baseline leg, geometric mean over workloads, from the raw blocks."""
    from statistics import geometric_mean, median

    source = story.winner or next((e for e in reversed(story.evaluations) if e.timing), None)
    if source is None or source.timing is None:
        return {}
    samples: dict[str, dict[str, list[float]]] = {}
    for block in source.timing.blocks:
        if not block.repeated and block.phase != "warm":
            for leg, time_us in block.times_us.items():
                samples.setdefault(leg, {}).setdefault(block.workload, []).append(time_us)
    return {
        leg: geometric_mean([median(times) for times in by_workload.values()])
        for leg, by_workload in samples.items()
        if leg != "candidate"
    }


def _rows(winner: Evaluation | None) -> list[tuple[str, float, float, float]]:
    workloads = winner.decision.workloads if winner else ()
    return [
        (w.workload, w.speedup.median, w.speedup.low or w.speedup.median, w.speedup.high or w.speedup.median)
        for w in workloads
    ]


def _points(story: Story) -> list[Point]:
    return [
        Point(
            at_s,
            e.decision.time_us,
            str(e.decision.status),
            f"{_title(e)}: {microseconds(e.decision.time_us)}",
        )
        for e, at_s in zip(story.evaluations, story.finished_s, strict=True)
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
    """Name a candidate by its template and the settings that the template's name does not tell already."""
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


def _diff(story: Story, winner: Evaluation, formatter: "HtmlFormatter[str]") -> Markup:
    parents = [e.candidate for e in story.evaluations if e.candidate.key in winner.candidate.parents]
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
