"""Part of a graph → Python that computes it: the body of a region's task, and of the patched model."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from ._graph import Capture


class Unprintable(Exception):
    """A part of a graph cannot be one function of tensors."""


@dataclass(frozen=True)
class Printed:
    """A part of a graph as the body of a function; names of inputs, weights and values are numbered."""

    lines: tuple[str, ...]
    """Assignments in order: `v0 = torch.ops.aten.relu.default(a0)`."""
    inputs: tuple[str, ...]
    """Nodes that `a0`, `a1` ... stand for."""
    weights: tuple[str, ...]
    """Nodes that `w0`, `w1` ... stand for."""
    outputs: tuple[str, ...]
    """Nodes that it yields."""
    returned: tuple[str, ...]
    """The names of those in the lines."""
    shapes: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each input and then each weight."""


def printed(capture: Capture, start: int, stop: int) -> Printed:
    """Print the nodes from `start` up to `stop` as a function of what they read from outside.

    Raises:
        Unprintable: it changes its inputs, draws random numbers, or yields several values as one.
    """
    nodes = [n for n in capture.nodes[start:stop] if n.name not in capture.folded]
    inside = {n.name for n in nodes}
    names: dict[str, str] = {}
    inputs, weights, lines = list[str](), list[str](), list[str]()
    for node in nodes:
        check_printable(node)
        for source in node.all_input_nodes:
            if source.name in names:
                continue
            if source.name in capture.weights:
                names[source.name] = f"w{len(weights)}"
                weights.append(source.name)
            else:
                names[source.name] = f"a{len(inputs)}"
                inputs.append(source.name)
        names[node.name] = f"v{len(lines)}"
        lines.append(f"{names[node.name]} = {expression(node, lambda n: names[n])}")
    wanted = {*capture.outputs, *(new for _, new in capture.mutations)}
    outputs = [
        n for n in nodes if n.name in wanted or any(u.name not in inside for u in n.users if u.op != "output")
    ]
    if not outputs:
        raise Unprintable("nothing reads its result")
    for node in (*outputs, *(n for n in nodes[0].graph.nodes if n.name in inputs)):
        if not isinstance(node.meta.get("val"), torch.Tensor):
            raise Unprintable(f"{node.name} is several tensors at once, and used elsewhere")
    return Printed(
        tuple(lines), tuple(inputs), tuple(weights), tuple(n.name for n in outputs),
        tuple(names[n.name] for n in outputs), tuple(_shape(nodes[0].graph, n) for n in (*inputs, *weights)),
    )  # fmt: skip


def expression(node: fx.Node, name: Callable[[str], str]) -> str:
    """Print the call of a node, other nodes by the name that is given to them.

    A view is printed as a reshape: it is the same where the strides allow a view, and right where they do not.
    """
    if node.target is operator.getitem:
        source, index = node.args
        return f"{_argument(source, name)}[{index}]"
    target = str(node.target).replace("aten.view.default", "aten.reshape.default")
    target = target.replace("aten._unsafe_view.default", "aten.reshape.default")
    given = [_argument(a, name) for a in node.args]
    given += [f"{key}={_argument(value, name)}" for key, value in node.kwargs.items() if value is not None]
    return f"torch.ops.{target}({', '.join(given)})"


def check_printable(node: fx.Node) -> None:
    """Raise `Unprintable` for a node that is no pure ATen operator."""
    if node.target is operator.getitem:
        return
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        raise Unprintable(f"{node.name} calls {target}, which is no ATen operator")
    if target.namespace != "aten":
        raise Unprintable(f"{target} is not torch's own")
    if target._schema.is_mutable:
        raise Unprintable(f"{target} changes its arguments")
    if is_random(node):
        raise Unprintable(f"{target} draws random numbers")


def is_random(node: fx.Node) -> bool:
    """Tell whether a node draws random numbers."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags and not _is_idle_dropout(node)


def _is_idle_dropout(node: fx.Node) -> bool:
    """Tell whether random numbers are drawn with probability zero, or in training alone."""
    name = str(node.target).split(".")[1]
    if name in ("dropout", "native_dropout"):
        return bool(node.args[2] is False or node.args[1] == 0.0)
    place = {"scaled_dot_product_attention": 4, "_scaled_dot_product_flash_attention_for_cpu": 3}.get(name)
    return place is not None and bool(len(node.args) <= place or node.args[place] == 0.0)


def _argument(value: object, name: Callable[[str], str]) -> str:
    match value:
        case fx.Node():
            return name(value.name)
        case list() | tuple():
            return f"[{', '.join(_argument(v, name) for v in value)}]"
        case bool() | int() | str() | None:
            return repr(value)
        case float():
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        case torch.dtype() | torch.memory_format() | torch.layout():
            return str(value)
        case torch.device():
            return f"torch.device({str(value)!r})"
    raise Unprintable(f"{value!r} is a {type(value).__name__}, which cannot be printed")


def _shape(graph: fx.Graph, name: str) -> tuple[tuple[int, ...], str]:
    value = next(n for n in _named(graph, name)).meta["val"]
    return tuple(value.shape), str(value.dtype)


def _named(graph: fx.Graph, name: str) -> Iterator[fx.Node]:
    return (n for n in graph.nodes if n.name == name)


def listed(names: Sequence[str]) -> str:
    """Return names as the left side of an assignment or an argument list: `a, b` or `a,` where there is one."""
    return ", ".join(names) + ("," if len(names) == 1 else "")
