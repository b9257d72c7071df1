"""Loaded → Step: the loss of a model and its gradients as one graph of inputs and weights.

Covers: models whose result is the loss or has it as `.loss` or first; frozen parameters, which get no gradient; tied
parameters; buffers that a step changes, whose new values are results; random numbers, as of dropout, which are
inputs.
Does not cover: graphs that break, gradients through other results than the loss, second derivatives.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses.fake_tensor import DataDependentOutputException

from ..errors import TaskError
from ..tasks.capture import quiet
from ._drawn import draw, drawing_text, drawn_outside
from ._records import StepForm
from ._target import Loaded, Whole, tensors_of, unchanged
from .pieces import Capture, Unprintable, check_graph, check_printable, is_assertion

_aten = torch.ops.aten
_NAMES_A_DTYPE = (_aten._log_softmax_backward_data, _aten._softmax_backward_data)
"""Operators that hold the dtype of the capture, so that no float64 evaluation could run them."""

_CANCELS = 1e-6
"""Share of the largest gradient that rounding leaves of one whose terms cancel, as of a bias before a norm."""


@dataclass(frozen=True)
class Step:
    """A training step: forward and backward."""

    capture: Capture
    """Its graph. Inputs are the model's own, random numbers, and then all weights, because every step changes those and
    nothing may be made of them ahead; results are the loss, the gradients, the model's other results, and the new
    values of buffers."""
    weights: tuple[str, ...]
    """Names of parameters and buffers, in the order of those inputs."""
    trained: tuple[str, ...]
    """Names of the parameters that get a gradient, in the order of the results."""
    form: StepForm
    """What else it takes and returns."""

    @property
    def drawing(self) -> dict[str, str]:
        """Python that draws its random numbers, by the name of the input."""
        names = self.capture.inputs[len(self.capture.inputs) - len(self.weights) - len(self.form.drawn) :]
        return dict(zip(names, map(drawing_text, self.form.drawn), strict=False))


def capture_step(loaded: Loaded) -> Step:
    """Capture loss and gradients as one graph: AOTAutograd's joint graph, its gradients in tensors of their own.

    Raises:
        TaskError: the model cannot be trained by one program; the message says why.
    """
    whole = TrainedWhole(loaded.module, loaded.args, loaded.kwargs)
    unused = _check_loss(loaded, whole)
    with quiet(), unchanged(whole), torch.random.fork_rng(devices=[]), _frozen(whole, unused):
        try:
            graph, signature, held = _joint_graph(whole)
            step = _step(graph, signature, whole, held, unused)
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
        _check_gradients(loaded, step, graph, whole)
    return step


def trained(whole: Whole) -> dict[str, torch.nn.Parameter]:
    """Return the parameters that want a gradient, by their names in the model."""
    return {n.removeprefix("inner."): p for n, p in whole.named_parameters() if p.requires_grad}


def _check_loss(loaded: Loaded, whole: "TrainedWhole") -> tuple[str, ...]:
    """Check that there is a loss to train by; return the parameters that it does not depend on."""
    with unchanged(whole), torch.random.fork_rng(devices=[]):
        results = whole(*whole.tensors)
        loss = results[whole.loss] if results else None
        if loss is None or loss.dim() or not loss.is_floating_point():
            raise TaskError(
                f"{loaded.name}: training wants a model whose result is the loss, a scalar, or has it as `.loss` or "
                f"first; it returns tensors of {[tuple(r.shape) for r in results]}"
            )
        wanted = trained(whole)
        if not loss.requires_grad or not wanted:
            raise TaskError(f"{loaded.name}: the loss depends on no parameter that wants a gradient")
        if any(t.requires_grad for t in whole.tensors):
            raise TaskError(f"{loaded.name}: an input wants a gradient; only parameters may")
        gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    return tuple(name for name, found in zip(wanted, gradients, strict=True) if found is None)


@contextmanager
def _frozen(whole: Whole, names: Sequence[str]) -> Iterator[None]:
    """Let parameters want no gradient for a while."""
    parameters = [trained(whole)[name] for name in names]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


class TrainedWhole(Whole):
    """A model as tensors in, tensors out, in training: gradients go through its loss alone."""

    loss = 0
    """Place of the loss among the results, once the model was called."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model with these tensors in place of the example ones."""
        result = self.called(tensors)
        found = tensors_of(result)
        named = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
        self.loss = next((i for i, t in enumerate(found) if t is named), 0)
        return tuple(t if i == self.loss else t.detach() for i, t in enumerate(found))

    def differentiated(self) -> tuple[list[torch.Tensor], tuple[torch.Tensor | None, ...]]:
        """Call the model on its example inputs; return its results, and the gradient of each trained parameter."""
        results = list(self(*self.tensors))
        return results, torch.autograd.grad(
            results[self.loss], list(trained(self).values()), allow_unused=True
        )


