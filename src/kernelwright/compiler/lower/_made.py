"""What a lowering stores in any case, and the steps that it has made."""

from dataclasses import dataclass

from ..graph import Graph, Input, Node, Reshape
from ..tile import Step


@dataclass(frozen=True)
class Made:
    """Steps of one root, with what was left when they were made."""

    left: list[Node]
    steps: list[Step]
    computed: frozenset[Node]
    touched: frozenset[Node]


def outputs_of(graph: Graph) -> tuple[Node, ...]:
    """Return the outputs; one that is an argument, or is returned twice, is copied."""
    found: list[Node] = []
    for place, node in enumerate(graph.outputs):
        again = any(node is other for other in found)
        copy = isinstance(node, Input) or again
        found.append(
            Reshape(name=f"{node.name}_copy{place}", shape=node.shape, dtype=node.dtype, source=node)
            if copy else node
        )  # fmt: skip
    return tuple(found)
