"""Monte Carlo tree search (UCT) over edits: deeper where edits paid off, wider where little was tried.

Source: Kocsis, Szepesvári, "Bandit based Monte-Carlo planning", 2006; OptiML (tree search after a generation
stage); Kernel Forge, `core/mcts.py`.
"""

import math

from ...propose import Move, Reply
from ..archives import Node, Scored, Tree
from ._numbered import NumberedStrategy
from ._protocol import Means


class TreeSearch(NumberedStrategy):
    """Each node is a candidate, each child an edit of it; the root's children are drafts and starts.

    A node's value is the best reward below it: the logarithm of the speedup, squashed into 0 to 1, and 0 for
    a failure. Edits under way count as visits without a reward, so concurrent edits spread out.
    """

    def __init__(
        self, means: Means, *, exploration: float = 0.05, widening: float = 0.5, best: bool = False
    ) -> None:
        """Start with only the task.

        Args:
            means: What may be requested.
            exploration: Weight of rarely visited nodes, in units of reward.
            widening: A node visited n times has up to n to this power children.
            best: Whether an edit is shown its best ancestor, if that is not its parent.
        """
        super().__init__(means)
        self._best = best
        self.tree = Tree(exploration=exploration, widening=widening)

    def _next(self) -> Move | None:
        node = self.tree.select()
        self.tree.begin(node)
        if node.found is None:
            return self.move("draft")
        best = max((n.found for n in node.path() if n.found is not None), key=lambda found: found.merit)
        shown = (best,) if self._best and best is not node.found else ()
        return self.move("improve", node.found, inspirations=shown)

    def _listen(self, move: Move, reply: Reply) -> None:
        del reply
        self.tree.end(self._edited(move))

    def _learn(self, found: Scored) -> None:
        above = self.tree.root if found.move is None else self._edited(found.move)
        node = self.tree.add(found, above)
        if found.score is not None:
            self.tree.reward(node, reward_of(found.score))

    def _edited(self, move: Move) -> Node:
        key = move.parents[0].candidate.key if move.parents else ""
        return self.tree.node(key) or self.tree.root


def reward_of(speedup: float) -> float:
    """Return a reward from 0 to 1 that grows with the logarithm of the speedup.

    Example:
        >>> [round(reward_of(s), 2) for s in (0.25, 1.0, 4.0)]
        [0.2, 0.5, 0.8]
    """
    return 1 / (1 + math.exp(-math.log(speedup)))
