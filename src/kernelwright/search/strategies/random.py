"""Random search over edits: the baseline that every strategy must beat."""

from ...propose import Move
from ..archives import Scored
from ._numbered import NumberedStrategy
from ._protocol import Means


class RandomEdits(NumberedStrategy):
    """Draw the parent uniformly from all working candidates; draft if there is none."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._works: list[Scored] = []

    def _next(self) -> Move | None:
        return self.move("improve", self.dice.choice(self._works)) if self._works else self.move("draft")

    def _learn(self, found: Scored) -> None:
        if found.works:
            self._works.append(found)
