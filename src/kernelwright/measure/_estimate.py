"""Blocks → speedup over a baseline with confidence limits, by workload and over all workloads.

Covers: rounds of several workloads as one unit; baselines that are fastest on some workloads only.
Does not cover: the decision; that is `_decide`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..records import Block, Bound, Interval, Timing, WorkloadDecision
from ._interval import Limits, limits
from ._sequential import REFUTER, WARM
from ._startup import CANDIDATE


@dataclass(frozen=True)
class Estimate:
    """The candidate against one baseline, over all workloads of a timing."""

    baseline: str
    overall: Limits
    rounds: int
    workloads: tuple[WorkloadDecision, ...]


def blocks_of(timed: Sequence[Block], *, warm: bool = False, refuter: bool = False) -> dict[str, list[Block]]:
    """Return the blocks that count, by workload, in the order measured.

    Or the extra ones with warm caches, or those on the workload that refused an earlier candidate.
    """
    found: dict[str, list[Block]] = {}
    for block in timed:
        asked = warm == (block.phase == WARM) and refuter == (block.phase == REFUTER)
        if not block.repeated and CANDIDATE in block.times_us and asked:
            found.setdefault(block.workload, []).append(block)
    return found


def with_warm(decided: Sequence[WorkloadDecision], timing: Timing | None) -> tuple[WorkloadDecision, ...]:
    """Add the warm-cache ratios to a decision on cold caches."""
    warm = blocks_of(timing.blocks, warm=True) if timing else {}
    ratios = {
        w.workload: median(_log_ratios(warm[w.workload], w.baseline))
        for w in decided
        if w.workload in warm and all(w.baseline in b.times_us for b in warm[w.workload])
    }
    return tuple(
        w.model_copy(update={"warm_speedup": math.exp(ratios[w.workload])}) if w.workload in ratios else w
        for w in decided
    )


def baselines_of(by_workload: Mapping[str, Sequence[Block]]) -> list[str]:
    """Name the variants, other than the candidate, that ran in every block that counts."""
    variants = [set(b.times_us) for blocks in by_workload.values() for b in blocks]
    return sorted(set.intersection(*variants) - {CANDIDATE}) if variants else []


def all_baselines_of(by_workload: Mapping[str, Sequence[Block]]) -> list[str]:
    """Name the variants, other than the candidate, that ran in some block of every workload."""
    ran = [set().union(*(b.times_us for b in blocks)) for blocks in by_workload.values()]
    return sorted(set.intersection(*ran) - {CANDIDATE}) if ran else []


def against_all(by_workload: Mapping[str, Sequence[Block]]) -> dict[str, float]:
    """Return the ratio of every baseline's time to the candidate's, each over the blocks that it ran in."""
    found: dict[str, float] = {}
    for name in all_baselines_of(by_workload):
        both = [[b for b in blocks if name in b.times_us] for blocks in by_workload.values()]
        found[name] = math.exp(sum(median(_log_ratios(blocks, name)) for blocks in both) / len(both))
    return found


def estimate(
    by_workload: dict[str, list[Block]],
    baseline: str,
    level_low: float,
    level_high: float,
    bounds: Sequence[Bound],
) -> Estimate:
    """Estimate the ratio for each workload, and over all of them by rounds."""
    ratios = {name: _log_ratios(blocks, baseline) for name, blocks in by_workload.items()}
    rounds = min(len(r) for r in ratios.values())
    means = [sum(r[i] for r in ratios.values()) / len(ratios) for i in range(rounds)]
    known = {b.workload: b for b in bounds}
    return Estimate(
        baseline=baseline,
        overall=limits(means, level_low=level_low, level_high=level_high),
        rounds=rounds,
        workloads=tuple(
            WorkloadDecision(
                workload=name,
                speedup=interval(limits(ratios[name], level_low=level_high, level_high=level_high)),
                time_us=median_us(blocks, CANDIDATE),
                baseline_us=median_us(blocks, baseline),
                baseline=baseline,
                bound_us=known[name].attainable_us if name in known else 0.0,
                floor_us=known[name].time_us if name in known else 0.0,
            )
            for name, blocks in by_workload.items()
        ),
    )


def _log_ratios(blocks: Sequence[Block], baseline: str) -> list[float]:
    return [math.log(b.times_us[baseline] / b.times_us[CANDIDATE]) for b in blocks]


def median_us(blocks: Sequence[Block], variant: str) -> float:
    return median(b.times_us[variant] for b in blocks)


def against_the_fastest(estimates: Sequence[Estimate]) -> tuple[WorkloadDecision, ...]:
    """Compare each workload with its fastest baseline."""
    columns = zip(*(e.workloads for e in estimates), strict=True)
    return tuple(min(column, key=lambda w: (w.speedup.median, w.baseline)) for column in columns)


def interval(found: Limits) -> Interval:
    """Turn log ratios into ratios."""
    return Interval(
        median=math.exp(found.median),
        low=math.exp(found.low) if math.isfinite(found.low) else None,
        high=math.exp(found.high) if math.isfinite(found.high) else None,
    )
