"""The judge at other sizes than the task's: verified and timed there, so that a kernel's ranges may open."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import median

from ...errors import BusyError
from ...measure import Bench
from ...records import (
    Build,
    Candidate,
    CheckStatus,
    Finding,
    ServedSizes,
    SizeOutcome,
    Timing,
    Verdict,
    VerdictStatus,
    Workload,
)  # fmt: skip
from ...sandbox import Pool
from ...tasks import Problem
from ...tasks.workloads.symbols import Symbols
from ...verify import elsewhere
from ._size_ranges import Opening, WrongAtAnotherSizeError

_AT_ONCE = 8
"""Workloads timed together: each has a worker of its own for the native op."""
_LEAST_BLOCKS = 3


class Elsewhere:
    """Opens the sizes around what a candidate was accepted on.

    Covers: one deadline for all; who is wrong at a size that it does not decline, which is then said; raw blocks kept.
    Does not cover: tasks whose answers are random, or that have a backward part: these keep their sizes.
    """

    def __init__(
        self, problem: Problem, pool: Pool, bench: Bench, timing: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._problem, self._pool, self._bench, self._timing = problem, pool, bench, timing
        self._symbols: dict[str, Symbols] = {}

    def open(
        self,
        candidate: Candidate,
        build: Build,
        workloads: Sequence[Workload],
        deadline_s: float,
    ) -> tuple[tuple[ServedSizes, ...], tuple[Finding, ...]]:
        """Open ranges around the largest workload and the smallest, and return what spoke against the candidate.

        Args:
            candidate: What was accepted.
            build: Its build.
            workloads: On which it was accepted.
            deadline_s: Seconds for all of it; what is not looked at by then stays shut.
        """
        contract = self._problem.task.contract
        if contract.stochastic or contract.backward or not workloads:
            return (), ()
        end = time.monotonic() + deadline_s
        ordered = sorted(workloads, key=_elements)
        found: list[ServedSizes] = []
        for workload in {w.name: w for w in (ordered[-1], ordered[0])}.values():
            one, failures = self._open(candidate, build, workload, end)
            found.append(one)
            if failures:
                return tuple(found), failures
        return tuple(found), ()

    def _open(
        self, candidate: Candidate, build: Build, workload: Workload, end: float
    ) -> tuple[ServedSizes, tuple[Finding, ...]]:
        if workload.name not in self._symbols:
            self._symbols[workload.name] = Symbols(self._problem, workload)
        symbols, failures, timings = self._symbols[workload.name], list[Finding](), list[Timing]()

        def timed(chosen: Sequence[Workload]) -> Mapping[str, float]:
            ratios: dict[str, float] = {}
            for i in range(0, len(chosen), _AT_ONCE):
                timing, bad = self._time(candidate, build, chosen[i : i + _AT_ONCE], end)
                failures.extend(bad)
                if timing is None or bad:
                    break
                timings.append(timing)
                ratios |= _ratios(timing, self._bench.first)
            return ratios

        left_s = max(1.0, end - time.monotonic())
        with elsewhere(self._problem, candidate, build, pool=self._pool, deadline_s=left_s) as verdict_at:

            def look(there: Workload) -> SizeOutcome:
                verdict = verdict_at(there)
                outcome = _outcome(verdict)
                if outcome is SizeOutcome.WRONG:
                    failures.extend(f for f in verdict.findings if f.status is CheckStatus.FAIL)
                return outcome

            opening = Opening(symbols, look, timed)
            try:
                served = opening.run()
            except WrongAtAnotherSizeError:
                served = opening.found()
        if failures:
            served = served.model_copy(update={"boxes": ()})
        return served.model_copy(update={"timing": _joined(timings)}), tuple(failures)

    def _time(
        self, candidate: Candidate, build: Build, chosen: Sequence[Workload], end: float
    ) -> tuple[Timing | None, tuple[Finding, ...]]:
        try:
            with self._timing():
                left_s = end - time.monotonic()
                if left_s <= 0:
                    return None, ()
                timing, findings = self._bench.measure(
                    candidate, build, phase="sizes", workloads=chosen, deadline_s=left_s, left_s=left_s
                )
                self._bench.forget(chosen)
        except BusyError:
            return None, ()
        return timing, tuple(f for f in findings if f.status is CheckStatus.FAIL)


def _outcome(verdict: Verdict) -> SizeOutcome:
    if verdict.status is VerdictStatus.REJECTED:
        return SizeOutcome.WRONG
    if verdict.unsupported:
        return SizeOutcome.DECLINED
    return SizeOutcome.SERVED if verdict.status is VerdictStatus.ACCEPTED else SizeOutcome.OPEN


def _ratios(timing: Timing, baseline: str) -> dict[str, float]:
    """Return the median ratio to the baseline on each workload that has enough blocks."""
    found: dict[str, list[float]] = {}
    for block in timing.blocks:
        if not block.repeated and {baseline, "candidate"} <= block.times_us.keys():
            found.setdefault(block.workload, []).append(
                block.times_us[baseline] / block.times_us["candidate"]
            )
    return {name: median(ratios) for name, ratios in found.items() if len(ratios) >= _LEAST_BLOCKS}


def _joined(timings: Sequence[Timing]) -> Timing | None:
    if not timings:
        return None
    variants, blocks = (
        tuple(x for t in timings for x in getattr(t, name)) for name in ("variants", "blocks")
    )
    return timings[0].model_copy(update={"variants": variants, "blocks": blocks})


def _elements(workload: Workload) -> int:
    return sum(math.prod(getattr(s, "shape", ())) for s in (*workload.arguments, *workload.outputs))
