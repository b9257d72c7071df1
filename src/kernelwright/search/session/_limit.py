"""Whether the best times that a run knows are about what the device allows, so that searching on would not pay."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ...records import WRONG_BOUND, Decision, DecisionStatus

AT_LIMIT = "the device's limit"
"""What a search is stopped by there."""
_SHARE = 0.9
"""Of what is attainable, from which on a time is at the limit: as close as the figure itself is."""


@dataclass(frozen=True)
class Limit:
    """That no search workload has much to gain."""

    message: str
    """How near the one is that has most."""
    kernels: tuple[str, ...]
    """Keys of the candidates on whose times that stands; other workloads' native ops are as fast."""


def at_limit(decisions: Iterable[Decision], workloads: Sequence[str]) -> Limit | None:
    """Return the limit if the best times known, of kernels or native ops, have reached it on every workload.

    Times of what is wrong or not believed do not count. A native op takes the median of what it took next to all
    candidates, and a kernel as much less as it was faster next to it: of many times on a busy machine, one is short
    by luck.

    Example:
        >>> from kernelwright.records import Interval, WorkloadDecision
        >>> one = WorkloadDecision(
        ...     workload="n=8", speedup=Interval(median=2.0), time_us=100.0, baseline_us=200.0, baseline="eager",
        ...     bound_us=95.0,
        ... )
        >>> at_limit([Decision(candidate="k", status="inconclusive", reason="", workloads=(one,))], ["n=8"])
        Limit(message='at the limit: a kernel takes 1.05 times what is attainable on n=8', kernels=('k',))
    """
    believed = [d for d in decisions if d.status not in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}]
    best = {name: found for name in workloads if (found := _best(believed, name))}
    if len(best) < max(1, len(workloads)) or not all(
        _SHARE <= share <= WRONG_BOUND for share, *_ in best.values()
    ):
        return None
    most = min(best, key=lambda name: best[name][0])
    share, name, _ = best[most]
    message = f"at the limit: {name} takes {1 / share:.2f} times what is attainable on {most}"
    return Limit(message, tuple(dict.fromkeys(key for *_, key in best.values() if key)))


def _best(decisions: Sequence[Decision], workload: str) -> tuple[float, str, str] | None:
    """Return the greatest share of what is attainable on a workload, whose it is, and the key if that is a kernel."""
    timed = [
        (d.candidate, w) for d in decisions for w in d.workloads if w.workload == workload and w.time_us > 0
    ]
    took_us = defaultdict[str, list[float]](list)
    for _, w in timed:
        took_us[w.baseline].append(w.baseline_us)
    native_us = {name: median(times) for name, times in took_us.items()}
    shares = [(w.bound_us / native_us[w.baseline], w.baseline, "") for _, w in timed]
    shares += [(w.bound_us * w.speedup.median / native_us[w.baseline], "a kernel", key) for key, w in timed]
    return max(shares, default=None)
