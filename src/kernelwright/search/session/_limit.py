"""Whether the best times that a run knows are about what the device allows, so that searching on would not pay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...records import Decision, DecisionStatus

AT_LIMIT = "the device's limit"
"""What a search is stopped by there."""
_SHARE = 0.9
"""Of what is attainable, from which on a time is at the limit: as close as the figure itself is."""
_WRONG = 1.25
"""A bound so far above a time is not one: its rates were measured on a busy machine."""


@dataclass(frozen=True)
class Limit:
    """That no search workload has much to gain."""

    message: str
    """How near the one is that has most."""
    kernels: tuple[str, ...]
    """Keys of the candidates on whose times that stands; other workloads' native ops are as fast."""


def at_limit(decisions: Iterable[Decision], workloads: Sequence[str]) -> Limit | None:
    """Return the limit if the best times known, of kernels or native ops, have reached it on every workload.

    Times of what is wrong or not believed do not count.

    Example:
        >>> from kernelwright.records import Interval, WorkloadDecision
        >>> one = WorkloadDecision(
        ...     workload="n=8", speedup=Interval(median=2.0), time_us=100.0, baseline_us=200.0, baseline="eager",
        ...     bound_us=95.0,
        ... )
        >>> at_limit([Decision(candidate="k", status="inconclusive", reason="", workloads=(one,))], ["n=8"])
        Limit(message='at the limit: a kernel takes 1.05 times what is attainable on n=8', kernels=('k',))
    """
    best = dict[str, tuple[float, float, str, str]]()
    for decision in decisions:
        if decision.status in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}:
            continue
        for w in decision.workloads:
            for time_us, name, key in (
                (w.time_us, "a kernel", decision.candidate),
                (w.baseline_us, w.baseline, ""),
            ):
                if time_us > 0 and (w.workload not in best or time_us < best[w.workload][0]):
                    best[w.workload] = time_us, w.bound_us / time_us, name, key
    found = {name: best[name] for name in workloads if name in best}
    if len(found) < max(1, len(workloads)) or not all(_SHARE <= f[1] <= _WRONG for f in found.values()):
        return None
    most = min(found, key=lambda name: found[name][1])
    _, share, name, _ = found[most]
    message = f"at the limit: {name} takes {1 / share:.2f} times what is attainable on {most}"
    return Limit(message, tuple(dict.fromkeys(key for *_, key in found.values() if key)))
