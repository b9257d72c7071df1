"""Try every OpenCL kernel."""

from collections.abc import Iterator

from ...records import Workload
from ...tasks.capture import Graph
from .._core import KernelTemplate
from .._core.expression import Unprintable
from . import pointwise, rows


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield the OpenCL templates that compute the whole graph."""
    if graph.mutations or None in graph.inputs:
        return
    for template in (pointwise.template, rows.template):
        try:
            found = template(graph)
        except (KeyError, Unprintable):
            continue
        if found is not None:
            yield found
