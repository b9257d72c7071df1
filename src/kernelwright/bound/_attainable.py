"""Graph, peaks, rates → the terms of what is attainable: the vector units in turn, and what nothing overlaps."""

from collections.abc import Iterator
from typing import Literal

from ..devices import Peak, Peaks
from ..records import BoundTerm, Workload
from ..tasks.capture import Graph
from ._algebra import Algebra
from ._functions import SIMPLE, functions
from ._masks import Masks
from ._products import products
from ._rates import CALL, FRESH, Rates

_FMA_FLOP = 2
_FRESH_FROM_BYTES = 32 << 20
"""Size from which glibc's `malloc` always maps memory afresh (`DEFAULT_MMAP_THRESHOLD_MAX` of 64-bit machines, see
mallopt(3)): an output that large costs a page fault for each of its pages at every call."""


def attainable_terms(
    graph: Graph, workload: Workload, peaks: Peaks, rates: Rates, *, fresh: bool, error_factor: float
) -> Iterator[BoundTerm]:
    """Yield what the vector units take for functions and products, then fresh memory, the call, a parallel region."""
    algebra = Algebra(graph)
    masks = Masks(graph, algebra, workload)
    vector = peaks.get("float32")
    for name, elements in sorted(functions(graph, algebra, masks).items()):
        peak = rates.values.get(name)
        if name == SIMPLE and vector is not None:
            per_s = vector.value / _FMA_FLOP
            peak = Peak(value=per_s, unit="elements", source=f"half of the multiply-adds; {vector.source}")
        if peak is not None and elements:
            yield _term(name, elements, "elements", peak, "ports")
    for unit, flop in sorted(products(graph, algebra, masks, error_factor).items()):
        peak = peaks.get(unit) or peaks.best("tensor-")
        if peak is not None and flop:
            yield _term(unit, flop, "flop", peak, "ports")
    pages, write = rates.values.get(FRESH), peaks.get("dram.write")
    sizes = (graph.node(name).size_bytes for name in dict.fromkeys(graph.outputs))
    mapped = sum(size for size in sizes if size >= _FRESH_FROM_BYTES)
    if fresh and pages is not None and mapped:
        slower = min((pages, write or pages), key=lambda peak: peak.value)  # pages are cleared by writing
        yield _term("page-faults", mapped, "bytes", slower, "after")
    call = rates.values.get(CALL)
    if call is not None:
        yield _term("call", 1.0, "launches", call, "after")
    region = peaks.get("fork_join")
    if region is not None:
        yield _term("parallel-region", 1.0, "launches", region, "after")


def _term(name: str, amount: float, unit: str, peak: Peak, kind: Literal["ports", "after"]) -> BoundTerm:
    return BoundTerm(name=name, amount=amount, unit=unit, peak=peak.value, source=peak.source, kind=kind)
