"""The worker's process is as it was before loading: no thread at work, no switch thrown, nothing patched."""

import time

from ...records import Finding
from ...sandbox import Audit, Worker
from .._case import Case
from .._protocol import Depth, failed, passed
from .._trial import Trial

_IDLE_S = 0.05
_LOOKS, _WINDOWS = 20, 40
_IDLE_CPU = 0.3
"""Share of a core that an idle worker may use at most; OpenMP's spinning ends within milliseconds."""
_SPIN_US = 100_000.0
"""CPU time that threads may spin before they rest, all of them together."""
_MORE_DESCRIPTORS = 64


class ProcessClean:
    """Compare the audit taken after loading with one taken now, and watch the worker while it is idle."""

    name = "process-clean"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first thing that is not as it was."""
        time.sleep(_IDLE_S)
        share = idle_share(trial.worker(case.workload))
        if share > _IDLE_CPU:
            return failed(self.name, "the worker computes between calls", share=share)
        for loaded, now in trial.audits():
            if message := compare_audits(loaded, now):
                return failed(self.name, message)
        return passed(self.name, idle_share=share)


class ProcessesGone:
    """Count the processes below every worker once all workloads were called: none is the worker's own."""

    name = "process-clean"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:  # noqa: ARG002 - the protocol's signature
        """Fail where one is alive, whenever it was started; `case` is not called."""
        left = sum(now.processes for _, now in trial.audits())
        return failed(self.name, _left(left)) if left else passed(self.name)


def idle_share(worker: Worker) -> float:
    """Return the share of a core that a worker uses unasked, or asks for in vain on a busy machine.

    Threads of OpenMP spin for some milliseconds before they rest, which lasts long where they get little of a
    processor: a worker at work is looked at again, until it rests or has used more than such spinning does.
    """
    spent_us = 0.0
    for _ in range(_WINDOWS):
        before, begun, wanted = worker.cpu_us(), time.monotonic(), 0
        for _ in range(_LOOKS):
            time.sleep(_IDLE_S / _LOOKS)
            wanted += worker.running()
        used_us = worker.cpu_us() - before
        share = used_us / ((time.monotonic() - begun) * 1e6)
        if share <= _IDLE_CPU and wanted <= _IDLE_CPU * _LOOKS:
            return share
        spent_us += used_us
        if spent_us > _SPIN_US:
            break
    return max(share, wanted / _LOOKS)


def compare_audits(loaded: Audit, now: Audit) -> str:
    """Say what changed between two audits that should not have; empty where nothing did."""
    if now.patched:
        return f"{now.patched[0]} was replaced"
    if now.flags:
        return f"the global switch {now.flags[0]} was changed"
    if now.environment:
        return f"environment variable {now.environment[0]} was changed"
    if left := max(loaded.processes, now.processes):
        return _left(left)
    if len(now.descriptors) > len(loaded.descriptors) + _MORE_DESCRIPTORS:
        return (
            f"{len(now.descriptors) - len(loaded.descriptors)} more descriptors are open than after loading"
        )
    return ""


def _left(processes: int) -> str:
    one = processes == 1
    return (
        f"{processes} {'process that it started was' if one else 'processes that it started were'} left alive"
    )
