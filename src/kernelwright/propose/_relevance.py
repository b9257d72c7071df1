"""Counters → those that matter for what binds a candidate: memory, arithmetic, or neither.

Source: CUDAMaster, arXiv 2603.07169, which filters a profile before a model sees it; its classes are not published
in the abstract, so these are Williams et al., "Roofline" (memory- or compute-bound), and Nsight Compute's guided
analysis: what uses neither to 60 % of its peak is bound by latency.
"""

from typing import Literal

from ..records import Bound, Counters, Evaluation

Bottleneck = Literal["memory", "compute", "latency"]

_BUSY = 60.0
"""Per cent of a peak from which a unit counts as what binds."""
_NEAR = 0.25
"""Share of what is attainable below which neither memory nor arithmetic can be what binds."""
_ALWAYS = frozenset({"gpu_us", "task_us"})
_MATTERS: dict[Bottleneck, frozenset[str]] = {
    "memory": frozenset({
        "dram_percent", "l2_hit_percent", "local_bytes", "cache_misses", "missed_bytes", "missed_bytes_per_element",
        "page_faults",
    }),
    "compute": frozenset({
        "sm_percent", "tensor_percent", "registers", "ipc", "cycles", "instructions", "branch_misses", "local_bytes",
    }),
    "latency": frozenset({
        "occupancy_percent", "registers", "ipc", "context_switches", "migrations", "page_faults", "branch_misses",
    }),
}  # fmt: skip
_WAITS: Bottleneck = "latency"
"""Remarks say what limits the occupancy and what warps wait for."""


def bottleneck_of(evaluation: Evaluation, bounds: tuple[Bound, ...] = ()) -> Bottleneck:
    """Return what binds a candidate: by a GPU's own figures, else by how near it is to which term of its bound."""
    for counters in evaluation.counters:
        dram, sm = counters.figures.get("dram_percent"), counters.figures.get("sm_percent")
        if dram is not None and sm is not None:
            return "latency" if max(dram, sm) < _BUSY else "memory" if dram >= sm else "compute"
    timed = {w.workload: w.time_us for w in evaluation.decision.workloads if w.time_us}
    bound = next((b for b in bounds if b.workload in timed), None)
    if bound is None or bound.attainable_us < _NEAR * timed[bound.workload]:
        return "latency"
    units = {term.name: term.unit for term in bound.terms}
    return "memory" if units.get(bound.limit) == "bytes" else "compute"


def relevant(counters: Counters, bottleneck: Bottleneck) -> Counters | None:
    """Leave out the figures that say nothing on a bottleneck; None if none is left.

    Example:
        >>> counted = Counters(tool="perf", workload="w", calls=1, figures={"ipc": 2.0, "page_faults": 1.0})
        >>> print(relevant(counted, "memory"))
        perf on w, a call: page faults 1
    """
    figures = {n: v for n, v in counters.figures.items() if n in _MATTERS[bottleneck] | _ALWAYS}
    remarks = counters.remarks if bottleneck == _WAITS else ()
    kept = counters.model_copy(update={"figures": figures, "remarks": remarks})
    return kept if remarks or figures.keys() - _ALWAYS else None
