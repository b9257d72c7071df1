"""Checkout → which problems load, and on which no win can count."""

import math
from collections.abc import Iterator

from ..bound import traffic
from ..devices import detect
from ..errors import KernelwrightError
from ..records import Record, Split
from ..system.deadline import deadline
from ..tasks import Problem
from ..tasks.capture import recorded
from ..verify import admit
from ._both import Setup, sizes_of
from ._programs import ProgramForm, fault_of_program
from ._records import SuiteProblem

_ANSWERED_BY = {"zeros": "answered by zeros", "mean": "answered by a constant", "stale": "input-independent"}
"""What it means that a task's checks let a mutant pass."""


class Diagnosis(Record):
    """What is wrong with one problem, if anything."""

    problem: str
    """The problem's name."""
    loads: bool
    """Whether it becomes a task."""
    reason: str = ""
    """Why it does not load, or why its checks could not be tried; empty otherwise."""
    sizes: str = ""
    """`declared`, or what was shrunk."""
    passing: tuple[str, ...] = ()
    """Wrong answers that our checks let pass on it."""
    tried: int = 0
    """How many wrong answers were tried."""
    moved_bytes: int = 0
    """Bytes that any kernel must move on the first search workload, from which its bound follows; 0 if not asked."""

    @property
    def degenerate(self) -> bool:
        """Whether no win on it can count."""
        return bool(self.passing)

    @property
    def says(self) -> str:
        """Say it in words.

        Example:
            >>> Diagnosis(problem="level2/80", loads=True, passing=("zeros",)).says
            'degenerate: answered by zeros'
        """
        if self.passing:
            return "degenerate: " + ", ".join(_ANSWERED_BY.get(name, name) for name in self.passing)
        return self.reason or "fit to judge by"


def diagnose(given: Setup, problems: tuple[SuiteProblem, ...], *, admits: bool) -> Iterator[Diagnosis]:
    """Load every problem, and with `admits` try our mutants on it; each within the setup's minutes."""
    for problem in problems:
        yield _one(given, problem, admits=admits)


def _one(given: Setup, problem: SuiteProblem, *, admits: bool) -> Diagnosis:
    sizes, loads = "", False
    try:
        if isinstance(given.suite, ProgramForm):
            return _program(given, given.suite, problem)
        with deadline(given.minutes * 60), given.task(problem) as task:
            sizes, loads = sizes_of(task), True
            if not admits:
                return Diagnosis(problem=problem.name, loads=True, sizes=sizes)
            live = Problem(task)
            admission = admit(live, deadline_s=given.minutes * 60 if given.minutes else math.inf)
            moved = moved_bytes(live)
            reason = "" if moved else "it has no bound: no byte of it must be read or written"
            if not admission.caught:
                reason = "no wrong answer could be tried: the native op is not accurate enough"
            return Diagnosis(
                problem=problem.name, loads=True, sizes=sizes, passing=admission.passing, reason=reason,
                tried=len(admission.caught), moved_bytes=moved,
            )  # fmt: skip
    except TimeoutError:
        reason = f"not done within {given.minutes:g} minutes"
    except KernelwrightError as error:
        reason = " ".join(str(error).split())
    except Exception as error:  # noqa: BLE001  the problem's own code, which one diagnosis must survive
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return Diagnosis(problem=problem.name, loads=loads, sizes=sizes, reason=reason)


def _program(given: Setup, suite: ProgramForm, problem: SuiteProblem) -> Diagnosis:
    with deadline(given.minutes * 60):
        said = fault_of_program(suite, given.data, problem, detect(given.device).kind)
    return Diagnosis(problem=problem.name, loads=not said, reason=said, sizes="" if said else "declared")


def moved_bytes(problem: Problem) -> int:
    """Return the bytes that any kernel must move on the first search workload; 0 for views, which have no bound."""
    workload = problem.task.split(Split.SEARCH)[0]
    return traffic(recorded(problem, workload), workload, problem.task.contract).total_bytes
