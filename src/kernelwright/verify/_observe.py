"""Call a candidate once on a case and note everything the checks look at."""

from ._case import Case
from ._protocol import Observation
from ._trial import Trial


def observe(trial: Trial, case: Case) -> Observation:
    """Lay the case out, call, fetch; raises `WorkerFailure` where the worker gave up."""
    placed = trial.place(case)
    fetched = trial.call(placed)[0]
    return Observation(
        case=case,
        contract=trial.problem.task.contract,
        fetched=fetched,
        arguments_after=trial.arguments(placed[0]),
        state_after=placed[0].worker.state(deadline_s=trial.limit_s()) if case.state else None,
        guards_intact=trial.guards_intact(),
    )
