"""Ask afresh, many times, and take the best: what any cleverer search must beat at equal cost.

Source: KernelBench, "Can LLMs write efficient GPU kernels?", repeated sampling.
"""

from ...propose import Move
from ..archives import Scored
from ._numbered import NumberedStrategy
from ._protocol import Means


class BestOf(NumberedStrategy):
    """Draft `n` candidates from the task alone, whatever came of the others; the models take turns."""

    def __init__(self, means: Means, *, n: int = 32) -> None:
        """Begin.

        Args:
            means: What may be asked for.
            n: How many drafts to ask for.
        """
        super().__init__(means)
        self._n = n

    def _next(self) -> Move | None:
        models = self.means.models or ("",)
        return self.move("draft", model=models[self.asked % len(models)]) if self.asked < self._n else None

    def _learn(self, found: Scored) -> None:
        del found
