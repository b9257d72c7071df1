"""Bandits over strategies, models and operators, by reward per cost.

Source: Auer and others, "Finite-time analysis of the multiarmed bandit problem", 2002 (UCB1); ShinkaEvolve,
`llm/prioritization.py` (asymmetric rewards with a cost term); OpenTuner (a portfolio that shares its results).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...propose import Move, Reply
from ..archives import Scored
from ._numbered import NumberedStrategy
from ._protocol import Means

_FIXED = frozenset(
    {
        "draft",
        "merge",
        "repair",
        "plan",
        "critique",
        "read-profile",
        "read-build",
        "write-scripts",
        "test",
        "summarise",
    }
)
"""Operators with a meaning to the strategy that requested them; all others may substitute for `improve`."""


@dataclass
class Arm:
    """One choice and its rewards."""

    pulls: int = 0
    reward: float = 0.0
    usd: float = 0.0


class Bandit:
    """Upper confidence bounds on reward per cost.

    Example:
        >>> bandit = Bandit(["dear", "cheap"], exploration=0.1, thrift=1.0)
        >>> for name, usd in (("dear", 1.0), ("cheap", 0.01)):
        ...     bandit.pull(name)
        ...     bandit.pay(name, 0.2, usd)
        >>> bandit.choose()
        'cheap'
    """

    def __init__(self, names: Sequence[str], *, exploration: float, thrift: float) -> None:
        """Start with untried arms.

        Args:
            names: The arms.
            exploration: Weight of rarely tried arms, in units of reward.
            thrift: How much cost counts: 0 not at all, 1 as much as reward.
        """
        self.arms = {name: Arm() for name in names}
        self._exploration, self._thrift = exploration, thrift

    def choose(self) -> str:
        """Return the arm to pull: each once, then the one with the greatest bound."""
        return max(self.arms, key=self._bound)

    def pull(self, name: str) -> None:
        """Record that an arm was chosen; until it pays, the pull counts as one without a reward."""
        self.arms[name].pulls += 1

    def pay(self, name: str, reward: float, usd: float) -> None:
        """Record the reward and cost of a pull."""
        self.arms[name].reward += reward
        self.arms[name].usd += usd

    def _bound(self, name: str) -> float:
        arm, pulls = self.arms[name], sum(a.pulls for a in self.arms.values())
        if not arm.pulls:
            return math.inf
        worth = arm.reward / arm.pulls + self._exploration * math.sqrt(math.log(pulls + 1) / arm.pulls)
        usual = sum(a.usd for a in self.arms.values()) / pulls
        dearness = (arm.usd / arm.pulls) / usual if usual else 1.0
        return worth / float((0.1 + dearness) ** self._thrift)


class Portfolio(NumberedStrategy):
    """Let one bandit choose the strategy of each move, another the model, a third the kind of improvement.

    Each strategy learns from all candidates: its own as results of its moves, the others' as if the search had
    begun with them. A pull's reward is the share by which its best candidate beats the main parent (or the
    native op, for a draft); losses give no reward, since only the best of a run counts.
    """

    def __init__(
        self, means: Means, *, strategies: str = "greedy evolve map_elites uct", exploration: float = 0.2,
        thrift: float = 0.5,
    ) -> None:  # fmt: skip
        """Start with untried arms.

        Args:
            means: What may be requested.
            strategies: Names of the strategies, separated by spaces.
            exploration: Weight of rarely tried arms.
            thrift: How much money counts.
        """
        from . import make_strategy

        super().__init__(means)
        self._members = {name: make_strategy(name, means) for name in strategies.split()}
        kinds = [o for o in means.operators if o not in _FIXED] or ["improve"]
        self.turns, self.models, self.kinds = (
            Bandit(names, exploration=exploration, thrift=thrift)
            for names in (list(self._members), means.models or ("",), kinds)
        )
        self._inner: dict[int, tuple[str, Move]] = {}
        """By move: its strategy's name, and the move as that strategy numbered it."""
        self._under_way: dict[int, tuple[Move, float, float]] = {}
        """By unsettled move: the move, its cost, and its best score."""

    def _next(self) -> Move | None:
        turn = self.turns.choose()
        for name in (turn, *(n for n in self._members if n != turn)):
            asked = self._members[name].ask()
            if asked is not None:
                return self._send(name, asked)
        return None

    def _send(self, name: str, asked: Move) -> Move:
        kind = self.kinds.choose() if asked.operator == "improve" else asked.operator
        move = replace(asked, number=self.asked, operator=kind, model=asked.model or self.models.choose())
        self._inner[move.number] = name, asked
        self._under_way[move.number] = move, 0.0, 0.0
        for bandit, arm in self._pulled(move):
            bandit.pull(arm)
        return move

    def _listen(self, move: Move, reply: Reply) -> None:
        name, asked = self._inner[move.number]
        self._members[name].heard(asked, reply)
        self._under_way[move.number] = move, reply.usd, 0.0

    def _learn(self, found: Scored) -> None:
        owner, asked = self._inner[found.move.number] if found.move is not None else ("", None)
        for name, member in self._members.items():
            member.tell(replace(found, move=asked if name == owner else None))
        if found.move is not None and found.move.number in self._under_way:
            move, usd, best = self._under_way[found.move.number]
            self._under_way[move.number] = move, usd, max(best, found.score or 0.0)

    def _settle(self, move: Move) -> None:
        sent, usd, best = self._under_way.pop(move.number)
        before = _score_of(sent)
        reward = 1 - before / best if best > before else 0.0
        for bandit, arm in self._pulled(sent):
            bandit.pay(arm, reward, usd)

    def _pulled(self, move: Move) -> list[tuple[Bandit, str]]:
        pulled = [
            (self.turns, self._inner[move.number][0]),
            (self.models, move.model),
            (self.kinds, move.operator),
        ]
        return [(bandit, arm) for bandit, arm in pulled if arm in bandit.arms]


def _score_of(move: Move) -> float:
    """Return the score of a move's main parent; 1, the native op's, if there is none."""
    return (Scored.of(move.parents[0]).score if move.parents else None) or 1.0
