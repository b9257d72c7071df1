"""Open the judge of a run, and ask it again what it decided."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..measure import decide
from ..records import Bound, Contract, Decision, Evaluation, Timing
from ..tasks import Problem
from ._protocol import Judge
from ._search import Search
from .acceptance import Acceptance


@contextmanager
def open_judge(setting: Search, problem: Problem, bounds: Sequence[Bound]) -> Iterator[Judge]:
    """Yield the judge of a run and close its workers in the end."""
    baselines = setting.names("baselines")
    with Acceptance(problem, setting.device, bounds, baselines, setting.timing) as judge:
        yield judge
        for note in judge.notes:
            setting.say("baseline", message=f"not measured: {note}")


def recheck(evaluation: Evaluation, bounds: Sequence[Bound], contract: Contract) -> bool:
    """Decide again from the stored blocks and tell whether it comes out the same.

    What was not built has no blocks and nothing to decide.
    """
    if evaluation.verdict is None:
        return True
    timing, confirmation = _apart(evaluation.timing)
    again = decide(
        timing, evaluation.verdict, bounds, contract, tried=evaluation.tried, confirmation=confirmation
    )
    return _essence(again) == _essence(evaluation.decision)


def _apart(timing: Timing | None) -> tuple[Timing | None, Timing | None]:
    """Take the blocks of the confirmation out of a timing."""
    if timing is None:
        return None, None
    first = tuple(b for b in timing.blocks if b.phase != "confirm")
    later = tuple(b for b in timing.blocks if b.phase == "confirm")
    confirmation = timing.model_copy(update={"blocks": later}) if later else None
    return timing.model_copy(update={"blocks": first}), confirmation


def _essence(decision: Decision) -> Decision:
    """Leave out the bound's own figures: they are of the machine's peaks, measured again now and then."""
    workloads = tuple(w.model_copy(update={"bound_us": 0.0}) for w in decision.workloads)
    return decision.model_copy(update={"bound_us": 0.0, "workloads": workloads})
