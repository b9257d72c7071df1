"""Graph, peaks, rates → the terms of what is attainable: the vector units in turn, and what nothing overlaps."""

from collections.abc import Iterator
from typing import Literal

from ..devices import Peak, Peaks
from ..records import BoundTerm, Workload
from ..tasks.capture import Graph, Node, Ref
from ._algebra import Algebra
from ._functions import SIMPLE, functions
from ._masks import Masks
from ._products import products
from ._rates import CALL, FRESH, PAGES, Rates
from ._views import ROWS, as_int

_FMA_FLOP = 2
_PAGE_BYTES, _PAGED_BYTES = 4096, 16 << 20
"""A page, and the size of a table from which on a core's buffers do not hold the addresses of all its pages: 2,048 to
4,096 of them in the second level of most of today's."""
_FRESH_FROM_BYTES = 32 << 20
"""Size from which glibc's `malloc` always maps memory afresh (`DEFAULT_MMAP_THRESHOLD_MAX` of 64-bit machines, see
mallopt(3)): an output that large costs a page fault for each of its pages at every call."""


def attainable_terms(
    graph: Graph, workload: Workload, peaks: Peaks, rates: Rates, *, fresh: bool, error_factor: float
) -> Iterator[BoundTerm]:
    """Yield what vector units take for functions and products, rows of tables, fresh memory, the call, a region."""
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
    reached = rates.values.get(PAGES)
    if reached is not None and (count := sum(_pages(graph, node) for node in graph.ops)):
        yield _term("pages", count, "elements", reached, "ports")
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


def _pages(graph: Graph, node: Node) -> float:
    """Count the pages that an op reaches whose indices select rows of a large table."""
    if node.op not in ROWS or node.op == "aten.gather.default":
        return 0.0
    table, index = (node.args[at] for at in ROWS[node.op])
    if not isinstance(table, Ref) or not isinstance(index, Ref):
        return 0.0
    given, picked = graph.node(table.name), graph.node(index.name)
    rows = given.shape[0] if node.op == "aten.embedding.default" else given.shape[as_int(node.args[1])]
    if given.size_bytes < _PAGED_BYTES or not rows:
        return 0.0
    return min(rows, picked.elements) * max(1.0, given.size_bytes / rows / _PAGE_BYTES)


def _term(name: str, amount: float, unit: str, peak: Peak, kind: Literal["ports", "after"]) -> BoundTerm:
    return BoundTerm(name=name, amount=amount, unit=unit, peak=peak.value, source=peak.source, kind=kind)
