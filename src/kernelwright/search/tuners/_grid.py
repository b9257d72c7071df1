"""The allowed configurations of a space as rows of numbers: what tuners search over."""

import math
import random
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...records import Configuration, Scalar, Space

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOST_ENUMERATED = 200_000
"""A space with more combinations than this is sampled instead of enumerated."""
MOST_SAMPLED = 20_000


class Grid:
    """Every allowed configuration of a space, numbered; a sample of them if the space is huge.

    `levels` is (rows, parameters) int64: the index of each value in its parameter's values.

    Example:
        >>> from kernelwright.records import Parameter
        >>> tile, unroll = Parameter(name="tile", values=(8, 16)), Parameter(name="unroll", values=(1, 2))
        >>> grid = Grid(Space(parameters=(tile, unroll), constraints=("tile * unroll <= 16",)))
        >>> grid.levels.tolist(), grid.row_of({"tile": 16, "unroll": 1}), list(grid.neighbours(0))
        ([[0, 0], [0, 1], [1, 0]], 2, [2, 1])
    """

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._names = [p.name for p in space.parameters]
        self._values = [p.values for p in space.parameters]
        self._level_of = [{_exact(v): i for i, v in enumerate(values)} for values in self._values]
        points = [self._levels(c) for c in _configurations(space, seed)]
        self.levels: Ints = np.array(points, dtype=np.int64).reshape(len(points), len(self._names))
        self._row_of = {point: row for row, point in enumerate(points)}

    def __len__(self) -> int:
        return len(self.levels)

    def configuration(self, row: int) -> Configuration:
        """Return the configuration of a row."""
        return {n: v[i] for n, v, i in zip(self._names, self._values, self.levels[row], strict=True)}

    def row_of(self, configuration: Configuration) -> int | None:
        """Return the row of a configuration, or None if it is not in the grid."""
        try:
            return self._row_of.get(self._levels(configuration))
        except KeyError:
            return None

    def row_at(self, levels: Ints) -> int | None:
        """Return the row of value indices, or None if they are not allowed."""
        return self._row_of.get(tuple(levels.tolist()))

    def neighbours(self, row: int) -> Iterator[int]:
        """Yield the rows that differ in one parameter, parameter by parameter."""
        here = tuple(self.levels[row].tolist())
        for axis, values in enumerate(self._values):
            for level in range(len(values)):
                there = self._row_of.get((*here[:axis], level, *here[axis + 1 :]))
                if there is not None and there != row:
                    yield there

    @cached_property
    def coordinates(self) -> Floats:
        """Coordinates of the rows: (rows, axes), each axis scaled to 0..1; parameters with one value have none.

        A number's axis is its logarithm, because ratios and products of sizes matter. Integers that are not all
        powers of two have a second axis, how often two divides them, which matters for alignment, vector width
        and warps. Other values are one-hot encoded.
        """
        axes = [
            axis[self.levels[:, i]] for i, v in enumerate(self._values) if len(v) > 1 for axis in _axes(v)
        ]
        return np.array(axes, dtype=np.float64).reshape(len(axes), len(self)).T

    @cached_property
    def sizes(self) -> Ints:
        """How many values each parameter has."""
        return np.array([len(v) for v in self._values], dtype=np.int64)

    def _levels(self, configuration: Configuration) -> tuple[int, ...]:
        return tuple(
            level[_exact(configuration[name])]
            for name, level in zip(self._names, self._level_of, strict=True)
        )


def _exact(value: Scalar) -> tuple[bool, Scalar]:
    """Keep `True` and `1` apart."""
    return isinstance(value, bool), value


def _configurations(space: Space, seed: int) -> Iterator[Configuration]:
    listed = getattr(space, "listed", None)
    if listed is not None or math.prod(len(p.values) for p in space.parameters) <= MOST_ENUMERATED:
        return space.configurations()
    return _sample(space, random.Random(seed))


def _sample(space: Space, generator: random.Random) -> Iterator[Configuration]:
    """Draw distinct allowed configurations; stop early if the constraints allow almost none."""
    seen: set[tuple[Scalar, ...]] = set()
    for _ in range(50 * MOST_SAMPLED):
        configuration = {p.name: generator.choice(p.values) for p in space.parameters}
        point = tuple(configuration.values())
        if point not in seen and space.allows(configuration):
            seen.add(point)
            yield configuration
        if len(seen) == MOST_SAMPLED:
            return


def _axes(values: tuple[Scalar, ...]) -> list[Floats]:
    """Return the axes of one parameter: the coordinate of each value, by its index."""
    numbers = [v for v in values if isinstance(v, int | float)]
    if len(numbers) < len(values):
        return [np.array([float(v == one) for v in values]) for one in values]
    least = min(numbers)
    axes = [np.log2(np.array(numbers, dtype=np.float64) + (1 if least == 0 else 0))] if least >= 0 else []
    axes = axes or [np.array(numbers, dtype=np.float64)]
    twos = [_twos(v) for v in numbers if isinstance(v, int) and v > 0]
    if len(twos) == len(numbers) > 2 and any(v != 2**k for v, k in zip(numbers, twos, strict=True)):
        axes.append(np.array(twos, dtype=np.float64))
    return [(a - a.min()) / (a.max() - a.min()) for a in axes if a.max() > a.min()]


def _twos(value: int) -> int:
    """Count how often two divides a positive number."""
    return (value & -value).bit_length() - 1


__all__ = ["Bools", "Floats", "Grid", "Ints"]
