"""The worker's process is as it was after loading: no thread at work, no switch thrown, nothing patched."""

import time

from ...records import Finding
from ...sandbox import Audit
from .._case import Case
from .._protocol import Depth, failed, passed
from .._trial import Trial

_IDLE_S = 0.05
_IDLE_CPU = 0.3
"""Share of a core that an idle worker may use at most; OpenMP's spinning ends within milliseconds."""
_MORE_DESCRIPTORS = 64


class ProcessClean:
    """Compare the audit taken after loading with one taken now, and watch the worker while it is idle."""

    name = "process-clean"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first thing that is not as it was."""
        worker = trial.worker(case.workload)
        time.sleep(_IDLE_S)
        before, begun = worker.cpu_us(), time.monotonic()
        time.sleep(_IDLE_S)
        share = (worker.cpu_us() - before) / ((time.monotonic() - begun) * 1e6)
        if share > _IDLE_CPU:
            return failed(self.name, "the worker computes between calls", share=share)
        for loaded, now in trial.audits():
            if message := compare_audits(loaded, now):
                return failed(self.name, message)
        return passed(self.name, idle_share=share)


def compare_audits(loaded: Audit, now: Audit) -> str:
    """Say what changed between two audits that should not have; empty where nothing did."""
    if now.patched:
        return f"{now.patched[0]} was replaced"
    if changed := [k for k, v in now.flags.items() if loaded.flags.get(k, v) != v]:
        return f"the global switch {changed[0]} was changed"
    if now.environment:
        return f"environment variable {now.environment[0]} was changed"
    if now.processes > loaded.processes:
        return f"{now.processes - loaded.processes} more processes run than after loading"
    if len(now.descriptors) > len(loaded.descriptors) + _MORE_DESCRIPTORS:
        return (
            f"{len(now.descriptors) - len(loaded.descriptors)} more descriptors are open than after loading"
        )
    return ""
