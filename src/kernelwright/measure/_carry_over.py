"""Whether a gain carries over to the confirm workloads: by the class of what differs there, never by its values.

Covers: other sizes and layouts, which must gain together; unusual value regimes of a searched size, each by itself, as
the contract has them: a caveat on the claim sheet, or a veto.
Does not cover: which regime it was; the names of confirm workloads are the judge's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..records import Block, Bound, Contract, ScalarSpec, TensorSpec, Workload, WorkloadDecision
from ._estimate import against_the_fastest, baselines_of, estimate, interval

REGIME = "value regime"
Classes = Mapping[str, str]
"""What differs in a confirm workload, by its name: `size`, `layout`, `value regime`, or several joined by `and`."""


@dataclass(frozen=True)
class CarryOver:
    """What the confirm workloads say."""

    lost_on: str = ""
    """The workload on which the gain is lost; empty where it carries over."""
    lost: str = ""
    """The same in words that give nothing away."""
    sure: bool = False
    """Whether more blocks could hardly change that it is lost."""
    caveats: tuple[str, ...] = ()
    """What an owner must know of a gain that carries over."""
    workloads: tuple[WorkloadDecision, ...] = ()


def classes_of(workloads: Sequence[Workload], searched: Sequence[Workload]) -> dict[str, str]:
    """Say what differs in each workload from those that are searched on.

    Example:
        >>> x = TensorSpec(name="x", shape=(4, 8), dtype="float32")
        >>> declared = Workload(name="a", arguments=(x,))
        >>> other = x.model_copy(update={"shape": (5, 8)})
        >>> confirm = [Workload(name="b", arguments=(x,), regime="mixed"),
        ...            Workload(name="c", arguments=(other,), regime="sparse")]
        >>> classes_of(confirm, [declared])
        {'b': 'value regime', 'c': 'size and value regime'}
    """
    found: dict[str, str] = {}
    for workload in workloads:
        differing = [_differing(workload, other) for other in searched]
        fewest = min(differing, key=len, default=[])
        if fewest:
            found[workload.name] = " and ".join(fewest)
    return found


def carry_over(
    blocks: dict[str, list[Block]],
    classes: Classes,
    contract: Contract,
    error: float,
    bounds: Sequence[Bound],
) -> CarryOver:
    """Weigh the blocks of confirm workloads."""
    estimates = [estimate(blocks, name, error, error, bounds) for name in baselines_of(blocks)]
    if not estimates:
        return CarryOver()
    rows = against_the_fastest(estimates)
    gain, vetoes = 1 + contract.least_effect, contract.unusual_regime == "veto"
    floor = 1 / gain if vetoes else contract.regime_floor
    regimes = [w for w in rows if classes.get(w.workload) == REGIME]
    if under := min((w for w in regimes if w.speedup.median < floor), key=_median, default=None):
        sure = under.speedup.at_most < floor
        return CarryOver(under.workload, _lost(under, classes), sure=sure, workloads=rows)
    apart = {w.workload for w in regimes if w.speedup.median < 1} if not vetoes else set[str]()
    rest = {name: found for name, found in blocks.items() if name not in apart}
    together = [estimate(rest, name, error, error, bounds).overall for name in baselines_of(rest)]
    if together and (least := min(together, key=lambda limits: limits.median)).median < 0:
        worst = min((w for w in rows if w.workload in rest), key=_median)
        sure = interval(least).at_most < 1
        return CarryOver(worst.workload, _lost(worst, classes), sure=sure, workloads=rows)
    slow = [w for w in rows if w.speedup.median < 1 / gain]
    return CarryOver(caveats=tuple(_caveat(w, classes) for w in slow), workloads=rows)


def _lost(row: WorkloadDecision, classes: Classes) -> str:
    """Name class and ratio; of records from before there were classes, neither."""
    known = classes.get(row.workload, "")
    return f"{row.speedup.median:.2f} times as fast as {row.baseline} under another {known}" if known else ""


def _caveat(row: WorkloadDecision, classes: Classes) -> str:
    known = classes.get(row.workload, "")
    if known == REGIME:
        return (
            f"{row.speedup.median:.2f} times as fast as {row.baseline} under an unusual {known}, "
            "in which the kernel serves all the same"
        )
    if known:
        ratio = f"{row.speedup.median:.2f} times as fast as {row.baseline}"
        return f"{ratio} under another {known}, which belongs to the native op"
    return f"slower on {row.workload}, which belongs to the native op"


def _median(row: WorkloadDecision) -> float:
    return row.speedup.median


def _differing(workload: Workload, other: Workload) -> list[str]:
    """Name what differs between two workloads."""
    pairs = zip((*workload.arguments, *workload.state), (*other.arguments, *other.state), strict=False)
    both = [(a, b) for a, b in pairs if isinstance(a, TensorSpec) and isinstance(b, TensorSpec)]
    scalars = [
        (a, b) for a, b in zip(workload.arguments, other.arguments, strict=False) if isinstance(a, ScalarSpec)
    ]
    found = ["size"] if any(a.shape != b.shape for a, b in both) or any(a != b for a, b in scalars) else []
    found += ["layout"] if any(a.layout != b.layout for a, b in both) else []
    return found + ([REGIME] if workload.regime != other.regime else [])
