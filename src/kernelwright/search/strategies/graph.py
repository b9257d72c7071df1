"""Graph search in four parts: selection policy, operators, fitness, termination.

Source: KernelEvolve, "Scaling agentic kernel coding", section on graph-based search.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from ...propose import Move
from ..archives import Graph, Scored
from ._numbered import NumberedStrategy
from ._protocol import Means

Fitness = Callable[[Scored], float]
"""How good a node is: 0 for a failure."""
Selection = Callable[[Graph, Fitness, random.Random], Scored | None]
"""Which node to edit. None to start from the task."""
Operators = Callable[[Graph, Fitness, Scored], tuple[str, tuple[Scored, ...]]]
"""The operator to apply to the node, and its parents."""
Termination = Callable[[Graph, Fitness, int], bool]
"""Whether to end, given how many moves were requested since fitness last rose."""


def speedup(node: Scored) -> float:
    """Fitness: the speedup over the fastest baseline."""
    return node.score or 0.0


def greedy(graph: Graph, fitness: Fitness, dice: random.Random) -> Scored | None:
    """Select the fittest node."""
    del dice
    return max(graph.nodes, key=fitness, default=None)


def fresh(graph: Graph, fitness: Fitness, dice: random.Random) -> Scored | None:
    """Select by fitness, reduced for each edit a node already had; failures only if never edited."""
    nodes = [n for n in graph.nodes if fitness(n) or not graph.edits(n.key)]
    top = max(map(fitness, nodes), default=0.0)
    floor = 0.02 * (top or 1.0)
    weights = [(max(fitness(n), floor) / (top or 1.0)) ** 8 / (1 + graph.edits(n.key)) for n in nodes]
    return dice.choices(nodes, weights)[0] if nodes else None


def uct(graph: Graph, fitness: Fitness, dice: random.Random) -> Scored | None:
    """Select by an upper confidence bound on fitness."""
    del dice
    total = sum(graph.edits(n.key) for n in graph.nodes) + 1

    def bound(node: Scored) -> float:
        return fitness(node) + 0.3 * math.sqrt(math.log(total + 1) / (graph.edits(node.key) + 1))

    return max(graph.nodes, key=bound, default=None)


def by_context(graph: Graph, fitness: Fitness, node: Scored) -> tuple[str, tuple[Scored, ...]]:
    """Choose by a node's state: repair a failure, improve once or twice, then merge with an unrelated good node."""
    if not fitness(node):
        return "repair", ()
    strangers = [n for n in graph.nodes if fitness(n) and not graph.related(n.key, node.key)]
    if graph.edits(node.key) % 3 == 2 and strangers:
        return "merge", (max(strangers, key=fitness),)
    return "improve", ()


def stalled(most: int) -> Termination:
    """Terminate after `most` moves without a rise of fitness."""

    def ended(graph: Graph, fitness: Fitness, since: int) -> bool:
        del graph, fitness
        return since >= most

    return ended


_SELECTIONS: dict[str, Selection] = {"greedy": greedy, "fresh": fresh, "uct": uct}


@dataclass(frozen=True)
class Parts:
    """The four parts of a graph search."""

    select: Selection
    ended: Termination
    operate: Operators = by_context
    fitness: Fitness = speedup


class GraphSearch(NumberedStrategy):
    """Select a node, choose an operator by its state, add the result; merges have several parents, hence a graph."""

    def __init__(
        self, means: Means, *, selection: str = "fresh", patience: int = 60, drafts: int = 3,
        parts: Parts | None = None,
    ) -> None:  # fmt: skip
        """Start with an empty graph.

        Args:
            means: What may be requested.
            selection: `greedy`, `fresh` or `uct`.
            patience: Moves without a rise of fitness before the end.
            drafts: Candidates from the task alone before any edit.
            parts: The four parts, instead of `selection` and `patience`.
        """
        super().__init__(means)
        self.graph = Graph()
        self._parts = parts or Parts(select=_SELECTIONS[selection], ended=stalled(patience))
        self._drafts = drafts
        self._top = 0.0
        self._risen = 0

    def _next(self) -> Move | None:
        parts = self._parts
        if parts.ended(self.graph, parts.fitness, self.asked - self._risen):
            return None
        node = parts.select(self.graph, parts.fitness, self.dice)
        if node is None or self.asked + len(self.graph) < self._drafts:
            return self.move("draft")
        operator, others = parts.operate(self.graph, parts.fitness, node)
        self.graph.edit(node.key, *(o.key for o in others))
        return self.move(operator, node, *others)

    def _learn(self, found: Scored) -> None:
        self.graph.add(found)
        if self._parts.fitness(found) > self._top:
            self._top, self._risen = self._parts.fitness(found), self.asked
