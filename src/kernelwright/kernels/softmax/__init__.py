"""Softmax, log-softmax and log-sum-exp, with what comes before and after."""

from collections.abc import Iterator

from ...records import Workload
from ...tasks.capture import Graph
from .._core import KernelTemplate, match_rows

RANK = 30


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
    """Yield the row program of a graph that exponentiates along an axis."""
    yield from match_rows(graph, workload, "softmax")
