"""Tens of thousands of calls in one process are all right, not only the first dozen."""

import math
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from ...records import CheckStatus, Finding, Split, TensorSpec, Workload
from ...sandbox import FailureKind, Fetched, WorkerFailure
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Placed, Trial
from .correct import compare_outputs

CALLS = 20_000
"""Calls over all sizes together; a kernel that is too slow for them makes as many as the time allows."""
_LIMIT_S = 2.0
_FIRST_BATCH, _MOST_BATCH = 2, 2000
_BATCH_S = 0.25
_BATCH_BYTES = 32 << 20
"""Bytes of outputs that are kept for one batch."""
_SAMPLES = 6
"""Calls of a batch that are looked at where the worker cannot be read while it is stopped."""
_MOST_DISTINCT = 32
"""Answers of a batch that are compared where all differ in their last bits, as sums on several threads may."""
_TRIED = 4


@dataclass
class _Tally:
    """What was done so far."""

    ends_s: float
    """When to stop, by `time.monotonic`."""
    target: int
    calls: int = 0
    compared: int = 0
    spent_us: list[float] = field(default_factory=list)
    """Microseconds a call of each batch."""


class Endurance:
    """Call thousands of times on two contents in random order, on the cheapest workload and on a searched one.

    The outputs of a batch stay where they are until it has ended; then the worker is stopped and every one of them is
    read. Where that is not possible, calls picked after the batch are fetched.

    Covers: counters of calls, of all or of each size, on any thread, in static memory or on the heap; faults that come
    after many calls or in some of them.
    Does not cover: counters beyond what fits into the time; what waits for a clock.
    """

    name = "endurance"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first call that is not right."""
        cases = [case]
        if cheap := _cheapest(trial, case):
            cases.insert(0, cheap)
        begun, calls, compared = time.monotonic(), 0, 0
        for number, chosen in enumerate(cases, 1):
            if chosen.state_after or chosen.mutated:
                continue
            tally = _Tally(begun + _LIMIT_S * number / len(cases), -(-CALLS // len(cases)))
            if found := _endure(trial, chosen, tally, self.name):
                return _at_once(trial, chosen) or found
            calls, compared = calls + tally.calls, compared + tally.compared
        return passed(self.name, calls=calls, compared=compared, seconds=time.monotonic() - begun)


def _endure(trial: Trial, case: Case, tally: _Tally, check: str) -> Finding | None:
    """Call on one case and another of the same sizes, batch after batch; say what went wrong."""
    cases = case, trial.oracle.again(case, case.seed + 1)
    size = _FIRST_BATCH
    while tally.calls < tally.target and time.monotonic() < tally.ends_s and trial.remaining_s > 0:
        size = max(1, min(size, tally.target - tally.calls, _BATCH_BYTES // max(1, case.outputs_bytes)))
        placed = trial.place(*cases)
        order = [placed[secrets.randbelow(2)] for _ in range(size)]
        for position, fetched in _batch(trial, order, tally):
            when = f"after {tally.calls + position} calls, "
            found = compare_outputs(check, fetched, order[position].case, when)
            if found.status == "fail":
                return found
        tally.calls += size
        left_s = min(_BATCH_S, tally.ends_s - time.monotonic())
        size = max(1, min(_MOST_BATCH, int(left_s * 1e6 / max(0.1, tally.spent_us[-1]))))
    return None


def _at_once(trial: Trial, case: Case) -> Finding | None:
    """Say so where a fresh worker's first call on these sizes and layouts is wrong: then it is not for many calls."""
    searched = case.workload.split is Split.SEARCH
    where = f"on {case.workload.name}" if searched else "on a hidden workload"
    with trial.another(trial.oracle) as fresh:
        found = compare_outputs("correct", fresh.call(fresh.place(case))[0], case, f"{where}: ")
    return found if found.status is CheckStatus.FAIL else None


def _batch(trial: Trial, order: Sequence[Placed], tally: _Tally) -> Iterator[tuple[int, Fetched]]:
    """Make one batch of calls; yield one position of each answer that differs in its bits from the others."""
    worker = order[0].worker
    reply = worker.call([p.number for p in order], deadline_s=trial.limit_s())
    tally.spent_us.append(reply.time_us / len(order))
    stacks = worker.outputs_of(reply)
    if stacks is None:
        drawn = {secrets.randbelow(len(order)) for _ in range(_SAMPLES)} | {len(order) - 1}
        tally.compared += len(drawn)
        for position in sorted(drawn):
            yield position, worker.fetch(reply.first + position, deadline_s=trial.limit_s())
        return
    tally.compared += len(order)
    for position in _distinct(order, stacks):
        yield position, Fetched(tuple(s[position] for s in stacks), (), 0.0, frozen=True)


def _distinct(order: Sequence[Placed], stacks: Sequence[torch.Tensor]) -> Iterator[int]:
    """Yield a position of each answer that differs in its bits, secretly drawn ones where there are many."""
    known: dict[tuple[int, bytes], int] = {}
    rows = [s.contiguous().reshape(len(order), -1).view(torch.uint8).numpy() for s in stacks if s.numel()]
    for position, placed in enumerate(order):
        known.setdefault((placed.number, b"".join(r[position].tobytes() for r in rows)), position)
    positions = list(known.values())
    if len(positions) > _MOST_DISTINCT:
        positions = secrets.SystemRandom().sample(positions, _MOST_DISTINCT)
    yield from sorted(positions)


def _cheapest(trial: Trial, case: Case) -> Case | None:
    """Return a usable case of the smallest workload that the same worker serves; none where `case` is that."""
    problem, name = trial.problem, case.workload.name
    declared = [w for w in problem.task.workloads if w.regime == "declared"]
    for workload in sorted(declared, key=_elements)[:_TRIED]:
        same = problem.init_arguments(workload) == problem.init_arguments(case.workload)
        if workload.name == name or _elements(workload) >= _elements(case.workload):
            return None
        if not same or [s.shape for s in workload.state] != [s.shape for s in case.workload.state]:
            continue
        found = trial.oracle.case(workload, trial.seeds.draw())
        if found.usable and _served(trial, found):
            return found
    return None


def _served(trial: Trial, case: Case) -> bool:
    try:
        trial.call(trial.place(case))
    except WorkerFailure as failure:
        if failure.kind is FailureKind.UNSUPPORTED:
            return False
        raise
    return True


def _elements(workload: Workload) -> int:
    specs = (*workload.arguments, *workload.outputs)
    return sum(math.prod(s.shape) for s in specs if isinstance(s, TensorSpec))
