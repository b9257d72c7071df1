"""The outputs are dense in memory: contiguous, strided as the native op's output is, or as an argument is."""

from collections.abc import Sequence

from ...records import Finding
from .._protocol import Observation, failed, passed


class Layout:
    """Refuse broadcast, sliced and otherwise lazy outputs that leave the writing to whoever reads them.

    Covers: transpositions and copies left to the reader, which would be work not done.
    Does not cover: the reader's cost of a layout that an argument of the same shape had already.
    """

    name = "layout"

    def examine(self, seen: Observation) -> Finding:
        """Fail on strides that are neither contiguous, nor the native op's, nor a dense argument's."""
        dense = [(a.shape, a.stride()) for a in seen.case.tensors if is_dense(a.shape, a.stride())]
        for i, (fact, tolerance) in enumerate(zip(seen.fetched.facts, seen.case.outputs, strict=False)):
            right = [contiguous(fact.shape), tuple(tolerance.output.stride())]
            right += [strides for shape, strides in dense if tuple(shape) == fact.shape]
            if not any(same_strides(fact.shape, fact.strides, strides) for strides in right):
                return failed(
                    self.name,
                    f"output {i} is neither contiguous, nor strided like the native op's or like an argument",
                )
        return passed(self.name)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Tell whether the elements fill one stretch of memory, in any order of the axes.

    Example:
        >>> is_dense((3, 4), (1, 3)), is_dense((3, 4), (8, 2)), is_dense((3, 4), (0, 1))
        (True, False, False)
    """
    step = 1
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride != step:
            return False
        step *= n
    return True


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


def same_strides(shape: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Tell whether two strides reach the same places; axes of one element do not count."""
    return 0 in shape or all(n == 1 or x == y for n, x, y in zip(shape, a, b, strict=False))
