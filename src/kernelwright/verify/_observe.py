"""Call a candidate once on a case and note everything the checks look at."""

from ..records import Contract
from ..tasks import aliases
from ._case import Case
from ._protocol import Observation
from ._trial import Trial


def observe(trial: Trial, case: Case) -> Observation:
    """Lay the case out, call, fetch; raises `WorkerFailure` where the worker gave up."""
    placed = trial.place(case)
    fetched = trial.call(placed)[0]
    shared = any(fact.aliases for fact in fetched.facts)
    return Observation(
        case=case,
        contract=_at(case, trial) if shared else trial.problem.task.contract,
        fetched=fetched,
        arguments_after=trial.arguments(placed[0]),
        state_after=placed[0].worker.state(deadline_s=trial.limit_s()) if case.state else None,
        guards_intact=trial.guards_intact(),
        device=trial.device,
    )


def _at(case: Case, trial: Trial) -> Contract:
    """Return the contract as it is where the reference itself returns what it was given."""
    contract, problem = trial.problem.task.contract, trial.problem
    if contract.may_alias or not aliases(problem, case.workload, case.inputs, dict(case.state)):
        return contract
    return contract.model_copy(update={"may_alias": True})
