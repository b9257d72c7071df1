"""Graph of Dynamo → the same graph with accepted kernels of regions in it; Inductor compiles the rest.

Covers: what `pieces` does, in whatever model a region occurs; results in memory of their own.
Does not cover: what `pieces` does not; regions that read fixed values.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from torch import fx, nn

from ..deploy.runtime.operators import apart
from ..errors import KernelwrightError
from ..languages.prepared import Prepared
from ..tasks.capture import quiet
from ._accepted import LoadedProgram, RegionProgram
from ._numbered import define_numbered
from ._region_form import signature_of
from .pieces import Region, Site, Unprintable, served_graph

_LOG = logging.getLogger(__name__)


def with_regions(
    graph: fx.GraphModule, arguments: Sequence[Any], programs: Sequence[RegionProgram]
) -> fx.GraphModule | None:
    """Return a graph that computes the same and calls kernels for regions; None where it has none of them.

    Args:
        graph: A graph of Dynamo.
        arguments: Its arguments, tensors of fixed sizes and whole numbers; tensors may be fake.
        programs: What was accepted for regions.
    """
    try:
        with quiet():
            return served_graph(graph, arguments, [_region(program) for program in programs], _placed)
    except Exception as error:  # noqa: BLE001  the model's own code runs under the exporter, and may raise anything
        _LOG.debug("no region is looked for in the graph: %s: %s", type(error).__name__, error)
        return None


SITES: list[Site] = []
"""Every place in this process where a kernel serves, by number: operators of torch are the process's, too."""


def _region(program: RegionProgram) -> Region:
    """Return a region with its kernel, which is loaded once, where the region is first found."""
    loaded = list[LoadedProgram]()

    def kernel() -> Callable[..., Any]:
        if not loaded:
            try:
                loaded.append(program.load())
            except KernelwrightError as error:
                raise Unprintable(f"a kernel of {program.name} is not used: {error}") from error
        found = loaded[0].kernel
        return found.again() if isinstance(found, Prepared) else found

    return Region(program.form, *signature_of(program.task.workloads[0]), kernel)


def _placed(_: nn.Module, graph: fx.Graph, site: Site, sources: tuple[fx.Node, ...]) -> fx.Node:
    """Call a place by its number: graphs of Inductor hold numbers and no objects."""
    SITES.append(site)
    return graph.call_function(_operator(), (list(sources), len(SITES) - 1))


@cache
def _operator() -> Any:
    """Define the operator that calls a kernel where it serves."""
    return define_numbered(
        "region(Tensor[] tensors, int site)",
        lambda tensors, site: list(apart(SITES[site](*tensors), tensors)),
        lambda site: SITES[site].outputs,
    )
