"""Graph of Dynamo → its key; Loaded → DynamoForm: by what `torch.compile` knows a model that was optimised."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from ..records import content_key
from ..tasks.capture import quiet
from ._records import DynamoForm
from ._target import Loaded, tensors_of, unchanged
from .pieces import Unprintable, check_printable, expression

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphKey:
    """A graph by its computation: equal keys compute the same of tensors in the same order."""

    key: str
    """Hash of operators, constants, shapes and dtypes."""
    order: tuple[int, ...]
    """Places of the arguments that are read, in order of first use."""


def graph_key(graph: fx.GraphModule, values: Sequence[Any]) -> GraphKey:
    """Return the key of a graph at the sizes of these values; nothing is computed.

    Args:
        graph: A graph of Dynamo.
        values: Its arguments, tensors and whole numbers; tensors may be fake, if their sizes are numbers.

    Raises:
        Unprintable: it is no pure function of ATen operators on dense, contiguous CPU tensors.
    """
    traced = _traced(graph, values)
    arguments = {n.name: i for i, n in enumerate(n for n in traced.graph.nodes if n.op == "placeholder")}
    names: dict[str, str] = {}
    order, lines = list[int](), list[str]()

    def name(node: str) -> str:
        if node not in names and node in arguments:
            names[node] = f"a{len(order)}"
            order.append(arguments[node])
        return names[node]

    for node in traced.graph.nodes:
        if node.op == "get_attr":
            names[node.name] = f"constant {_content(getattr(traced, str(node.target)))}"
        elif node.op == "call_function":
            check_printable(node)
            call = expression(node, name)
            names[node.name] = f"v{len(lines)}"
            lines.append(call)
        elif node.op == "output":
            if not all(isinstance(n, fx.Node) for n in node.args[0]):
                raise Unprintable("a result is no tensor")
            lines.append(f"return {', '.join(name(n.name) for n in node.args[0])}")
    return GraphKey(content_key(*lines, *(repr(sized(values[i])) for i in order)), tuple(order))


def sized(tensor: torch.Tensor) -> tuple[tuple[int, ...], str]:
    """Return shape and dtype of a tensor.

    Example:
        >>> sized(torch.ones(2, 3))
        ((2, 3), 'torch.float32')
    """
    return tuple(map(int, tensor.shape)), str(tensor.dtype)


def dynamo_form(loaded: Loaded, weights: Sequence[str]) -> DynamoForm | None:
    """Let Dynamo see one call of a model, and return what its graph is known by.

    None where the graph breaks, changes what it is given, or yields what is no part of the model's result.

    Args:
        loaded: The model.
        weights: Names of its parameters and buffers in the order in which its program takes them.
    """
    seen: list[tuple[fx.GraphModule, tuple[Any, ...], Sequence[Any]]] = []

    def collect(graph: fx.GraphModule, _: Sequence[Any]) -> Any:
        def run(*values: Any) -> Any:
            found = graph(*values)
            seen.append((graph, values, found))
            return found

        return run

    given = [v for v in pytree.tree_leaves((loaded.args, loaded.kwargs)) if isinstance(v, torch.Tensor)]
    state = loaded.module.state_dict(keep_vars=True)
    torch._dynamo.reset()
    try:
        with quiet(), torch.no_grad(), unchanged(loaded.whole):
            before = [t._version for t in (*given, *state.values())]
            compiled = torch.compile(loaded.module, backend=collect, dynamic=False)
            results = tensors_of(compiled(*loaded.args, **loaded.kwargs))
            if len(seen) != 1 or before != [t._version for t in (*given, *state.values())]:
                return None
            graph, values, found = seen[0]
            key = graph_key(graph, values)
    except Exception as error:  # noqa: BLE001  whatever a model raises under Dynamo, it is served by `patch` alone
        _LOG.debug("torch.compile cannot know %s: %s: %s", loaded.name, type(error).__name__, error)
        return None
    finally:
        torch._dynamo.reset()
    places = [_place(one, results) for one in found]
    if None in places or _share_memory(found, values):
        return None
    read = [values[i] for i in key.order]
    inputs = tuple(_found(t, read) for t in given)
    held = tuple(_found(state[name], read) for name in weights)
    rest = {i: content(t) for i, t in enumerate(read) if i not in {*inputs, *held}}
    return DynamoForm(
        graph=key.key, tensors=tuple(map(sized, read)), inputs=inputs, weights=held, constants=rest,
        results=tuple(p for p in places if p is not None),
    )  # fmt: skip


def content(tensor: torch.Tensor) -> str:
    """Return a hash of a tensor's values, shape and dtype.

    Example:
        >>> content(torch.zeros(2)) == content(torch.zeros(2)), content(torch.zeros(2)) == content(torch.ones(2))
        (True, False)
    """
    data = (
        tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0)
    )
    return f"{sized(tensor)} {hashlib.sha256(data.numpy().tobytes()).hexdigest()}"


def _traced(graph: fx.GraphModule, values: Sequence[Any]) -> fx.GraphModule:
    """Return the graph as ATen operators at the sizes of these values."""
    if any(graph.parameters()):
        raise Unprintable("the graph holds parameters of its own")
    with tracing(None), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        fakes = [_fake(value) for value in values]
        try:
            return make_fx(graph, tracing_mode="real")(*fakes)
        except Exception as error:  # the model's own code runs under the tracer, and may raise anything
            raise Unprintable(f"the graph cannot be traced: {type(error).__name__}: {error}") from error


def _fake(value: Any) -> Any:
    if isinstance(value, int):
        return value
    if not is_plain(value) or not all(type(s) is int for s in value.shape):
        raise Unprintable(f"an argument is a {type(value).__name__} that no program takes")
    return torch.empty(value.shape, dtype=value.dtype)


def is_plain(value: object) -> bool:
    """Tell whether a value is a dense, contiguous tensor on the CPU.

    Example:
        >>> is_plain(torch.ones(2, 3)), is_plain(torch.ones(2, 3).t()), is_plain(1)
        (True, False, False)
    """
    return (
        isinstance(value, torch.Tensor)
        and (type(value) in (torch.Tensor, nn.Parameter) or isinstance(value, torch._subclasses.FakeTensor))
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and value.is_contiguous()
    )


def _content(value: object) -> str:
    if not isinstance(value, torch.Tensor) or isinstance(value, nn.Parameter):
        raise Unprintable(f"the graph holds a {type(value).__name__}")
    return content(value)


def _place(one: object, among: Sequence[torch.Tensor]) -> int | None:
    return next((i for i, other in enumerate(among) if other is one), None)


def _found(one: torch.Tensor, among: Sequence[torch.Tensor]) -> int:
    place = _place(one, among)
    return -1 if place is None else place


def _share_memory(results: Sequence[torch.Tensor], values: Sequence[Any]) -> bool:
    """Tell whether a result lies in the memory of an argument or of another result."""
    given = [v for v in (*values, *results) if isinstance(v, torch.Tensor) and v.numel()]
    places = [v.untyped_storage().data_ptr() for v in given]
    return any(places.count(r.untyped_storage().data_ptr()) > 1 for r in results if r.numel())
