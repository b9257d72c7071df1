"""A benchmark's rows → one HTML file, a CSV and a Markdown file."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from markupsafe import Markup

from ..suites import (
    MEANINGS,
    STANDINGS,
    Change,
    Row,
    Summary,
    by_group,
    changes,
    cheat_of,
    curve,
    fast_p,
    gain_ours,
    standing_of,
    summary_of,
)
from ._charts import counts, curves

_GOOD, _NEUTRAL = {"holds"}, {"equal", "slower", "inconclusive", "right", "unknown"}
_AT = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""The values of p that tables show."""


@dataclass(frozen=True)
class SuiteReport:
    """What a report of rows shows."""

    title: str
    """The benchmarks' names, or what was audited."""
    rows: Sequence[Row]
    """Both verdicts."""
    earlier: Sequence[Row] = ()
    """Rows of an earlier run to compare with."""
    reproduce: str = ""
    """The command that wrote the report."""
    notes: Sequence[str] = field(default=())
    """Sentences on what the rows are, shown below the headline."""

    @property
    def summary(self) -> Summary:
        """The headline."""
        return summary_of(self.rows)

    @property
    def changed(self) -> tuple[Change, ...]:
        """What changed since the earlier run."""
        return changes(self.rows, self.earlier) if self.earlier else ()


def render_suite(told: SuiteReport) -> str:
    """Render rows as one HTML document without external resources; names and reasons are escaped."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    summary = told.summary
    styles = {**dict.fromkeys(_GOOD, "kernel"), **dict.fromkeys(_NEUTRAL, "baseline")}
    return environment.get_template("suite.html").render(
        style=Markup((here / "report.css").read_text()),
        told=told,
        summary=summary,
        earlier=summary_of(told.earlier) if told.earlier else None,
        standings=counts(list(summary.standings.items()), "Rows by standing", styles),
        curves=_curves(told),
        groups=by_group(told.rows),
        at=[(p, *_at(told.rows, p)) for p in _AT],
        changed=told.changed,
        meanings={name: MEANINGS[name] for name in STANDINGS if name in summary.standings},
        rows=[_cells(row) for row in told.rows],
        claims=any(row.claimed is not None for row in told.rows),
    )


def suite_csv(rows: Sequence[Row]) -> str:
    """Return a line for each row, with a header.

    Example:
        >>> suite_csv([]).splitlines()[0][:21]
        'suite,problem,group,c'
    """
    out = io.StringIO()
    columns = (
        "suite", "problem", "group", "candidate", "sizes", "standing", "cheat", "theirs", "theirs_speedup",
        "theirs_flags", "ours", "decision", "speedup", "low", "high", "failed", "claimed", "stands_out", "reason",
        "run", "seconds",
    )  # fmt: skip
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        gain = row.ours.speedup
        writer.writerow((
            row.suite, row.problem, row.group, row.candidate, row.sizes, standing_of(row), cheat_of(row),
            row.theirs.status, row.theirs.speedup, ";".join(row.theirs.flags), row.ours.told, row.ours.decision,
            gain and gain.median, gain and gain.low, gain and gain.high, ";".join(row.ours.failed), row.claimed,
            ";".join(row.stands_out), row.ours.reason, row.ours.run, row.seconds,
        ))  # fmt: skip
    return out.getvalue()


def suite_markdown(told: SuiteReport) -> str:
    """Return headline, groups, changes, and the rows on which the verdicts differ, as Markdown."""
    summary = told.summary
    lines = [f"# {told.title}", "", headline(summary), *(f"\n{note}" for note in told.notes), ""]
    lines += ["| p | fast_p, theirs | fast_p, ours |", "|---|---|---|"]
    lines += [f"| {p:g} | {theirs:.1%} | {ours:.1%} |" for p in _AT for theirs, ours in [_at(told.rows, p)]]
    lines += ["", "| standing | rows | meaning |", "|---|---|---|"]
    lines += [
        f"| {name} | {summary.standings[name]} | {MEANINGS[name]} |"
        for name in STANDINGS
        if name in summary.standings
    ]
    lines += ["", "| group | rows | correct, theirs | accepted, ours | faster, ours | geomean, ours |"]
    lines += ["|---|---|---|---|---|---|"]
    lines += [
        f"| {name} | {g.problems} | {g.correct_theirs} | {g.accepted_ours} | {g.improved_ours} "
        f"| {g.geomean_ours:.2f} |"
        for name, g in by_group(told.rows).items()
    ]
    if told.earlier:
        lines += ["", f"{len(told.changed)} changes since the earlier run"]
        lines += [
            f"- {c.problem}: {c.before or 'absent'} → {c.after or 'absent'}, {c.factor:g}x"
            for c in told.changed
        ]
    differing = [row for row in told.rows if row.agree is False]
    if differing:
        lines += ["", "Where the verdicts differ:", ""]
        lines += [
            f"- {r.problem}: theirs {r.theirs.status}, ours {cheat_of(r) or standing_of(r)}"
            for r in differing
        ]
    return "\n".join(lines) + "\n"


def headline(summary: Summary) -> str:
    """Say the headline in one sentence.

    Example:
        >>> headline(summary_of([])).partition(";")[0]
        '0 problems: theirs 0 correct, fast_1 0.0%'
    """
    theirs = f"theirs {summary.correct_theirs} correct, fast_1 {summary.fast_1_theirs:.1%}"
    if summary.geomean_theirs is not None:
        theirs += f", geomean {summary.geomean_theirs:.2f}"
    screened = f" ({summary.screened_ours} as far as screened)" if summary.screened_ours else ""
    return (
        f"{summary.problems} problems: {theirs}; ours {summary.accepted_ours} accepted{screened}, "
        f"{summary.improved_ours} faster, fast_1 {summary.fast_1_ours:.1%}, geomean {summary.geomean_ours:.2f}; "
        f"{summary.inconclusive:.1%} inconclusive"
    )


def _at(rows: Sequence[Row], p: float) -> tuple[float, float]:
    return fast_p(tuple(rows), p), fast_p(tuple(rows), p, ours=True)


def _curves(told: SuiteReport) -> Markup:
    series = [
        ("by its rules", "baseline", curve(told.rows, ours=False)),
        ("by ours", "kernel", curve(told.rows, ours=True)),
    ]
    if told.earlier:
        series.append(("by ours, earlier", "kernel earlier", curve(told.earlier, ours=True)))
    return curves(series, "p: correct and more than p times as fast", "fast_p")


def _cells(row: Row) -> dict[str, str]:
    gain, said = row.ours.speedup, row.theirs.message.strip().splitlines()
    why = ", ".join(filter(None, (cheat_of(row), ", ".join(row.ours.failed)))) or row.ours.reason
    return {
        "problem": row.problem,
        "standing": standing_of(row),
        "theirs": row.theirs.status,
        "theirs_gain": f"{row.theirs.speedup:.2f}×" if row.theirs.speedup else "",
        "ours": f"{row.ours.told}, {row.ours.decision}",
        "gain": f"{gain.median:.2f}×" if gain else "",
        "limits": f"{gain.at_least:.2f} to {gain.at_most:.2f}" if gain and gain.low and gain.high else "",
        "counts": f"{gain_ours(row):.2f}×",
        "claimed": f"{row.claimed:.2f}×" if row.claimed is not None else "",
        "why": why,
        "their_reason": said[-1][:300] if said else "",
        "stands_out": "; ".join((*row.theirs.flags, *row.stands_out)),
        "differs": "differs" if row.agree is False else "",
        "sizes": row.sizes,
        "run": row.ours.run,
    }
