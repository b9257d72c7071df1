"""What a lowering stores in any case, and what it learns from the steps that it has made."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...tasks.capture import Node as Captured
from ..graph import Contract, Graph, Input, Node, Reduce, Reshape, ordered, product, sources_of
from ..tile import Begin, Kernel, Step, statements
from ._reductions import MOST_REPEATED


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


def has_product(root: Node, ends: Collection[Node]) -> bool:
    """Tell whether a node is computed from a product, as far back as the ends."""
    behind = ordered([root], lambda n: () if n in ends else sources_of(n))
    return any(isinstance(n, Contract) and n not in ends for n in behind)


def repeated(steps: Sequence[Step], nodes: Sequence[Node]) -> set[Node]:
    """Return large reductions that several kernels compute: storing one takes less than a further pass.

    The statistics of a batch norm, which normalise here and are folded into the running ones there.
    """
    begun = Counter[str]()
    for kernel in (step for step in steps if isinstance(step, Kernel)):
        begun.update({s.name for s in statements(kernel.body) if isinstance(s, Begin)})
    return {
        n for n in nodes
        if isinstance(n, Reduce) and begun[n.name] > 1
        and product([n.source.shape[d] for d in n.dims]) > MOST_REPEATED
    }  # fmt: skip


def captured_after(node: Node, captured: Mapping[int, str], nodes: Sequence[Node]) -> str | None:
    """Return the captured operation, by the identity of its result, that gives a node, or the nearest after it."""
    waiting, seen = [node], set[int]()
    while waiting:
        here = waiting.pop(0)
        if id(here) in captured and not isinstance(here, Input):
            return captured[id(here)]
        if id(here) not in seen:
            seen.add(id(here))
            waiting.extend(n for n in nodes if any(s is here for s in sources_of(n)))
    return None


def reads_of(graph: Graph, operations: Mapping[str, Captured], name: str) -> tuple[str, ...]:
    """Name what a native operation reads; a result of several reads what its operation reads."""
    refs: dict[str, None] = {}
    for ref in operations[name].refs():
        if ref in graph.values:
            refs[ref] = None
        elif ref in operations:
            refs |= dict.fromkeys(reads_of(graph, operations, ref))
    return tuple(refs)
