"""Backward task, Workload → Graph: a forward and its gradients as one graph, as autograd goes through them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from ...records import TensorSpec, Workload
from ._capture import decompositions, empty, quiet, scalar
from ._graph import Graph
from ._recorder import outer, record
from ._tidied import tidied

if TYPE_CHECKING:
    from .._problem import Problem


def trace_step(problem: "Problem", workload: Workload) -> Graph:
    """Find the graph of a backward task: the outputs, and the gradients that are asked for.

    Autograd runs once on fake tensors, which computes nothing; what it runs is recorded as `trace` records.

    Args:
        problem: Provides the reference.
        workload: Sizes, dtypes and scalars of a backward task.

    Returns:
        The graph. Inputs are the arguments, gradients of outputs among them, then the state.

    Raises:
        Exception: what the reference raises on fake tensors.

    Example:
        >>> from kernelwright.tasks import Problem, load_task
        >>> problem = Problem(load_task("examples/swiglu.py", backward=True))
        >>> graph = trace_step(problem, problem.task.workloads[0])
        >>> graph.inputs, len(graph.outputs)
        (('projected', 'grad_output0'), 2)
    """
    mode, module = FakeTensorMode(allow_non_fake_inputs=True), problem.differentiated(workload)
    tensors = [s for s in workload.arguments if isinstance(s, TensorSpec)]
    with quiet(), mode:
        fakes = [empty(spec) for spec in (*tensors, *workload.state)]
    with quiet():
        both = make_fx(_function(module, workload), tracing_mode="fake", _allow_non_fake_inputs=True)(*fakes)
        kinds = [*(("input", s) for s in tensors), *(("state", s) for s in workload.state)]
        given = [(outer(s.name, kind, fake), fake) for (kind, s), fake in zip(kinds, fakes, strict=True)]
        with torch.no_grad(), mode:
            nodes, outputs, changed = record(both, given, decompositions())
    return tidied(nodes, outputs, changed, workload, "trace")


def _function(module: nn.Module, workload: Workload) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return forward and backward as a function of tensors: those among the arguments, then the state."""

    def both(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(tensors)
        arguments = [next(rest) if isinstance(s, TensorSpec) else scalar(s) for s in workload.arguments]
        held = {
            f"inner.{s.name}": value.detach().requires_grad_(s.requires_grad)
            for s, value in zip(workload.state, rest, strict=True)
        }
        found = torch.func.functional_call(module, held, tuple(arguments), tie_weights=False)
        return cast("tuple[torch.Tensor, ...]", found)

    return both
