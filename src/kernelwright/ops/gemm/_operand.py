"""Find the input behind a factor, through views, and whether its last two axes are swapped."""

from dataclasses import dataclass

from ...tasks.capture import Graph, Node, Ref
from .._parametric import reach, slots

_VIEWS = (
    "aten.view.default", "aten.unsqueeze.default", "aten.squeeze.dims", "aten.squeeze.dim", "aten.expand.default",
    "aten._unsafe_view.default",
)  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """A factor and its memory layout."""

    slot: int
    """Its position in the call."""
    swapped: bool
    """Whether the factor is the input with its last two axes swapped."""
    batched: bool
    """Whether the input has axes before the last two."""


def operand(graph: Graph, node: Node) -> Operand | None:
    """Return the input behind a factor, or None if it is computed or its axes are in another order."""
    order, source = _walk(graph, node)
    if order is None or source.op not in ("input", "state") or source.dtype != "float32":
        return None
    plain = sorted(order)
    if order == plain:
        swapped = False
    elif order[:-2] == plain[:-2] and order[-2:] == plain[:-3:-1]:
        swapped = True
    else:
        return None
    flattened = swapped and len(source.shape) != len(node.shape) and len(order) > 2
    return None if flattened else Operand(slots(graph)[source.name], swapped, len(source.shape) > 2)


def in_memory_order(graph: Graph, node: Node) -> Node:
    """Return the first node behind views that change no order in memory."""
    while node.op in (*_VIEWS, "aten.permute.default", "aten.clone.default"):
        source = reach(graph, node)
        if source.elements != node.elements:
            break
        if node.op == "aten.permute.default" and isinstance(node.args[1], tuple):
            real = [
                i for i in (int(str(a)) % len(source.shape) for a in node.args[1]) if source.shape[i] != 1
            ]
            if real != sorted(real):
                break
        node = source
    return node


def _walk(graph: Graph, node: Node) -> tuple[list[int] | None, Node]:
    """Follow views to their source; the order in which the source's axes of more than one element appear."""
    steps: list[Node] = []
    while node.op in (*_VIEWS, "aten.permute.default") and isinstance(node.args[0], Ref):
        steps.append(node)
        node = reach(graph, node)
    axes = [i for i, size in enumerate(node.shape) if size != 1]
    shape = node.shape
    places = list(range(len(shape)))  # axis of the source behind each axis now; -1 for a new one
    for step in reversed(steps):
        if step.elements != node.elements:
            return None, node
        if step.op == "aten.permute.default" and isinstance(step.args[1], tuple):
            places = [places[int(str(i)) % len(shape)] for i in step.args[1]]
        else:
            real = [p for p, size in zip(places, shape, strict=True) if size != 1]
            kept = [size for size in step.shape if size != 1]
            if kept != [size for size in shape if size != 1]:
                if real != sorted(real):
                    return None, node
                real = list(range(len(kept)))  # joined or split in memory order: new names, same order
                axes = real
            names = iter(real)
            places = [next(names) if size != 1 else -1 for size in step.shape]
        shape = step.shape
    return [p for p, size in zip(places, shape, strict=True) if size != 1 and p >= 0] if axes else [], node