def _joint_graph(whole: TrainedWhole) -> tuple[fx.GraphModule, Any, dict[str, torch.Tensor]]:
    """Return the joint graph, its signature, and the buffers that it names."""
    module: torch.nn.Module = whole
    try:
        made, signature = _aot(module, whole)
    except (DataDependentOutputException, AssertionError):
        # transformers' masks branch on values unless they are exported; of tied names, one may get no gradient
        module = _exported(whole)
        made, signature = _aot(module, whole)
    graph = cast("fx.GraphModule", made)
    for node in [n for n in graph.graph.nodes if is_assertion(n)]:
        graph.graph.erase_node(node)
    return graph, signature, dict(module.named_buffers())


def _exported(whole: TrainedWhole) -> fx.GraphModule:
    """Return what torch.export makes of a model, each tied parameter under its first name alone."""
    module = torch.export.export(whole, tuple(whole.tensors), strict=False).module()
    names = dict(module.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}
    for name, parameter in names.items():
        first.setdefault(id(parameter), name)
    for node in [n for n in module.graph.nodes if n.op == "get_attr" and n.target in names]:
        node.target = first[id(names[str(node.target)])]
    for name in names.keys() - set(first.values()):
        owner, _, last = name.rpartition(".")
        delattr(module.get_submodule(owner), last)
    module.recompile()
    return module


def _aot(module: torch.nn.Module, whole: TrainedWhole) -> tuple[Any, Any]:
    parts: dict[Any, Any] = get_decompositions(_NAMES_A_DTYPE)
    return aot_export_module(
        module, whole.tensors, trace_joint=True, output_loss_index=whole.loss, decompositions=parts
    )


