"""Best of n: independent drafts; the baseline that other searches must beat at equal cost.

Source: KernelBench, "Can LLMs write efficient GPU kernels?", repeated sampling.
"""

from ...propose import Move
from ..archives import Scored
from ._numbered import NumberedStrategy
from ._protocol import Means


class BestOf(NumberedStrategy):
    """Draft `n` candidates from the task alone, independently of each other; models are used in rotation."""

    def __init__(self, means: Means, *, n: int = 32) -> None:
        """Start.

        Args:
            means: What may be requested.
            n: How many drafts to request.
        """
        super().__init__(means)
        self._n = n

    def _next(self) -> Move | None:
        models = self.means.models or ("",)
        return self.move("draft", model=models[self.asked % len(models)]) if self.asked < self._n else None

    def _learn(self, found: Scored) -> None:
        del found
