"""Loaded → Step: the loss of a model and its gradients as one graph of inputs and weights.

Covers: models whose result is one scalar loss; frozen parameters, which get no gradient; tied parameters.
Does not cover: dropout and other random numbers, buffers that a step changes (batch norm in training mode), graphs
that break, second derivatives.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch._functorch.aot_autograd import aot_export_module

from ..errors import TaskError
from ..tasks.capture import quiet
from ._capture import Capture, check_graph
from ._print import Unprintable, check_printable
from ._target import Loaded, Whole, unchanged

_aten = torch.ops.aten
_NAMES_A_DTYPE = (_aten._log_softmax_backward_data, _aten._softmax_backward_data)
"""Operators that hold the dtype of the capture, so that no float64 evaluation could run them."""

_CANCELS = 1e-6
"""Share of the largest gradient that rounding leaves of one whose terms cancel, as of a bias before a norm."""


@dataclass(frozen=True)
class Step:
    """A training step: forward and backward."""

    capture: Capture
    """Its graph. Inputs are the model's own and then all weights, because every step changes those and nothing may be
    made of them ahead; results are the loss and then the gradients."""
    weights: tuple[str, ...]
    """Names of parameters and buffers, in the order of those inputs."""
    trained: tuple[str, ...]
    """Names of the parameters that get a gradient, in the order of the results."""


def capture_step(loaded: Loaded) -> Step:
    """Capture loss and gradients as one graph: AOTAutograd's joint graph, its gradients in tensors of their own.

    Raises:
        TaskError: the model cannot be trained by one program; the message says why.
    """
    whole = loaded.whole
    _check_loss(loaded, whole)
    with quiet(), unchanged(whole):
        try:
            parts: dict[Any, Any] = get_decompositions(_NAMES_A_DTYPE)
            made, signature = aot_export_module(
                whole, whole.tensors, trace_joint=True, output_loss_index=0, decompositions=parts
            )
            graph = cast("fx.GraphModule", made)
            step = _step(graph, signature, whole)
            check_graph(step.capture.nodes)
            for node in step.capture.nodes:
                check_printable(node)
        except TaskError:
            raise
        except Unprintable as error:
            raise TaskError(f"{loaded.name} cannot be trained by one program: {error}") from error
        except Exception as error:  # the model's own code runs under the tracer, and may raise anything
            first = (str(error).strip().splitlines() or ["no message"])[0]
            raise TaskError(
                f"{loaded.name} has no graph of a training step: {type(error).__name__}: {first}"
            ) from error
    _check_gradients(loaded, step, graph)
    return step


def trained(whole: Whole) -> dict[str, torch.nn.Parameter]:
    """Return the parameters that want a gradient, by their names in the model."""
    return {n.removeprefix("inner."): p for n, p in whole.named_parameters() if p.requires_grad}


def _check_loss(loaded: Loaded, whole: Whole) -> None:
    with unchanged(whole), torch.random.fork_rng(devices=[]):
        results = whole(*whole.tensors)
    if len(results) != 1 or results[0].dim() or not results[0].is_floating_point():
        found = [tuple(r.shape) for r in results]
        raise TaskError(
            f"{loaded.name}: training wants a model whose only result is the loss, a scalar; "
            f"it returns tensors of {found}"
        )
    if not results[0].requires_grad or not trained(whole):
        raise TaskError(f"{loaded.name}: the loss depends on no parameter that wants a gradient")
    if any(t.requires_grad for t in whole.tensors):
        raise TaskError(f"{loaded.name}: an input wants a gradient; only parameters may")


def _step(graph: fx.GraphModule, signature: Any, whole: Whole) -> Step:
    if signature.buffers_to_mutate or signature.parameters_to_mutate or signature.user_inputs_to_mutate:
        changed = next(
            iter({**signature.buffers_to_mutate, **signature.parameters_to_mutate}.values()), "an input"
        )
        raise TaskError(
            f"a step changes {changed.removeprefix('inner.')!r}; only gradients may be its outcome"
        )
    tied = _tied(graph, signature, whole)
    state, tensors = whole.state_dict(keep_vars=True), iter(whole.tensors)
    buffers = dict(whole.named_buffers())
    inputs, weights = list[str](), dict[str, str]()
    constants, values = dict[str, torch.Tensor](), dict[str, torch.Tensor]()
    for node in (n for n in graph.graph.nodes if n.op == "placeholder"):
        name = signature.inputs_to_parameters.get(node.name) or signature.inputs_to_buffers.get(node.name)
        if name is None:
            inputs.append(node.name)
            values[node.name] = next(tensors)
        elif name in state:
            weights[node.name], values[node.name] = name.removeprefix("inner."), state[name].detach()
        else:
            constants[node.name] = buffers[name].detach()
    for node in (n for n in graph.graph.nodes if n.op == "get_attr"):
        constants[node.name] = operator.attrgetter(str(node.target))(graph).detach()
    wanted = _own_results(graph, signature, weights, tied)
    output = graph.graph.output_node()
    capture = Capture(
        name="step", nodes=tuple(n for n in graph.graph.nodes if n.op == "call_function"),
        inputs=(*inputs, *weights), weights={}, constants=constants,
        outputs=tuple(n.name for n in _results(output)), mutations=(), values=values, paths={}, kinds={},
    )  # fmt: skip
    return Step(capture, tuple(weights.values()), wanted)


def _results(output: fx.Node) -> list[fx.Node]:
    results: Any = output.args[0]
    return list(results)


def _tied(graph: fx.GraphModule, signature: Any, whole: Whole) -> dict[str, str]:
    """Let a parameter with several names be one input; return each further name with the first one."""
    state = whole.state_dict(keep_vars=True)
    first: dict[int, tuple[str, fx.Node]] = {}
    tied: dict[str, str] = {}
    for node in [n for n in graph.graph.nodes if n.op == "placeholder"]:
        name = signature.inputs_to_parameters.get(node.name)
        if name is not None:
            known, kept = first.setdefault(id(state[name]), (name, node))
            if kept is not node:
                tied[name] = known
                node.replace_all_uses_with(kept)
                graph.graph.erase_node(node)
    return tied


def _own_results(
    graph: fx.GraphModule, signature: Any, weights: dict[str, str], tied: dict[str, str]
) -> tuple[str, ...]:
    """Order the gradients like the weights, each contiguous in memory of its own; return the names of those."""
    nodes = graph.graph
    for node in [n for n in nodes.nodes if n.target is _aten.detach.default]:
        node.replace_all_uses_with(node.args[0])
        nodes.erase_node(node)
    output = nodes.output_node()
    loss, *rest = _results(output)
    found: dict[str, fx.Node] = {}
    with nodes.inserting_before(output):
        for node, given in zip(
            rest, signature.backward_signature.gradients_to_parameters.values(), strict=True
        ):
            name = tied.get(given, given)
            known = found.get(name)
            found[name] = node if known is None else nodes.call_function(_aten.add.Tensor, (known, node))
            found[name].meta.setdefault("val", node.meta["val"])
        wanted = tuple(name for name in weights.values() if f"inner.{name}" in found)
        results = (loss, *(found[f"inner.{name}"] for name in wanted))
        output.args = (tuple(_owned(nodes, results)),)
    nodes.eliminate_dead_code()
    return wanted


def _owned(nodes: fx.Graph, results: tuple[fx.Node, ...]) -> Iterator[fx.Node]:
    taken = {
        n.meta["val"].untyped_storage()._cdata
        for n in nodes.nodes
        if n.op == "placeholder" and isinstance(n.meta.get("val"), torch.Tensor)
    }
    for node in results:
        value = node.meta["val"]
        place = value.untyped_storage()._cdata
        if place in taken or not value.is_contiguous():
            made = nodes.call_function(
                _aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
            )
            made.meta["val"] = torch.empty(value.shape, dtype=value.dtype, device="meta")
            yield made
        else:
            yield node
        taken.add(place)


def _check_gradients(loaded: Loaded, step: Step, graph: fx.GraphModule) -> None:
    """Compare the graph with what `backward` itself gives on the captured inputs.

    Raises:
        TaskError: they differ.
    """
    whole = loaded.whole
    held = {**step.capture.values, **step.capture.constants}
    given = [held[n.name] for n in graph.graph.nodes if n.op == "placeholder"]
    with quiet(), unchanged(whole):
        loss = whole(*whole.tensors)[0]
        wanted = [loss, *torch.autograd.grad(loss, list(trained(whole).values()), allow_unused=True)]
        graph.recompile()
        with torch.no_grad():
            made = graph(*given)
    if len(made) != len(wanted) or any(g is None for g in wanted):
        raise TaskError(f"{loaded.name}: a parameter that wants a gradient is not used; freeze it")
    sizes = [float(g.abs().max()) for g in wanted[1:] if g is not None and g.numel()]
    most = max(sizes, default=0.0)
    for name, one, other in zip(["the loss", *trained(whole)], made, wanted, strict=True):
        assert other is not None
        near = 1e-3 * float(other.detach().abs().max()) + _CANCELS * most
        if not torch.allclose(one, other.detach(), rtol=1e-2, atol=near, equal_nan=True):
            raise TaskError(
                f"{loaded.name}: the graph's {name} is not what backward gives; it is not one pure step"
            )
