"""Random search without repetition: the baseline that every other tuner must beat."""

from ._finite import FiniteTuner


class RandomSearch(FiniteTuner):
    """Draw from the space without replacement.

    Example:
        >>> from kernelwright.records import Parameter, Space
        >>> tuner = RandomSearch(Space(parameters=(Parameter(name="tile", values=(8, 16)),)), seed=0)
        >>> sorted(tuner.ask()["tile"] for _ in range(2)), tuner.ask()
        ([8, 16], None)
    """

    def _next(self) -> int:
        return self._anywhere()
