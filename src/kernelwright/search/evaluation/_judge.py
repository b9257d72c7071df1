"""Open the judge of a run, and recompute its decisions from stored records."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...measure import decide
from ...records import Bound, BoundTerm, Contract, Decision, Evaluation
from ...sandbox import Zygotes
from ...system.kept_memory import kept_memory
from ...tasks import Problem
from ..run._run import Search
from ._protocol import Judge
from .acceptance import Acceptance
from .remote import RemoteJudge


@contextmanager
def open_judge(
    setting: Search,
    problem: Problem,
    bounds: Sequence[Bound] | Callable[[], Sequence[Bound]],
    zygotes: Zygotes | None = None,
) -> Iterator[Judge]:
    """Yield the judge of a run and close its workers, including `zygotes`, at the end."""
    if setting.cluster is not None:
        found = bounds() if callable(bounds) else bounds
        yield RemoteJudge(setting, setting.cluster, problem.task, found)
        return
    with kept_memory(), Acceptance(
        problem, setting.device, bounds, setting.names("baselines"), setting.timing,
        languages=setting.names("languages"), emit=setting.emit, zygotes=zygotes,
    ) as judge:  # fmt: skip
        yield judge
        for note in judge.notes:
            setting.emit("baseline", message=f"not measured: {note}")


def decides_alike(evaluation: Evaluation, bounds: Sequence[Bound], contract: Contract) -> bool:
    """Decide again from the stored blocks and return whether the decision is the same.

    Bounds are taken from the decision, because an alarm may have remeasured the peaks since the run began. A
    candidate that was not built has no blocks and nothing to decide.
    """
    if evaluation.verdict is None:
        return True
    known = {w.workload: w.floor_us or w.bound_us for w in evaluation.decision.workloads if w.bound_us}
    held = [_bound_at(b, known.get(b.workload, b.time_us)) for b in bounds]
    again = decide(evaluation.timing, evaluation.verdict, held, contract, tried=evaluation.tried)
    return _essence(again) == _essence(evaluation.decision)


def _bound_at(bound: Bound, time_us: float) -> Bound:
    """Return the bound with another time in microseconds and the same slack."""
    term = BoundTerm(name="decided", amount=time_us, unit="bytes", peak=1e6, source="the decision")
    return bound.model_copy(update={"terms": (term,)})


def _essence(decision: Decision) -> Decision:
    """Drop the bound's own figures, which are inputs of the decision."""
    workloads = tuple(w.model_copy(update={"bound_us": 0.0, "floor_us": 0.0}) for w in decision.workloads)
    return decision.model_copy(update={"bound_us": 0.0, "workloads": workloads})
