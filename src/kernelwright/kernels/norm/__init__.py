"""Layer, group, instance and batch normalisation, with what comes before and after."""

from collections.abc import Iterator

from ...records import Workload
from ...tasks.capture import Graph
from .._core import KernelTemplate, match_rows

RANK = 20


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
    """Yield the row program of a graph that normalises."""
    yield from match_rows(graph, workload, "norm")
