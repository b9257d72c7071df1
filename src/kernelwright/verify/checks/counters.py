"""The answer does not depend on how often a Python kernel was called, however late it would show."""

import secrets
from collections.abc import Mapping, Sequence

from ...records import CheckStatus, Finding
from ...sandbox import WorkerFailure
from .._case import Case
from .._protocol import Depth, blamed, passed
from .._trial import Trial
from .correct import compare_outputs

_LEAST_CALLS, _MORE_CALLS = 2, 7
_LOOKS = 4
_AHEAD = (10**4, 10**5, 10**6, 10**9, 10**12)
"""Calls by which a counter is moved ahead."""
_CALLS = 5
"""Calls after each move; more than one, for what goes wrong in some of them."""


class CountersMoved:
    """Find numbers that grow with every call by the same amount, move them far ahead, and call again.

    A counter is no fault: the answer must not depend on it.

    Covers: numbers and lengths that a Python candidate keeps, as `sandbox._counters` finds them.
    Does not cover: compiled candidates (`nothing-kept`); counts that are kept as something else than a number or a
    length, such as a checksum; windows between the numbers that are tried.
    """

    name = "counters-moved"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first answer that is wrong once counters are far ahead."""
        if case.state_after or case.mutated:
            return passed(self.name)
        steps = _steps(trial, case)
        if not steps:
            return passed(self.name, counters=0)
        with trial.another(trial.oracle) as moved:
            placed = moved.place(case)[0]
            for ahead in _AHEAD:
                when = f"once {_named(steps)} stands as after {ahead:,} calls, "
                try:
                    placed.worker.counters({path: step * ahead for path, step in steps.items()})
                    answers = moved.call([placed] * _CALLS)
                except WorkerFailure as failure:
                    return blamed(moved, self.name, failure, when)
                for fetched in answers:
                    found = compare_outputs(self.name, fetched, case, when)
                    if found.status is CheckStatus.FAIL:
                        return found
        return passed(self.name, counters=len(steps))


def _steps(trial: Trial, case: Case) -> dict[str, float]:
    """Return the numbers that grow with every call, and by how much."""
    placed = trial.place(case)[0]
    looks: list[Mapping[str, float]] = []
    calls: list[int] = []
    for _ in range(_LOOKS):
        calls.append(_LEAST_CALLS + secrets.randbelow(_MORE_CALLS))
        placed.worker.call([placed.number] * calls[-1], deadline_s=trial.limit_s())
        looks.append(placed.worker.counters())
        if not looks[-1]:
            return {}
    return counted(looks, calls[1:])


def counted(looks: Sequence[Mapping[str, float]], calls: Sequence[int]) -> dict[str, float]:
    """Return the numbers that changed by the same amount in every call: path → amount.

    Args:
        looks: Path → number at each look.
        calls: How often was called between each look and the next.

    Example:
        >>> counted([{"n": 1, "at": 0, "rows": 8}, {"n": 7, "at": 3, "rows": 8}, {"n": 11, "at": 1, "rows": 8}], [3, 2])
        {'n': 2.0}
    """
    steps: dict[str, float] = {}
    for path in set.intersection(*(set(look) for look in looks)):
        rates = {
            (after[path] - before[path]) / n
            for before, after, n in zip(looks, looks[1:], calls, strict=False)
        }
        if len(rates) == 1 and (step := rates.pop()):
            steps[path] = step
    return dict(sorted(steps.items()))


def _named(steps: Mapping[str, float]) -> str:
    first, *others = steps
    return f"{first!r}" + (f" and {len(others)} more" if others else "")
