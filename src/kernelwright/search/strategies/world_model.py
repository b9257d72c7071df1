"""A decision tree of hypotheses as a model of the task: possible changes, their ratings and difficulties.

Source: K-Search, "LLM kernel generation via a co-evolving intrinsic world model".
"""

from dataclasses import dataclass

from ...propose import Move, Reply
from ..archives import Scored
from ._notes import Hypothesis, hypotheses_of
from ._numbered import NumberedStrategy
from ._protocol import Means


@dataclass(eq=False)
class Action:
    """One hypothesis and its results."""

    said: Hypothesis
    """Idea, rating and difficulty, as last stated."""
    base: Scored | None
    """What it starts from. None for the task itself."""
    best: Scored | None = None
    """Its best result."""
    tries: int = 0
    under_way: int = 0
    stale: int = 0
    """Tries since it last improved."""
    open: bool = True

    @property
    def on(self) -> Scored | None:
        """What the next try starts from: its best result, or its base if that is better."""
        return max((s for s in (self.base, self.best) if s is not None), key=lambda s: s.merit, default=None)

    @property
    def promise(self) -> float:
        """Its rating, reduced for its difficulty and for every try under way."""
        return self.said.rating / (1 + 0.25 * (self.said.difficulty - 1)) / (1 + self.under_way)

    def line(self) -> str:
        """Return it as one line of a prompt."""
        state = "open" if self.open else "closed"
        gain = f"best {self.best.told}" if self.best else "nothing that works yet"
        return f"- {self.said.idea} (rated {self.said.rating:g}, {state}, {self.tries} tries, {gain})"


class WorldModel(NumberedStrategy):
    """Plan hypotheses, try the most promising open one until it stagnates, close it, and plan again.

    An action is tried on the result of its parent in the tree, until `stagnation` consecutive tries bring no
    gain. Then the plan is refined: new actions are added below the best so far, and open ones that the plan names
    again take their new rating. Without an editor that plans there is one action, to improve freely.
    """

    def __init__(self, means: Means, *, stagnation: int = 5, gain: float = 0.01) -> None:
        """Start without hypotheses.

        Args:
            means: What may be requested.
            stagnation: Consecutive tries without a gain that close an action.
            gain: Least relative gain that counts as faster.
        """
        super().__init__(means)
        self.actions: list[Action] = []
        self._stagnation, self._gain = stagnation, gain
        self._best: Scored | None = None
        self._trying: dict[int, Action] = {}
        self._gained: set[int] = set()
        self._stale_plan = "plan" in means.operators
        self._planning = False

    def _next(self) -> Move | None:
        if self._stale_plan and not self._planning:
            self._stale_plan, self._planning = False, True
            parents = (self._best,) if self._best else ()
            return self.move("plan", *parents, goal="\n".join(a.line() for a in self.actions))
        action = max((a for a in self.actions if a.open), key=lambda a: a.promise, default=None)
        if action is None:
            if self._planning:
                return None
            action = Action(Hypothesis("", 0.5, 3.0), self._best)
            self.actions.append(action)
        action.under_way += 1
        self._trying[self.asked] = action
        on = action.on
        goal = action.said.idea
        return self.move("draft", goal=goal) if on is None else self.move("improve", on, goal=goal)

    def _listen(self, move: Move, reply: Reply) -> None:
        if move.number in self._trying:
            return
        self._planning = False
        open_ones = {a.said.idea: a for a in self.actions if a.open}
        closed = {a.said.idea for a in self.actions if not a.open}
        for said in hypotheses_of(reply.notes):
            if said.idea in open_ones:
                open_ones[said.idea].said = said
            elif said.idea not in closed:
                self.actions.append(Action(said, self._best))

    def _learn(self, found: Scored) -> None:
        action = self._trying.get(found.move.number) if found.move is not None else None
        if found.works and (self._best is None or found.merit > self._best.merit):
            self._best = found
        if action is None or not found.works:
            return
        on = action.on
        if on is None or found.merit > on.merit * (1 + self._gain):
            assert found.move is not None, "an action is tried by a move"
            self._gained.add(found.move.number)
        if action.best is None or found.merit > action.best.merit:
            action.best = found

    def _settle(self, move: Move) -> None:
        action = self._trying.get(move.number)
        if action is None:
            return
        action.tries += 1
        action.under_way -= 1
        action.stale = 0 if move.number in self._gained else action.stale + 1
        if action.open and action.stale >= self._stagnation:
            action.open = False
            self._stale_plan = "plan" in self.means.operators
