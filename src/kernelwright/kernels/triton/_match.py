"""Try every Triton kernel."""

from collections.abc import Iterator

from ...records import Workload
from ...tasks.capture import Graph
from .._core import KernelTemplate
from .._core.expression import Unprintable
from . import glu, loss, matmul, rope, rows

_KINDS = (rows.template, loss.template, glu.template, rope.template, matmul.template)


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield the Triton templates that compute the whole graph."""
    if graph.mutations:
        return
    for template in _KINDS:
        try:
            found = template(graph)
        except (KeyError, Unprintable):
            continue
        if found is not None:
            yield found
