"""Elementwise chains and broadcasts: one pass, every input read once, every output written once."""

from collections.abc import Iterator

from ...records import Workload
from ...tasks.capture import Graph
from .._core import KernelTemplate, match_rows

RANK = 90


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
    """Yield the row program of a graph without a reduction."""
    yield from match_rows(graph, workload, "pointwise")
