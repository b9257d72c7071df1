"""Admission: does the task itself refuse wrong answers? What it lets pass makes every win worthless."""

import math
import time
from collections import Counter
from collections.abc import Iterator

from ..records import CheckStatus, Finding, Record, Split, Task, TensorSpec, Workload
from ..tasks import Problem, unvaried
from ..tasks.inputs.regimes import LONE, SPECIAL, kind_of
from ._case import Case, Oracle, Seeds
from ._error import error_against
from ._mutants import DOWNCASTS, Material, mutants, random_mutants
from ._two_sample import differences

ADMISSION = "admission"
"""Name of the check that `Admission.finding` reports."""


_AS_DECLARED = frozenset({"declared", SPECIAL, "small-integers", *LONE})
"""Regimes that adapt nothing: the declared one, and those that only special comparisons suit."""
_TELLING = ("mixed", "negatives", "normal")
_DRAWS = 4
"""Seeds on which a mutant is tried that none before refused: the few elements of a loss come out right by chance."""
_REDRAWS = 3
"""Further seeds where the native op itself is not accurate enough on one, as where a draw holds a near-singular
matrix."""


class Admission(Record):
    """Which wrong answers a task refuses."""

    task: str
    """The task's name."""
    caught: dict[str, bool]
    """By mutant: whether some workload that candidates are judged on refuses it."""
    cases: int
    """Workloads and seeds tried."""
    unusable: tuple[str, ...] = ()
    """Search workloads on which the native op itself does not meet the contract, whatever was drawn."""
    redrawn: dict[str, int] = {}
    """By search workload: draws on which it does not, until one was found on which it does."""
    adapted: dict[str, str] = {}
    """By mutant that no search workload refuses: the value regime that does; `declared` where another size does."""
    unvaried: tuple[str, ...] = ()
    """Arguments and buffers that hold the same values in every draw, so that a kernel may rely on them unseen."""

    @property
    def passing(self) -> tuple[str, ...]:
        """The wrong answers that nothing refuses."""
        return tuple(name for name, caught in self.caught.items() if not caught)

    @property
    def degenerate(self) -> bool:
        """Whether no win on the task can count."""
        return bool(self.passing) or not self.caught

    @property
    def finding(self) -> Finding:
        """The admission as a finding to put into verdicts: unknown where the task is degenerate."""
        if not self.degenerate:
            return Finding(check=ADMISSION, status=CheckStatus.PASS)
        what = ", ".join(self.passing) or "nothing could be tried"
        return Finding(check=ADMISSION, status=CheckStatus.UNKNOWN, message=f"the task is degenerate: {what}")


def admit(
    problem: Problem,
    *,
    oracle: Oracle | None = None,
    deadline_s: float = math.inf,
) -> Admission:
    """Try every mutant on the search workloads, with the same comparison that candidates meet.

    A mutant that equals the right answer on a case (a stale output of a constant task) counts as not caught
    there; what passes is tried on more draws, as candidates are. Mutants that the declared inputs let pass (the
    input itself for a ReLU of positive numbers) are tried again on adapted ones: the hidden and confirm workloads of
    other value regimes, which every candidate must pass too. Downcasts alone may be caught at other sizes: a sum of
    millions is allowed what a loop in float32 loses, which can be more than an output in half precision is off by.
    A task is degenerate where a mutant is caught on none.

    Args:
        problem: The task.
        oracle: Expected values to share; those of its screenings are what mutants are tried on first.
        deadline_s: Seconds for the whole.

    Raises:
        TimeoutError: the deadline came first.
    """
    oracle, drawn = oracle or Oracle(problem), _Drawn(time.monotonic() + deadline_s)
    caught: dict[str, bool] = {}
    cases = 0
    search = problem.task.split(Split.SEARCH)
    for number, workload in enumerate(search * _DRAWS):
        if number >= len(search) and (workload.name in drawn.unusable or all(caught.values())):
            continue
        case = drawn.usable_case(oracle, workload, oracle.screen_seed if number < len(search) else None)
        if case is None:
            continue
        cases += 1
        for name, refused in _tried(oracle, case):
            caught[name] = caught.get(name, False) or refused
    adapted: dict[str, str] = {}
    for workload in _adapted(problem.task):
        passed = {name for name, refused in caught.items() if not refused}
        if workload.regime == "declared":
            passed &= DOWNCASTS.keys()
        if not passed:
            continue
        case = drawn.usable_case(oracle, workload)
        for name, refused in _tried(oracle, case) if case is not None else ():
            if refused and name in passed:
                caught[name], adapted[name] = True, workload.regime
    return Admission(
        task=problem.task.name, caught=caught, cases=cases, adapted=adapted, unvaried=unvaried(problem),
        unusable=tuple(w.name for w in search if w.name in drawn.unusable),
        redrawn={w.name: drawn.redrawn[w.name] for w in search if w.name in drawn.redrawn},
    )  # fmt: skip


