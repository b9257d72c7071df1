"""Rows → a benchmark's headline by both verdicts, whole and by group, and what changed since an earlier run."""

from collections.abc import Callable, Mapping, Sequence
from math import exp, log

from ..records import DecisionStatus, Record, VerdictStatus
from ._records import Row, fast_p
from ._standing import STANDINGS, standing_of

STEPS = tuple(round(0.5 + 0.1 * i, 1) for i in range(46))
"""The values of p, from 0.5 to 5, at which curves are drawn."""


class Summary(Record):
    """What a set of rows comes to."""

    problems: int
    """Number of rows."""
    correct_theirs: int
    """Correct by the benchmark's rules."""
    accepted_ours: int
    """Accepted by our verdict: right and honest, whatever the speed."""
    screened_ours: int
    """How many of these as far as they were screened alone."""
    improved_ours: int
    """Accepted and faster than the fastest baseline."""
    disagree: int
    """Rows on which one verdict says right and the other does not."""
    undecided: int
    """Rows on which a verdict is missing."""
    inconclusive: float
    """Share of rows whose speed was not decided."""
    fast_1_theirs: float
    """fast_p at 1 by the benchmark's rules."""
    fast_1_ours: float
    """fast_p at 1 by ours, with the lower limit of the speedup."""
    geomean_theirs: float | None
    """Geometric mean of the benchmark's speedups over what it calls correct. None if nothing was timed."""
    geomean_ours: float
    """Geometric mean of our speedups, 1 where nothing was accepted as faster and the native op stays."""
    standings: dict[str, int]
    """Rows by standing."""


def summary_of(rows: Sequence[Row]) -> Summary:
    """Summarise rows.

    Example:
        >>> summary_of([]).geomean_ours
        1.0
    """
    theirs = [gain for r in rows if (gain := gain_theirs(r)) is not None]
    found = [standing_of(r) for r in rows]
    return Summary(
        problems=len(rows),
        correct_theirs=sum(r.theirs.status == "correct" for r in rows),
        accepted_ours=sum(r.ours.verdict is VerdictStatus.ACCEPTED for r in rows),
        screened_ours=sum(r.ours.verdict is VerdictStatus.ACCEPTED and r.ours.screened for r in rows),
        improved_ours=sum(r.ours.decision is DecisionStatus.IMPROVED for r in rows),
        disagree=sum(r.agree is False for r in rows),
        undecided=sum(r.agree is None for r in rows),
        inconclusive=_share(rows, lambda r: r.ours.decision is DecisionStatus.INCONCLUSIVE),
        fast_1_theirs=round(fast_p(tuple(rows), 1.0), 4),
        fast_1_ours=round(fast_p(tuple(rows), 1.0, ours=True), 4),
        geomean_theirs=_geomean(theirs) if theirs else None,
        geomean_ours=_geomean([gain_ours(r) for r in rows]) if rows else 1.0,
        standings={name: found.count(name) for name in STANDINGS if name in found},
    )


def by_group(rows: Sequence[Row]) -> dict[str, Summary]:
    """Summarise each level or category by itself."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return {name: summary_of(members) for name, members in groups.items()}


def curve(rows: Sequence[Row], *, ours: bool) -> tuple[tuple[float, float], ...]:
    """Return fast_p at every step of p."""
    return tuple((p, fast_p(tuple(rows), p, ours=ours)) for p in STEPS)


def gain_theirs(row: Row) -> float | None:
    """Return the benchmark's speedup of a row that it calls correct."""
    return row.theirs.speedup if row.theirs.status == "correct" else None


def gain_ours(row: Row) -> float:
    """Return the speedup that counts by our verdict: 1 unless it was accepted as faster."""
    improved = row.ours.decision is DecisionStatus.IMPROVED and row.ours.speedup is not None
    return row.ours.speedup.median if improved and row.ours.speedup else 1.0


class Change(Record):
    """What became of one problem since an earlier run."""

    problem: str
    """Its name."""
    before: str
    """What it was: standing by ours, status by theirs; empty if it was not there."""
    after: str
    """What it is; empty if it is not there any more."""
    factor: float
    """Our speedup now over the earlier one, each 1 where the native op stays; 1 if they are of different devices, whose
    times are not compared."""


def changes(rows: Sequence[Row], earlier: Sequence[Row]) -> tuple[Change, ...]:
    """Return the problems whose standing or verdict changed, or whose limits of the speedup no longer overlap."""
    now, then = {_name(r): r for r in rows}, {_name(r): r for r in earlier}
    found = []
    for name in dict.fromkeys((*then, *now)):
        before, after = _said(then, name), _said(now, name)
        both = name in now and name in then and _same_device(now[name], then[name])
        factor = gain_ours(now[name]) / gain_ours(then[name]) if both else 1.0
        if before != after or (factor != 1.0 and _apart(now[name], then[name])):
            found.append(
                Change(problem=name.rpartition(":")[2], before=before, after=after, factor=round(factor, 3))
            )
    return tuple(found)


def _name(row: Row) -> str:
    return f"{row.suite}:{row.problem}" if row.searched else f"{row.suite}:{row.candidate}:{row.problem}"


def _said(rows: Mapping[str, Row], name: str) -> str:
    row = rows.get(name)
    return f"{standing_of(row)}; theirs {row.theirs.status}" if row else ""


def _same_device(one: Row, other: Row) -> bool:
    """Whether the rows may be of one kind of machine; early rows do not name it."""
    return not (one.device and other.device) or one.device == other.device


def _apart(one: Row, other: Row) -> bool:
    first, second = one.ours.speedup, other.ours.speedup
    if first is None or second is None:
        return False
    return first.at_least > second.at_most or second.at_least > first.at_most


def _share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> float:
    return round(sum(map(holds, rows)) / len(rows), 4) if rows else 0.0


def _geomean(values: Sequence[float]) -> float:
    return round(exp(sum(map(log, values)) / len(values)), 4)
