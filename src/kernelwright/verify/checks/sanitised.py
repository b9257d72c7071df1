"""A GPU kernel's PTX is executed on the CPU under a sanitiser, and nothing is found."""

from ...errors import WorkerError
from ...records import CheckStatus, Finding
from ...sandbox import FailureKind, WorkerFailure
from .._case import Case
from .._protocol import Depth, blamed, passed, unknown
from .._trial import Trial, describe
from .correct import compare_outputs

_FAULT = "FaultError"
"""What a launch that was found at fault raises."""


class Sanitised:
    """Call once in a fresh worker that executes what the compiler made of the kernels, in another order of threads.

    A finding names the PTX line and the source line. Where there is a GPU, or the language cannot be executed, this
    check is left out.

    Covers: races, accesses out of bounds or misaligned, bytes read before they were written, barriers that lanes miss
    (docs/executor.md), and values that differ from the expected ones, on one workload.
    Does not cover: a candidate that takes the worker over and hides what was found; other workloads. A language that
    has nothing but execution to be run by (`cuda`) finds faults in every other call too.
    """

    name = "sanitised"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first finding."""
        with trial.another(trial.oracle, executed=True) as executed:
            try:
                fetched = executed.call(executed.place(case))[0]
            except WorkerFailure as failure:
                if failure.kind is FailureKind.TIMEOUT:
                    return unknown(self.name, describe(failure))
                return blamed(executed, self.name, failure)
        found = compare_outputs(self.name, fetched, case, "where its PTX is executed, ")
        return found if found.status == "fail" else passed(self.name, **found.figures)


def named_by_line(trial: Trial, case: Case, found: Finding) -> Finding:
    """Return the fault that execution names by its line in place of a failure of an interpreted candidate.

    A stray store of an interpreted kernel ends its worker by a signal, and a race shows as a wrong number.

    Covers: failures on the search workload of the case.
    Does not cover: kernels whose calls are executed anyway, which name their lines; what the sanitiser does not find.
    """
    if found.status is not CheckStatus.FAIL or not trial.executes or trial.translates:
        return found
    try:
        again = Sanitised().probe(trial, case)
    except (WorkerError, WorkerFailure):
        return found
    named = again.status is CheckStatus.FAIL and _FAULT in again.message
    return again.model_copy(update={"workload": case.workload.name}) if named else found