class _Drawn:
    """Draws cases within a deadline, another in place of one on which the native op itself is not accurate enough."""

    def __init__(self, end: float) -> None:
        self._end, self._seeds, self._used = end, Seeds(), set[str]()
        self.unusable = set[str]()
        """Workloads of which no draw was usable."""
        self.redrawn = Counter[str]()
        """By workload of which one was: how many were not."""

    def usable_case(self, oracle: Oracle, workload: Workload, seed: int | None = None) -> Case | None:
        """Return a case to try wrong answers on, first that of `seed`; None if so many draws gave none."""
        for tried in range(1 + _REDRAWS):
            if time.monotonic() >= self._end:
                raise TimeoutError("the deadline of the admission came first")
            case = oracle.case(workload, self._seeds.draw() if tried or seed is None else seed)
            if case.usable:
                self.redrawn += Counter({workload.name: tried})
                self._used.add(workload.name)
                return case
        self.unusable |= {workload.name} - self._used
        return None


def _tried(oracle: Oracle, case: Case) -> Iterator[tuple[str, bool]]:
    """Yield each mutant's name and whether it is refused on the case."""
    return (_random if oracle.task.contract.stochastic else _fixed)(oracle, case)


def _adapted(task: Task) -> list[Workload]:
    """Return the workloads whose values are not as declared, mixed regimes first; then those of other sizes."""
    others = [w for w in task.workloads if kind_of(w.regime) not in _AS_DECLARED]
    searched = {_shapes(w) for w in task.split(Split.SEARCH)}
    sizes = [w for w in task.workloads if w.regime == "declared" and _shapes(w) not in searched]
    return sorted(others, key=lambda w: w.regime not in _TELLING) + sizes


def _shapes(workload: Workload) -> tuple[tuple[int, ...], ...]:
    return tuple(s.shape for s in workload.arguments if isinstance(s, TensorSpec))


def _fixed(oracle: Oracle, case: Case) -> Iterator[tuple[str, bool]]:
    """Yield each wrong answer's name and whether the comparison refuses it."""
    for name, outputs in mutants(_material(oracle.problem, case.workload, case)):
        yield (
            name,
            any(not error_against(o, r, case.tensors).ok for o, r in zip(outputs, case.outputs, strict=True)),
        )


def _random(oracle: Oracle, case: Case) -> Iterator[tuple[str, bool]]:
    """Yield each wrong way to draw and whether the tests of the distribution refuse it."""
    sampled_outputs = oracle.sampled_outputs(case)
    count = case.calls
    drawn = oracle.problem.draws(case.workload, case.inputs, case.state, count, case.seed + (1 << 20))
    cases = len(oracle.task.workloads) * len(sampled_outputs)
    for name, calls in random_mutants(drawn, case.tensors):
        columns = zip(sampled_outputs, zip(*calls, strict=True), strict=True)
        yield name, any(differences(sampled, outputs, cases) for sampled, outputs in columns)


def _material(problem: Problem, workload: Workload, case: Case) -> Material:
    other = case.seed + 1
    stale = problem.run_reference(workload, problem.inputs(workload, other), case.state)
    changed = any(t.is_floating_point() for t in case.state.values())
    weights = None
    if changed:
        weights = problem.run_reference(workload, case.inputs, problem.state(workload, other)).outputs
    return Material(tuple(r.output for r in case.outputs), stale.outputs, weights, case.tensors)
