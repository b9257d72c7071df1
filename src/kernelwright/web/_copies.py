"""Permutes, slices and concatenations as steps that copy between strided views."""

import math
from collections.abc import Sequence

from ..errors import InputError
from ._program import Plain, Program, Step

_MOST_AXES = 6


def strides_of(shape: Sequence[int]) -> list[int]:
    """Return how many elements each axis of a contiguous tensor steps over."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


class Copies:
    """Writes copies into a program; each returns the tensor that it fills."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def permuted(self, tensor: int, shape: Sequence[int], order: Sequence[int]) -> int:
        """Bring axes into another order."""
        strides, new = strides_of(shape), [shape[a] for a in order]
        made = self.program.new("between", new)
        self._copy(tensor, made, new, [strides[a] for a in order], strides_of(new))
        return made

    def expanded(self, tensor: int, shape: Sequence[int], full: Sequence[int]) -> int:
        """Repeat along axes of size one; what has that shape already stays where it is."""
        if tuple(shape) == tuple(full):
            return tensor
        steps = [
            0 if a == 1 and b != 1 else s for a, b, s in zip(shape, full, strides_of(shape), strict=True)
        ]
        made = self.program.new("between", full)
        self._copy(tensor, made, full, steps, strides_of(full))
        return made

    def piece(
        self, tensor: int, shape: Sequence[int], axis: int, begin: int, size: int, step: int = 1
    ) -> int:
        """Take `size` places of an axis from `begin` on."""
        strides, new = strides_of(shape), [*shape[:axis], size, *shape[axis + 1 :]]
        made = self.program.new("between", new)
        moves = [s * (step if a == axis else 1) for a, s in enumerate(strides)]
        self._copy(tensor, made, new, moves, strides_of(new), at=begin * strides[axis])
        return made

    def joined(self, parts: Sequence[tuple[int, Sequence[int]]], axis: int, shape: Sequence[int]) -> int:
        """Put tensors, given with their shapes, behind each other along an axis."""
        made, strides, begin = self.program.new("between", shape), strides_of(shape), 0
        for tensor, own in parts:
            self._copy(tensor, made, own, strides_of(own), strides, into=begin * strides[axis])
            begin += own[axis]
        return made

    def _copy(
        self, source: int, target: int, shape: Sequence[int], moves: Sequence[int], strides: Sequence[int],
        at: int = 0, into: int = 0,
    ) -> None:  # fmt: skip
        if len(shape) > _MOST_AXES:
            raise InputError(
                f"a copy over {len(shape)} axes has no kernel for the web; up to {_MOST_AXES} have"
            )
        sizes: dict[str, Plain] = {
            "shape": list(shape), "from": list(moves), "to": list(strides), "at": at, "into": into,
        }  # fmt: skip
        self.program.steps.append(Step("copy", sizes, (source,), (target,)))
