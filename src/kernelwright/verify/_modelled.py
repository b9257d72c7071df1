"""A right candidate that nothing here can time → modelled times of its launches, one for each search workload."""

from ..errors import WorkerError
from ..records import Build, Candidate, CheckStatus, Finding, ModelledTime, Split, Workload
from ..sandbox import FailureKind, Pool, Worker, WorkerFailure
from ..system.waiting import PatientDeadline
from ._case import Oracle, Seeds
from ._protocol import blamed, passed, unknown
from ._trial import Trial, describe
from .checks.calls import computing_in
from .checks.correct import compare_outputs

MODELLED = "modelled"
"""The finding: the modelled time in words, or why there is none."""
_EVIDENCE = "sm_90.registers"
"""What the build says of the registers of the kernels that are executed."""


def modelled_times(
    oracle: Oracle, candidate: Candidate, build: Build, *, pool: Pool, deadline_s: float
) -> tuple[tuple[ModelledTime, ...], Finding]:
    """Execute a candidate once on every search workload in a worker that counts, and model the launches.

    Covers: launches of a call whose answer is right, under the sanitiser; none is modelled of a candidate that lets
    torch's operators compute, as those are not launched here.
    Does not cover: work of the host by numpy or ctypes; figures that a candidate forges in its worker: they are an
    order for candidates, and no decision reads them.
    """
    noted = build.evidence.get(_EVIDENCE)
    registers = noted if isinstance(noted, int) else 0
    times: list[ModelledTime] = []
    with Trial(
        oracle, candidate, build, pool, deadline=PatientDeadline(deadline_s, deadline_s),
        seeds=Seeds([oracle.screen_seed]), watched=True, counted=True,
    ) as trial:  # fmt: skip
        try:
            for workload in oracle.task.split(Split.SEARCH):
                made = _on(trial, workload, registers)
                if isinstance(made, Finding):
                    return (), made
                times.append(made)
        except WorkerError as error:
            return (), unknown(MODELLED, str(error))
        except WorkerFailure as failure:
            if failure.kind in {FailureKind.TIMEOUT, FailureKind.UNSUPPORTED}:
                return (), unknown(MODELLED, describe(failure))
            return (), blamed(trial, MODELLED, failure)
    return tuple(times), passed(MODELLED).model_copy(update={"message": "; ".join(map(_said, times))})


def _said(made: ModelledTime) -> str:
    return f"on {made.workload}, {made}"


def _on(trial: Trial, workload: Workload, registers: int) -> ModelledTime | Finding:
    case = trial.oracle.case(workload, trial.oracle.screen_seed)
    placed = trial.place(case)[0]
    launches_since(placed.worker, registers)  # is not part of the call
    placed.worker.watch("see")
    found = compare_outputs(MODELLED, trial.call([placed])[0], case, "where its launches are counted, ")
    if found.status is CheckStatus.FAIL:
        return found
    if computing := computing_in(placed.worker.seen(), case):
        return unknown(
            MODELLED, f"torch's {computing[0]} computes in the call: no launch here, so it has no model"
        )
    launches = launches_since(placed.worker, registers)
    if isinstance(launches, Finding):
        return launches
    return ModelledTime.together(launches, workload.name)


def launches_since(worker: Worker, registers: int) -> tuple[ModelledTime, ...] | Finding:
    """Return models of what was launched since this was last asked; what has none is unknown, not wrong."""
    try:
        return worker.modelled(registers) or unknown(MODELLED, "no kernel was launched")
    except WorkerFailure as failure:
        return unknown(MODELLED, describe(failure))
