"""Axes of an iteration space, found by unification: which dimensions of which tensors share a loop."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ...languages.vectors import Unprintable

Dims = tuple[tuple[int, ...], ...]
"""For each dimension of a tensor the axes it is made of: none for size one, several where axes are merged."""


@dataclass
class Axes:
    """The axes known so far; equal ones are unified, coarse ones split into finer ones."""

    sizes: list[int] = field(default_factory=list)
    """Size of each axis on the search workload."""
    fixed: set[int] = field(default_factory=set)
    """Axes whose size is part of the computation, such as the number of groups of a group norm."""
    _parent: list[int] = field(default_factory=list)
    _parts: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def new(self, size: int, *, fixed: bool = False) -> int:
        """Make an axis."""
        self.sizes.append(size)
        self._parent.append(len(self._parent))
        axis = len(self.sizes) - 1
        if fixed:
            self.fixed.add(axis)
        return axis

    def find(self, axis: int) -> int:
        """Return the representative of this axis."""
        while self._parent[axis] != axis:
            axis = self._parent[axis]
        return axis

    def resolve(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Replace every axis by its representative, split ones by their parts."""
        out: list[int] = []
        for axis in map(self.find, axes):
            out.extend(self.resolve(self._parts[axis]) if axis in self._parts else (axis,))
        return tuple(out)

    def split(self, axis: int, parts: tuple[int, ...]) -> None:
        """Declare an axis as the product of others, the last running fastest."""
        self._parts[self.find(axis)] = parts

    def unify(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Declare two dimensions as equal.

        Raises:
            Unprintable: their axes cannot be unified.
        """
        a, b = self.resolve(left), self.resolve(right)
        if len(a) == len(b):
            for x, y in zip(a, b, strict=True):
                if self.sizes[x] != self.sizes[y]:
                    raise Unprintable(f"axes of sizes {self.sizes[x]} and {self.sizes[y]} meet")
                if x != y:
                    self._parent[y] = x
                    self.fixed |= {x} if y in self.fixed else set()
        elif len(a) == 1:
            self.split(a[0], b)
        elif len(b) == 1:
            self.split(b[0], a)
        else:
            raise Unprintable(f"dimensions made of {len(a)} and {len(b)} axes meet")

    def broadcast(self, operands: Sequence[Dims]) -> Dims:
        """Unify dimensions from the right, as broadcasting does, and return the result's."""
        rank = max(map(len, operands), default=0)
        result: list[tuple[int, ...]] = [()] * rank
        for dims in operands:
            for i, axes in enumerate(dims, rank - len(dims)):
                if not axes:
                    continue
                if not result[i] or (self.size(result[i]) == 1 and self.size(axes) != 1):
                    result[i] = axes
                elif self.size(axes) == self.size(result[i]):
                    self.unify(result[i], axes)
                elif self.size(axes) != 1:
                    raise Unprintable(f"sizes {self.size(axes)} and {self.size(result[i])} do not broadcast")
        return tuple(result)

    def reshape(self, dims: Dims, shape: Sequence[int]) -> Dims:
        """Return the dimensions of a view with another shape; dimensions may merge, or split where merged."""
        old = [axis for axes in dims for axis in self.resolve(axes) if self.sizes[axis] != 1]
        result: list[tuple[int, ...]] = []
        for size in shape:
            taken: list[int] = []
            while prod(self.sizes[a] for a in taken) < size and old:
                taken.append(old.pop(0))
            if prod(self.sizes[a] for a in taken) != size:
                raise Unprintable(f"a view to {tuple(shape)} splits an axis")
            result.append(tuple(taken))
        return tuple(result)

    def size(self, axes: Sequence[int]) -> int:
        """Size of a dimension on the search workload."""
        return prod(self.sizes[a] for a in axes)
