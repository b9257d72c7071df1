"""Traffic, work and peaks → Bound: every resource at its peak, all overlapping perfectly."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..devices import Device, Peak, Peaks
from ..records import Bound, BoundTerm, Contract, Workload
from ..tasks.capture import Graph, recorded
from ._attainable import attainable_terms
from ._rates import Rates
from ._score import slack_of
from ._traffic import Traffic, traffic
from ._work import work

if TYPE_CHECKING:
    from ..tasks import Problem

_LEVELS = ("l1", "l2", "l3", "l4", "dram")
_READ_SHARE = {"read": 1.0, "copy": 1 / 2, "add": 2 / 3, "write": 0.0}
"""Share of the bytes of each measured pattern that are read."""


def bound(
    problem: "Problem", workload: Workload, device: Device, peaks: Peaks, rates: Rates | None = None,
    *, fresh: bool = False, graph: Graph | None = None,
) -> Bound:  # fmt: skip
    """Find the least time in which the device can do the workload, and what the best code known could attain.

    Covers: bytes that must be read and written at the level where they stay between calls (the
    contract's cache mode), floating-point operations by unit, one launch; with `rates` functions, products by the
    best ways known here, and the call; with `fresh`, the page faults of large outputs.
    Does not cover: latency, conflicts, the granularity of cache lines, load imbalance.

    Args:
        problem: Provides reference and contract.
        workload: Sizes, dtypes and distributions.
        device: The device whose caches hold the call's bytes.
        peaks: Its measured peaks; a resource without a peak has no term.
        rates: Its measured rates of functions, pages, calls and fresh memory; none if only the floor is wanted.
        fresh: Whether large outputs are in fresh memory at each call, as `malloc` has it; a worker keeps its own.
        graph: The reference's operators, where they are known.
    """
    graph, contract = graph or recorded(problem, workload), problem.task.contract
    moved = traffic(graph, workload, contract)
    terms = [
        *_memory_terms(moved, device, peaks, contract),
        *_work_terms(work(graph, workload), peaks),
        *_launch_terms(peaks),
    ]
    if rates is not None:
        terms += attainable_terms(
            graph, workload, peaks, rates, fresh=fresh, error_factor=contract.error_factor
        )
    return Bound(
        workload=workload.name, device=device.fingerprint, terms=tuple(terms), slack=slack_of(device)
    )


def is_warm(moved: Traffic, device: Device, contract: Contract) -> bool:
    """Whether timed calls find their data in cache, by the contract's rule."""
    if contract.cache == "auto":
        return moved.total_bytes <= device.last_level_bytes / 2
    return contract.cache == "warm"


def _memory_terms(moved: Traffic, device: Device, peaks: Peaks, contract: Contract) -> Iterator[BoundTerm]:
    level, share = "dram", 1.0
    if is_warm(moved, device, contract):
        fitting = [c.level for c in device.caches if moved.total_bytes <= c.total_bytes]
        level = fitting[0] if fitting else "dram"
        if not fitting and moved.total_bytes:
            share = 1 - device.last_level_bytes / moved.total_bytes
    amounts = {
        f"{level}-read": moved.read_bytes,
        f"{level}-write": moved.written_bytes,
        level: moved.total_bytes,
    }
    for name, amount in amounts.items():
        peak = _bandwidth(peaks, level, name.removeprefix(level).lstrip("-"))
        if peak is not None and amount:
            yield BoundTerm(
                name=name, amount=amount * share, unit="bytes", peak=peak.value, source=peak.source
            )


def _bandwidth(peaks: Peaks, level: str, what: str) -> Peak | None:
    """The most bytes a second at a level: read, written or both, by any measured pattern.

    A level is at least as fast as any farther one, whatever the measurements say.
    """
    if f"{level}.copy" not in peaks.values:
        return None
    best: Peak | None = None
    for here in _LEVELS[_LEVELS.index(level) :]:
        for pattern, read in _READ_SHARE.items():
            share = {"read": read, "write": 1 - read}.get(what, 1.0)
            peak = peaks.get(f"{here}.{pattern}")
            if peak is not None and (best is None or peak.value * share > best.value):
                best = peak.model_copy(update={"value": peak.value * share})
    return best


def _work_terms(counts: dict[str, float], peaks: Peaks) -> Iterator[BoundTerm]:
    for unit, flop in sorted(counts.items()):
        peak = peaks.get(unit) or (peaks.best("tensor-") if unit.startswith("tensor-") else None)
        if peak is not None:
            yield BoundTerm(name=unit, amount=flop, unit="flop", peak=peak.value, source=peak.source)


def _launch_terms(peaks: Peaks) -> Iterator[BoundTerm]:
    peak = peaks.get("launch")
    if peak is not None:
        yield BoundTerm(name="launch", amount=1, unit="launches", peak=peak.value, source=peak.source)
