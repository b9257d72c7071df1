"""A tree of edits: parents, visit counts and rewards of candidates."""

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
    working: list["Node"] = field(default_factory=list)
    """The children that work: those into which to descend."""
    visits: int = 0
    """Edits completed in its subtree, itself included."""
    pending: int = 0
    """Edits under way in its subtree; each counts as a visit without a reward."""
    deeper: int = 0
    """Those of them that are not of the node itself."""
    best: float = 0.0
    """Greatest reward in its subtree: the search wants one good kernel, not a good average."""
    value: float = 0.0
    """That reward, less for each edit under way."""
    rarity: float = 1.0
    """One over the root of its visits and edits under way."""

    def weigh(self) -> None:
        """Compute value and rarity anew: a wide node's parent reads them far more often than they change."""
        tries = self.visits + self.pending + 1
        self.value, self.rarity = self.best * (self.visits + 1) / tries, 1 / math.sqrt(tries)

    def path(self) -> Iterator["Node"]:
        """Yield the node and its ancestors up to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


class Tree:
    """Nodes with upper confidence bounds on the reward of an edit below them.

    Source: Kocsis, Szepesvári, "Bandit based Monte-Carlo planning", 2006 (UCT); Coulom, "Computing Elo
    ratings of move patterns", 2007, section 4 (progressive widening).
    """

    def __init__(self, *, exploration: float, widening: float) -> None:
        """Start with only the root.

        Args:
            exploration: Weight of rarely visited nodes, in units of reward.
            widening: A node may have up to (visits + 1) to this power children, at least one.
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
        """Add a candidate below another; one already in the tree stays where it is."""
        if found.key not in self._nodes:
            self._nodes[found.key] = node = Node(found, parent)
            parent.children.append(node)
            if found.works:
                parent.working.append(node)
        return self._nodes[found.key]

    def select(self) -> Node:
        """Descend to the node to edit: from a node with enough children, into the most promising child."""
        node = self.root
        while node.working and not self._wide(node):
            node = self._most_promising(node)
        return node

    def begin(self, node: Node) -> None:
        """Record that an edit of a node has started."""
        for above in node.path():
            above.pending += 1
            above.deeper += above is not node
            above.weigh()

    def end(self, node: Node) -> None:
        """Record that an edit of a node has ended, with or without a candidate."""
        for above in node.path():
            above.pending -= 1
            above.deeper -= above is not node
            above.visits += 1
            above.weigh()

    def reward(self, node: Node, reward: float) -> None:
        """Record a node's reward; its ancestors keep the best reward below them."""
        for above in node.path():
            above.best = max(above.best, reward)
            above.weigh()

    def _wide(self, node: Node) -> bool:
        begun = len(node.children) + node.pending - node.deeper
        return begun < max(1.0, math.pow(node.visits + 1, self._widening))

    def _most_promising(self, node: Node) -> Node:
        """Return the working child with the greatest bound, the first of equals."""
        rare = self._exploration * math.sqrt(math.log(node.visits + node.pending + 2))
        bounds = [child.value + rare * child.rarity for child in node.working]
        return node.working[bounds.index(max(bounds))]
