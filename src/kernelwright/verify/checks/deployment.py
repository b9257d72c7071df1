"""The kernel answers as it did in a process that looks like somebody's program, later on, with other threads."""

from ...records import CheckStatus, Finding, Split
from ...sandbox import FailureKind, WorkerFailure
from .._case import Case
from .._protocol import Depth, blamed, passed
from .._trial import Trial
from .correct import compare_outputs, same_bits

_MINUTE_S, _DAY_S = 60.0, 86_400.0
_LATER_S = (0.0, 2 * _MINUTE_S, 0.5 * _DAY_S, 40 * _DAY_S)
"""Seconds that pass before each call of a workload, by the clocks that the candidate reads."""


class Deployment:
    """Call on the search workloads in a fresh worker whose surroundings are not the judge's, minutes to months apart.

    Outputs are held to what the judge expects. That they are the same bits as before is noted (`same_bits`) and not
    asked for: a kernel may pick its blocks by the clock, and sums depend on the number of threads.

    Covers: answers that depend on the clock, the environment, the command line, modules, the stack, the number of
    threads, or on where arguments lie.
    Does not cover: what `sandbox._deployed` and `sandbox._clock` do not; a kernel that behaves for its first calls of
    every process; other workloads than searched ones.
    """

    name = "deployment"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first answer that is not right there."""
        calls, same, clock = 0, 0, 1
        with trial.another(trial.oracle, deployed=True) as deployed:
            for workload in trial.problem.task.split(Split.SEARCH):
                one = trial.oracle.case(workload, case.seed)
                if not one.usable or one.state_after or one.mutated:
                    continue
                try:
                    judged = trial.call(trial.place(one))[0]
                except WorkerFailure as failure:
                    if failure.kind is FailureKind.UNSUPPORTED:
                        continue
                    raise
                for number, later_s in enumerate(_LATER_S):
                    threads = _threads(trial.threads, number)
                    when = f"in a process that looks deployed, {_told(later_s)} later on {threads} threads, "
                    try:
                        clock &= deployed.worker(workload).elapse(later_s, threads)
                        fetched = deployed.call(deployed.place(one))[0]
                    except WorkerFailure as failure:
                        if failure.kind is FailureKind.UNSUPPORTED:
                            break
                        return blamed(deployed, self.name, failure, when)
                    found = compare_outputs(self.name, fetched, one, when)
                    if found.status is CheckStatus.FAIL:
                        return found
                    calls, same = calls + 1, same + same_bits(judged.outputs, fetched.outputs)
        return passed(self.name, calls=calls, same_bits=same, every_clock=clock)


def _threads(agreed: int, number: int) -> int:
    """Return the number of threads of a call: as agreed, then another, in turn."""
    return agreed if number % 2 == 0 else 1 if agreed > 1 else 2


def _told(seconds: float) -> str:
    return f"{seconds / _DAY_S:g} days" if seconds >= _DAY_S / 2 else f"{seconds / _MINUTE_S:g} minutes"
