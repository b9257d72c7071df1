"""Losses: row reductions whose results are summed over all rows."""

from collections.abc import Iterator

from ...records import Workload
from ...tasks.capture import Graph
from .._core import KernelTemplate, match_rows

RANK = 10


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
    """Yield the row program of a graph that picks by index targets."""
    yield from match_rows(graph, workload, "loss")
