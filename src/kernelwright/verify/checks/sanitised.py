"""A GPU kernel's PTX is executed on the CPU under a sanitiser, and nothing is found."""

from ...records import Finding
from ...sandbox import FailureKind, WorkerFailure
from .._case import Case
from .._protocol import Depth, blamed, passed, unknown
from .._trial import Trial, describe
from .correct import compare_outputs


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
