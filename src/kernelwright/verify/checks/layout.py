"""The outputs are dense in memory: contiguous, or strided as the native op's output is."""

from ...records import Finding
from .._protocol import Observation, failed, passed


class Layout:
    """Refuse broadcast, sliced and otherwise lazy outputs that leave the writing to whoever reads them."""

    name = "layout"

    def examine(self, seen: Observation) -> Finding:
        """Fail on strides that are neither contiguous nor the native op's."""
        for i, (fact, ruler) in enumerate(zip(seen.fetched.facts, seen.case.outputs, strict=False)):
            native = tuple(ruler.output.stride())
            if not same_strides(fact.shape, fact.strides, contiguous(fact.shape)) and not same_strides(
                fact.shape, fact.strides, native
            ):
                return failed(self.name, f"output {i} is neither contiguous nor strided like the native op's")
        return passed(self.name)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor.

    Example:
        >>> contiguous((2, 3, 4))
        (12, 4, 1)
    """
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def same_strides(shape: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Tell whether two strides reach the same places; axes of one element do not count."""
    return 0 in shape or all(n == 1 or x == y for n, x, y in zip(shape, a, b, strict=False))
