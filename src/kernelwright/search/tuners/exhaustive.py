"""Every configuration, in the space's order: for small spaces and as ground truth for other tuners."""

from ._finite import FiniteTuner


class Exhaustive(FiniteTuner):
    """Enumerate the whole space once; the seed has no effect.

    Example:
        >>> from kernelwright.records import Parameter, Space
        >>> tuner = Exhaustive(Space(parameters=(Parameter(name="tile", values=(8, 16)),)), seed=0)
        >>> tuner.ask(), tuner.ask(), tuner.ask()
        ({'tile': 8}, {'tile': 16}, None)
    """

    def _next(self) -> int:
        return int(self.open.argmax())
