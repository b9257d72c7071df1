"""Problems → rows: each is searched by our optimiser, and what it finds is judged by the benchmark's rules too."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..bound import rates_of
from ..config import Settings
from ..devices import detect, peaks_of
from ..errors import NotFoundError
from ..flow import Result, optimize, resume
from ..records import Budget, Candidate, RunStatus, Split, Task
from ..search import Event, OnEvent, found_by, judgement_of
from ..store import DeviceLock, Store
from ._both import Setup, Sides, ours_of, row_of, theirs_of, unknown
from ._journal import Journal
from ._records import NATIVE, Ours, Row, SuiteProblem, Theirs


@dataclass(frozen=True)
class Searching:
    """How each problem is searched."""

    budget: Budget
    """What one problem may spend."""
    arguments: Mapping[str, Any]
    """Further arguments of `optimize`, the same for all problems: `proposers`, `seed`, `learn` ..."""

    @property
    def key(self) -> str:
        """Everything that a row follows from apart from the problem."""
        return self.budget.to_json() + repr(sorted(self.arguments.items()))


def search_all(
    given: Setup,
    problems: Sequence[SuiteProblem],
    searching: Searching,
    journal: Journal,
    *,
    ends_s: float = math.inf,
    on_event: OnEvent | None = None,
) -> Iterator[Row]:
    """Yield a row for every problem; those in the journal are not searched again, and one under way is continued.

    Args:
        given: How both verdicts are made.
        problems: What to search, in this order.
        searching: How.
        journal: Where rows are kept.
        ends_s: `time.monotonic` value by which all must be done: no problem is begun whose minutes do not fit before.
        on_event: Receives every event of all searches.

    Raises:
        StoreError: the store is broken.
        KeyboardInterrupt: interrupted; finished rows are kept, and the search under way can be continued.
    """
    ready = False
    for problem in problems:
        key = given.key(problem, searching.key)
        if key not in journal.rows:
            if not ready:
                _measure_once(given.device)
                ready = True
            if time.monotonic() + given.minutes * 60 > ends_s:
                return
            journal.keep(key, _searched(given, problem, searching, journal, key, on_event))
        yield journal.rows[key]


def _measure_once(name: str | None) -> None:
    """Measure what the device can reach, unless that is known, so that no problem's minutes are spent on it."""
    device = detect(name)
    with DeviceLock(Settings.from_environment().cache / "locks", device.fingerprint).hold():
        peaks_of(device)
        rates_of(device)


def _searched(
    given: Setup, problem: SuiteProblem, searching: Searching, journal: Journal, key: str, on_event: OnEvent | None
) -> Row:  # fmt: skip
    def follow(event: Event) -> None:
        journal.begin(key, event.run)
        if on_event is not None:
            on_event(event)

    def work(task: Task, sides: Sides) -> None:
        result = _continued(given, journal.begun.get(key, ""), follow) or optimize(
            task, budget=searching.budget, device=given.device, max_elements=given.max_elements, store=given.store,
            on_event=follow, **searching.arguments,
        )  # fmt: skip
        sides.ours, found = _found(given, result)
        if found is None:
            sides.theirs = Theirs(status="unknown", message="no kernel was found")
            return
        sides.candidate = f"run:{result.run}:{found.key}"
        submission = given.suite.submission(task, found)
        sides.theirs = (
            Theirs(status="unknown", message=f"a kernel in {found.language}, {found.style}, has no such form")
            if submission is None
            else theirs_of(given, problem, task, submission)
        )

    return row_of(given, problem, Sides(NATIVE), work, minutes=math.inf)


def _continued(given: Setup, run: str, follow: OnEvent) -> Result | None:
    """Continue a run that was begun, or return its result; None if there is none to continue."""
    if not run:
        return None
    try:
        with Store(given.store) as store:
            if store.run(run).status is RunStatus.FAILED:
                return None
    except NotFoundError:  # another store, or a new one
        return None
    return resume(run, store=given.store, on_event=follow)


def _found(given: Setup, result: Result) -> tuple[Ours, Candidate | None]:
    """Return our verdict on what a search accepted, else on the best that it found; and the candidate."""
    with Store(given.store) as store:
        run = store.run(result.run)
        try:
            found = found_by(store, run)
        except NotFoundError:
            return unknown(result.reason, result.run), None
        names = [w.name for w in store.task(run.task).split(Split.SEARCH)]
        judged = [e for e in store.evaluations(run.id) if e.candidate.key == found.key]
    ours = ours_of(judgement_of(run, max(judged, key=lambda e: e.stage == "full"), names))
    told = {"decision": result.decision, "speedup": result.speedup, "reason": result.reason or ours.reason}
    return ours.model_copy(update=told), found
