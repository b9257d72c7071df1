"""Derives every lesson again from the evaluations in the store, and reports which differ.

Covers: lessons changed by hand, lost evaluations, decisions that do not follow from their raw blocks.
Does not cover: imported lessons, whose evidence is elsewhere; they are marked as imported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..errors import NotFoundError
from ..records import Evaluation
from ..store import Store
from ._extract import lessons_of
from ._lesson import Lesson
from ._recall import kept_lessons

Finding = Literal["reproduced", "differs", "no evidence", "imported"]


@dataclass(frozen=True)
class Audited:
    """One lesson, and whether it can be reproduced."""

    lesson: Lesson
    finding: Finding
    """`differs`: its evidence gives another result; `no evidence`: its run or candidates are gone."""


def audit(
    store: Store, recheck: Callable[[str, Evaluation], bool] = lambda _run, _evaluation: True
) -> list[Audited]:
    """Audit every lesson in the store.

    Args:
        store: Where the lessons and the evaluations are.
        recheck: `recheck(run, evaluation)`: whether a decision is reproduced from its raw blocks.
    """
    drawn: dict[str, set[str]] = {}
    findings = []
    for lesson in kept_lessons(store):
        run = lesson.evidence.run
        if lesson.source:
            findings.append(Audited(lesson, "imported"))
            continue
        if run not in drawn:
            drawn[run] = _derived_again(store, run)
        findings.append(Audited(lesson, _finding(store, lesson, drawn[run], recheck)))
    return findings


def _finding(
    store: Store, lesson: Lesson, drawn: set[str], recheck: Callable[[str, Evaluation], bool]
) -> Finding:
    run = lesson.evidence.run
    named = {lesson.evidence.child, lesson.evidence.parent} - {""}
    used = [e for e in store.evaluations(run) if e.candidate.key in named]
    if len(used) < len(named):
        return "no evidence"
    return "reproduced" if lesson.key in drawn and all(recheck(run, e) for e in used) else "differs"


def _derived_again(store: Store, run: str) -> set[str]:
    try:
        return {lesson.key for lesson in lessons_of(store, run)}
    except NotFoundError:
        return set()
