"""Puts an exploit through the real pipeline: build, verify in full, and the bench where it is still in the running."""

import contextlib
import os
import secrets
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.measure import CANDIDATE, Bench
from kernelwright.records import Block, Build, BuildStatus, CheckStatus, Contract, Finding, Split, Timing
from kernelwright.sandbox import Payload, Pool, Worker, _worker_process
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Depth, Oracle, _trial, check_names, verify

from .exploit import Exploit

NO_GAIN = "no-gain"
"""Not a check: the attack on the clock gained nothing, as the judge's clock is elsewhere."""
MEASURED = ("timed-calls", "timed-outputs", "deferred-work", "two-clocks", "gpu-held", NO_GAIN)
LATE = {"timed-outputs", "deferred-work", "two-clocks", "gpu-held"}
"""Those that a screening may have too few blocks for."""
_GAIN = 2.0
"""An attack on the clock that works gains more; two equal variants stay below on any machine."""
_STALL_S = 1.0
"""Seconds that a call of an exploit that stalls is waited for, so that the tests stay short."""


@dataclass(frozen=True)
class Outcome:
    """What became of one exploit."""

    caught_by: str
    """Name of the check that failed first; empty where none did."""
    message: str
    time_s: float
    """Seconds from after the build to the verdict."""
    unknown: tuple[str, ...] = ()
    """Checks that could not run."""
    blocks: tuple[Block, ...] = ()
    """What was timed, where it came to that."""


class Judge:
    """Holds one pool, and one problem and bench a task, for many exploits."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.settings = Settings.from_environment(
            {"KERNELWRIGHT_CACHE": str(folder), "KERNELWRIGHT_STORE": str(folder)}
        )
        self.pool = Pool(self.settings, arena_bytes=16 << 20, device=device)
        self._oracles: dict[tuple[str, str, bool], Oracle] = {}
        self._benches: dict[tuple[str, bool, int, bool], Bench] = {}
        self._seeds = [secrets.randbits(48) for _ in range(64)]

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *_: object) -> None:
        for bench in self._benches.values():
            bench.close()
        self.pool.close()

    def build(self, exploit: Exploit) -> Build:
        language = get_language(exploit.candidate().language)
        build = type(language)(self.settings).build(exploit.candidate())
        assert build.status is BuildStatus.OK, build.diagnostics
        return build

    def artefact(self, exploit: Exploit) -> str:
        """Return the folder of what is built of it; empty where nothing is."""
        return (self.build(exploit).artefact or "") if exploit.cpp else ""

    def judge(
        self,
        exploit: Exploit,
        disabled: frozenset[str] = frozenset(),
        depth: Depth = "full",
        *,
        frozen: bool = True,
    ) -> Outcome:
        """Run everything until the first failure.

        Args:
            exploit: Which.
            disabled: Checks to leave out.
            depth: `screen` leaves out the bench and the probes that are only for acceptance.
            frozen: Whether outputs may be read out of the stopped worker; else the worker copies them.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(self.pool, "threads", exploit.threads or self.pool.threads))
            if not frozen:
                stack.enter_context(mock.patch.object(_worker_process, "may_read", lambda _: False))
            return self._judge(exploit, disabled, depth)

    def _judge(self, exploit: Exploit, disabled: frozenset[str], depth: Depth) -> Outcome:
        build, candidate = self.build(exploit), exploit.candidate()
        oracle = self._oracle(exploit)
        begun = time.monotonic()
        limit_s = _STALL_S if exploit.naive == "stalls" else _trial._CALL_LIMIT_S
        with mock.patch.object(_trial, "_CALL_LIMIT_S", limit_s):
            verdict = verify(
                oracle.problem, candidate, build, pool=self.pool, seeds=self._seeds, deadline_s=600.0,
                oracle=oracle, disabled=disabled, depth=depth,
            )  # fmt: skip
        findings, blocks = list(verdict.findings), tuple[Block, ...]()
        if depth == "full" and not _failures(findings):
            measured, blocks = self._measured(exploit, build, disabled)
            findings += measured
        found = _failures(findings)
        return Outcome(
            caught_by=found[0].check if found else "",
            message=found[0].message if found else "",
            time_s=time.monotonic() - begun,
            unknown=tuple(f.check for f in findings if f.status is CheckStatus.UNKNOWN),
            blocks=blocks,
        )

    def _measured(
        self, exploit: Exploit, build: Build, disabled: frozenset[str]
    ) -> tuple[list[Finding], tuple[Block, ...]]:
        problem = self._oracle(exploit).problem
        key = (exploit.task, exploit.backward, exploit.threads, _worker_process.may_read(os.getpid()))
        if key not in self._benches:
            self._benches[key] = Bench(problem, self.pool, detect(self.pool.device), baselines=("eager",))
        bench = self._benches[key]
        with first_in_line(self.pool) if exploit.threads else contextlib.nullcontext():
            timing, findings = bench.measure(
                exploit.candidate(), build, phase="measure" if (exploit.expect | exploit.unfrozen) & LATE else "screen",
                workloads=problem.task.split(Split.SEARCH), deadline_s=300.0,
            )  # fmt: skip
        findings = [f for f in findings if f.check not in disabled]
        if NO_GAIN not in disabled and NO_GAIN in exploit.expect and (speedup := _speedup(timing)) < _GAIN:
            message = f"{speedup:.2f} times as cheap as the native op"
            findings.append(Finding(check=NO_GAIN, status=CheckStatus.FAIL, message=message))
        return findings, timing.blocks

    def _oracle(self, exploit: Exploit) -> Oracle:
        key = (exploit.task, exploit.rule, exploit.backward)
        if key not in self._oracles:
            task = load_task(
                str(exploit.task_path), contract=Contract(calls=exploit.rule), backward=exploit.backward
            )
            self._oracles[key] = Oracle(Problem(task))
        return self._oracles[key]


@contextlib.contextmanager
def first_in_line(pool: Pool) -> Iterator[None]:
    """Run judge and workers before all else, where the system lets us: on a busy machine too, cores that were not
    agreed are there for the taking then, and what was taken shows."""
    policy, start = os.sched_getscheduler(0), pool.worker

    def started(payload: Payload, deadline_s: float = 60.0) -> Worker:
        worker = start(payload, deadline_s)
        os.sched_setscheduler(worker.pid, os.SCHED_FIFO, os.sched_param(2))  # before the judge, which spins
        return worker

    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        yield
        return
    try:
        with mock.patch.object(pool, "worker", started):
            yield
    finally:
        os.sched_setscheduler(0, policy, os.sched_param(0))


def removable() -> tuple[str, ...]:
    """Name every check that the matrix removes: what a CPU can make."""
    return (*check_names(), *(n for n in MEASURED if n not in {NO_GAIN, "gpu-held"}))


def _failures(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.status is CheckStatus.FAIL]


def _speedup(timing: Timing) -> float:
    """Return the ratio of the CPU times, which a busy machine does not stretch; on a GPU that of the judge's."""
    clocks = (b.times_us if b.device_us else b.cpu_us for b in timing.blocks)
    ratios = [c["eager"] / max(1.0, c[CANDIDATE]) for c in clocks if "eager" in c]
    return statistics.median(ratios) if ratios else 0.0
