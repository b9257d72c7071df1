"""A tree of edits: who was made from whom, how often each was visited, and what came of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from ._scored import Scored


@dataclass(eq=False)
class Node:
    """One candidate, or the task itself at the root."""

    found: Scored | None
    """None at the root, where an edit starts from the task alone."""
    parent: "Node | None" = None
    children: list["Node"] = field(default_factory=list)
    visits: int = 0
    """Edits heard of in its subtree, itself included."""
    pending: int = 0
    """Edits under way in its subtree; each counts as a visit that brought nothing."""
    best: float = 0.0
    """Greatest reward in its subtree; the search is for one good kernel, not for a good average."""

    def path(self) -> Iterator["Node"]:
        """Yield the node and its ancestors up to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


class Tree:
    """Nodes with upper confidence bounds on what an edit below them may bring.

    Source: Kocsis, Szepesvári, "Bandit based Monte-Carlo planning", 2006 (UCT); Coulom, "Computing Elo
    ratings of move patterns", 2007, section 4 (progressive widening).
    """

    def __init__(self, *, exploration: float, widening: float) -> None:
        """Begin with the root alone.

        Args:
            exploration: Weight of what is seldom visited, in units of reward.
            widening: A node may have (visits + 1) to this power children, at least one.
        """
        self.root = Node(None)
        self._nodes: dict[str, Node] = {}
        self._exploration = exploration
        self._widening = widening

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, key: str) -> Node | None:
        """Return the node of a candidate."""
        return self._nodes.get(key)

    def add(self, found: Scored, parent: Node) -> Node:
        """Hang a candidate below another; one that is there already stays where it is."""
        if found.key not in self._nodes:
            self._nodes[found.key] = node = Node(found, parent)
            parent.children.append(node)
        return self._nodes[found.key]

    def select(self) -> Node:
        """Go down to the node to edit: below a node with enough children into the most promising one."""
        node = self.root
        while (live := [c for c in node.children if c.found is None or c.found.works]) and not self._wide(
            node
        ):
            node = max(live, key=self._bound)
        return node

    def begin(self, node: Node) -> None:
        """Note that an edit of a node is under way."""
        for above in node.path():
            above.pending += 1

    def end(self, node: Node) -> None:
        """Note that an edit of a node came back, with or without a candidate."""
        for above in node.path():
            above.pending -= 1
            above.visits += 1

    def reward(self, node: Node, reward: float) -> None:
        """Note what a node brought; its ancestors remember the best below them."""
        for above in node.path():
            above.best = max(above.best, reward)

    def _wide(self, node: Node) -> bool:
        begun = len(node.children) + node.pending - sum(c.pending for c in node.children)
        return begun < max(1.0, math.pow(node.visits + 1, self._widening))

    def _bound(self, node: Node) -> float:
        assert node.parent is not None, "only children are compared"
        tries, above = node.visits + node.pending + 1, node.parent.visits + node.parent.pending + 1
        known = node.best * (node.visits + 1) / tries
        return known + self._exploration * math.sqrt(math.log(above + 1) / tries)
