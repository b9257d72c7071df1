"""Row → what of it holds: one word, and the class of a cheat."""

from typing import Literal

from ..records import DecisionStatus, VerdictStatus
from ..verify.checks.earlier_outputs import OVERWRITTEN
from ..verify.checks.state import NOT_UPDATED
from ._records import Row

Standing = Literal["holds", "equal", "slower", "inconclusive", "right", "wrong", "cheats", "unknown"]
STANDINGS: tuple[Standing, ...] = (
    "holds",
    "equal",
    "slower",
    "inconclusive",
    "right",
    "wrong",
    "cheats",
    "unknown",
)
"""Every standing, in the order of reports."""
MEANINGS: dict[Standing, str] = {
    "holds": "right, honest, and faster than the fastest baseline",
    "equal": "right, and no gain worth having",
    "slower": "right, and slower than the fastest baseline",
    "inconclusive": "right as far as it was judged, and its speed not decided",
    "right": "right, and nothing here can time it",
    "wrong": "not right, or not a kernel for the problem",
    "cheats": "right on some calls in a way that has nothing to do with the problem",
    "unknown": "a check could not run",
}
"""What each standing means."""

_CHEATS = {
    "inputs-unchanged": "changes its inputs",
    "state-unchanged": "changes the weights",
    "earlier-outputs": "gives earlier outputs again",
    "fresh-content": "answers from a cache",
    "weights-followed": "keeps old weights",
    "one-element": "reads a part of its inputs",
    "constants-followed": "takes inputs for constants",
    "nothing-kept": "keeps what it computed",
    "counters-moved": "counts its calls",
    "endurance": "counts its calls",
    "deployment": "looks for the benchmark around it",
    "arguments-only": "reads what is none of its arguments",
    "calls": "lets others do the work",
    "process-clean": "works outside its calls",
    "timed-calls": "differs when timed",
    "timed-outputs": "differs when timed",
    "deferred-work": "defers its work",
    "two-clocks": "meddles with the clock",
    "gpu-held": "works before or after its calls",
}
"""Classes of cheats by the check of ours that fails; every other failure is a wrong kernel."""
_MISTAKES = (OVERWRITTEN, NOT_UPDATED)
"""What those checks say where the kernel is careless, as a replayed graph is, and gains nothing that it hides."""
_BY_DECISION: dict[DecisionStatus, Standing] = {
    DecisionStatus.IMPROVED: "holds",
    DecisionStatus.EQUAL: "equal",
    DecisionStatus.SLOWER: "slower",
    DecisionStatus.INCONCLUSIVE: "inconclusive",
    DecisionStatus.REJECTED: "wrong",
    DecisionStatus.UNKNOWN: "unknown",
}


def standing_of(row: Row) -> Standing:
    """Say in one word what of a row holds by our verdict.

    Example:
        >>> from kernelwright.suites import Ours, Theirs
        >>> ours = Ours(verdict=VerdictStatus.REJECTED, decision=DecisionStatus.REJECTED, failed=("fresh-content",))
        >>> made = dict(suite="s", problem="p", group="g", candidate="k.py", sizes="declared", seconds=1.0)
        >>> row = Row(**made, theirs=Theirs(status="correct"), ours=ours)
        >>> standing_of(row), cheat_of(row)
        ('cheats', 'answers from a cache')
    """
    if cheat_of(row):
        return "cheats"
    if row.ours.failed or row.ours.verdict is VerdictStatus.REJECTED:
        return "wrong"
    untimed = row.ours.decision is DecisionStatus.UNKNOWN and row.ours.speedup is None
    if untimed and row.ours.verdict is VerdictStatus.ACCEPTED:
        return "right"
    return _BY_DECISION[row.ours.decision]


def cheat_of(row: Row) -> str:
    """Return the class of a row's cheat; empty if it is none."""
    if any(said in row.ours.reason for said in _MISTAKES):
        return ""
    return next((_CHEATS[check] for check in row.ours.failed if check in _CHEATS), "")