def _step(
    graph: fx.GraphModule, signature: Any, whole: TrainedWhole, buffers: dict[str, torch.Tensor],
    unused: tuple[str, ...],
) -> Step:  # fmt: skip
    state, tensors = whole.state_dict(keep_vars=True), iter(whole.tensors)
    changed = list(signature.buffers_to_mutate.values())
    wrong = [*signature.parameters_to_mutate.values(), *(n for n in changed if n not in state)]
    if wrong or signature.user_inputs_to_mutate:
        name = wrong[0].removeprefix("inner.") if wrong else "an input"
        raise TaskError(f"a step changes {name!r}; only buffers of the state dictionary may change")
    drawn = drawn_outside(graph.graph)
    tied = _tied(graph, signature, whole)
    inputs, weights = list[str](), dict[str, str]()
    constants, values = dict[str, torch.Tensor](), dict[str, torch.Tensor]()
    for node in (n for n in graph.graph.nodes if n.op == "placeholder" and n.name not in drawn):
        name = signature.inputs_to_parameters.get(node.name) or signature.inputs_to_buffers.get(node.name)
        if name is None:
            inputs.append(node.name)
            values[node.name] = next(tensors)
        elif name in state:
            weights[node.name], values[node.name] = name.removeprefix("inner."), state[name].detach()
        else:
            constants[node.name] = buffers[name].detach()
    values |= dict(zip(drawn, draw(tuple(drawn.values())), strict=True))
    for node in (n for n in graph.graph.nodes if n.op == "get_attr"):
        constants[node.name] = operator.attrgetter(str(node.target))(graph).detach()
    form = StepForm(
        drawn=tuple(drawn.values()), loss=whole.loss, others=len(signature.user_outputs) - 1,
        changed=tuple(name.removeprefix("inner.") for name in changed), unused=unused,
    )  # fmt: skip
    wanted = _own_results(graph, signature, weights, tied, form)
    output = graph.graph.output_node()
    capture = Capture(
        name="step", nodes=tuple(n for n in graph.graph.nodes if n.op == "call_function"),
        inputs=(*inputs, *drawn, *weights), weights={}, constants=constants,
        outputs=tuple(n.name for n in _results(output)), mutations=(), values=values, paths={}, kinds={},
    )  # fmt: skip
    return Step(capture, tuple(weights.values()), wanted, form)


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
    graph: fx.GraphModule, signature: Any, weights: dict[str, str], tied: dict[str, str], form: StepForm
) -> tuple[str, ...]:
    """Order the results, each contiguous in memory of its own; return the names that gradients are of."""
    nodes = graph.graph
    for node in [n for n in nodes.nodes if n.target is _aten.detach.default]:
        node.replace_all_uses_with(node.args[0])
        nodes.erase_node(node)
    output = nodes.output_node()
    count, given = len(form.changed), _results(output)
    updates, others, rest = (
        given[:count],
        given[count : count + form.others + 1],
        given[count + form.others + 1 :],
    )
    loss = others.pop(form.loss)
    found: dict[str, fx.Node] = {}
    with nodes.inserting_before(output):
        for node, target in zip(
            rest, signature.backward_signature.gradients_to_parameters.values(), strict=True
        ):
            name = tied.get(target, target)
            known = found.get(name)
            found[name] = node if known is None else nodes.call_function(_aten.add.Tensor, (known, node))
            found[name].meta.setdefault("val", node.meta["val"])
        wanted = tuple(name for name in weights.values() if f"inner.{name}" in found)
        results = (loss, *(found[f"inner.{name}"] for name in wanted), *others, *updates)
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


def _check_gradients(loaded: Loaded, step: Step, graph: fx.GraphModule, whole: TrainedWhole) -> None:
    """Compare the graph with what the model and `backward` give on the captured inputs, for the same random numbers.

    Raises:
        TaskError: they differ.
    """
    held = {**step.capture.values, **step.capture.constants}
    names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    graph.recompile()
    torch.default_generator.manual_seed(0)
    held |= dict(zip(step.drawing, draw(step.form.drawn), strict=True))
    with torch.no_grad():
        made = graph(*(held[name] for name in names))
    torch.default_generator.manual_seed(0)
    others, found = whole.differentiated()
    loss, gradients = others.pop(step.form.loss), [g for g in found if g is not None]
    state = whole.state_dict()
    updates = [state[f"inner.{name}"] for name in step.form.changed]
    wanted = [loss, *gradients, *others, *updates]
    if len(made) != len(wanted):
        raise TaskError(f"{loaded.name}: the graph has {len(made)} results; the model has {len(wanted)}")
    sizes = [float(g.abs().max()) for g in gradients if g.numel()]
    most = max(sizes, default=0.0)
    labels = ["loss", *trained(whole), *["other result"] * len(others), *step.form.changed]
    for name, one, other in zip(labels, made, wanted, strict=True):
        near = 1e-3 * float(other.detach().abs().max()) + _CANCELS * most if other.numel() else 0.0
        if not torch.allclose(one, other.detach(), rtol=1e-2, atol=near, equal_nan=True):
            raise TaskError(
                f"{loaded.name}: the graph's {name} is not what the model gives; it is not one pure step"
            )
