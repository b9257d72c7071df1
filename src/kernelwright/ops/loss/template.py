"""What `optimize` proposes for cross-entropy, besides the row program."""

from collections.abc import Iterator

from ...records import Workload
from ...tasks.capture import Graph
from .._parametric import KernelTemplate, forms
from . import triton


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield the form in Triton if the graph is the cross-entropy of a matrix and classes."""
    yield from forms(graph, triton.template)
