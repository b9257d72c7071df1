"""Problem, Workload → Graph without a compiler: what a small reference ran, recorded on inputs that are drawn."""

import math
from typing import TYPE_CHECKING

import torch

from ...records import TensorSpec, Workload
from ._capture import capture, quiet, record_function
from ._graph import Graph

if TYPE_CHECKING:
    from .._problem import Problem

_MOST_ELEMENTS = 1 << 22
"""Elements of arguments, state and outputs together above which a run may take longer than an export."""


def recorded(problem: "Problem", workload: Workload) -> Graph:
    """Find the graph of `capture` by running the reference once, where that is quick and gives the same graph.

    Fake tensors and the export import torch's compiler, which takes a second or more in a fresh process.

    Args:
        problem: Provides the reference and its inputs.
        workload: Sizes, dtypes and scalars.

    Returns:
        The graph; that of `capture` for large workloads and for references that attend, draw random numbers or do not
        run. Its names may differ, and so may the order of independent ops.
    """
    workload = workload.forward
    specs = (*workload.arguments, *workload.state, *workload.outputs)
    if sum(math.prod(s.shape) for s in specs if isinstance(s, TensorSpec)) > _MOST_ELEMENTS:
        return capture(problem, workload)
    try:
        with quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            reference, inputs = problem.reference(workload), problem.inputs(workload, 0)
            before = torch.get_rng_state()
            graph = record_function(reference, workload, inputs)
            random = not torch.equal(before, torch.get_rng_state())
    except Exception:  # noqa: BLE001  whatever a reference raises, `capture` reports it properly
        return capture(problem, workload)
    attends = any("attention" in node.op for node in graph.nodes)  # as the one that the device runs
    return capture(problem, workload) if random or attends else graph
