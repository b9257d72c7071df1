"""Iterative refinement: each round changes the latest candidate, better or not.

Source: CudaForge, arXiv 2511.01884, and its `main.py`: the loop over `current_kernel`.
"""

from ...propose import Move
from ..archives import Scored
from ._numbered import NumberedStrategy
from ._protocol import Means


class Rounds(NumberedStrategy):
    """Improve the latest candidate while it works, repair it while it does not.

    Nothing is reverted: the next round continues even from a slower candidate, because it uses the evidence of what
    made it slow. If one move produced several candidates, the best of them is the latest.
    """

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._latest: Scored | None = None

    def _next(self) -> Move | None:
        if self.in_flight:
            return None
        if self._latest is None:
            return self.move("draft")
        return self.move("improve" if self._latest.works else "repair", self._latest)

    def _learn(self, found: Scored) -> None:
        round_of = -1 if found.move is None else found.move.number
        latest = self._latest
        since = -1 if latest is None or latest.move is None else latest.move.number
        if round_of == self.asked - 1 and (latest is None or round_of > since or found.merit > latest.merit):
            self._latest = found
