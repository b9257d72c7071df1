"""A module is right in the other mode too: train where the contract says eval, eval where it says train."""

from ...records import Finding
from ...sandbox import FailureKind, WorkerFailure
from .._case import Case
from .._observe import observe
from .._protocol import Check, Depth, blamed, failed, passed
from .._trial import Trial
from .correct import Correct
from .inputs import InputsUnchanged
from .returns import Returns
from .state import StateUnchanged

_LOOKS: tuple[Check, ...] = (Returns(), Correct(), InputsUnchanged(), StateUnchanged())


class Modes:
    """Load a module candidate into a fresh worker in the other mode and hold it to the reference there.

    Covers: batch norm frozen to its running statistics or never using them, dropout left on or dropped, kernels
    that look at `training` to tell the judge's calls from others.
    Does not cover: candidates that are functions or compiled; they have no mode, and the guard pins the
    contract's. A module may decline the other mode as `Unsupported`.
    """

    name = "modes"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the module is wrong in the other mode."""
        if trial.candidate.style != "module" or trial.problem.task.reference.style != "module":
            return passed(self.name)
        oracle = trial.oracle.in_other_mode(case.workload)
        if oracle.task.contract.stochastic or trial.problem.task.contract.backward:
            return passed(self.name)
        other = oracle.case(case.workload, case.seed)
        if not other.usable:
            return passed(self.name)
        mode = oracle.task.contract.mode
        with trial.another(oracle) as second:
            try:
                seen = observe(second, other)
            except WorkerFailure as failure:
                if failure.kind is FailureKind.UNSUPPORTED:
                    return passed(self.name)
                return blamed(second, self.name, failure, f"in {mode} mode, ")
        for look in _LOOKS:
            found = look.examine(seen)
            if found.status == "fail":
                return failed(self.name, f"in {mode} mode, {found.message}", **found.figures)
        return passed(self.name)
