"""Recognise the equal parts that a tensor is split into along one axis."""

from dataclasses import dataclass

from ...tasks.capture import Graph, Node
from .._parametric import reach


@dataclass(frozen=True)
class Part:
    """A node that is one of several equal parts of an input along an axis."""

    source: str
    axis: int
    parts: int
    index: int


def part_of(graph: Graph, node: Node) -> Part | None:
    """Return which part of which input a slice or an item of a split is."""
    if node.op == "getitem":
        split = reach(graph, node)
        if split.op not in ("aten.split_with_sizes.default", "aten.split.Tensor", "aten.chunk.default"):
            return None
        given, source = split.arguments(), reach(graph, split)
        axis = int(str(given["dim"])) % len(source.shape)
        size = node.shape[axis]
        sizes = given.get("split_sizes")
        index = int(str(node.args[1]))
        if isinstance(sizes, tuple) and set(sizes) != {size}:
            return None
        start = index * size
    elif node.op == "aten.slice.Tensor":
        given, source = node.arguments(), reach(graph, node)
        axis = int(str(given["dim"])) % len(source.shape)
        size, start = node.shape[axis], int(str(given["start"] or 0)) % max(1, source.shape[axis])
        if given["step"] != 1:
            return None
    else:
        return None
    whole = source.shape[axis]
    if size == 0 or whole % size or start % size or source.op not in ("input", "state"):
        return None
    return Part(source.name, axis, whole // size, start // size)
