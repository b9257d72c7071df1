"""Other sizes of a workload: odd, prime, one, smaller and larger, as far as the reference accepts them.

Covers: axes that change together; inconsistent sizes are skipped.
Does not cover: sizes far above the declared ones (their cost).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import TaskError
from ...records import Workload
from ..inputs.regimes import REGIMES
from ._free_sizes import Groups
from ._shrink import Shrinker, workload_elements

Axes = dict[str, int]
Pinned = Mapping[str, int | float | str | bool]
"""Sizes that a task names itself, with dtypes and scalars that are not those of its first workload."""
_SMALL = 1 << 14
"""Elements of the workloads on which regimes and odd shapes are tried."""
_MOST_DERIVED = 1 << 17
"""Elements of every derived workload but one hidden and one confirm workload, which are of the declared size."""
_MOST_GROWTH = 1.1
_MOST_AXES = 4


@dataclass(frozen=True)
class Plan:
    """A form's description of its sizes."""

    make: Callable[[Axes], Workload]
    """Instantiate a workload; raises `TaskError` if the sizes are inconsistent."""
    free: Groups
    """Axes that may change; those in one tuple are equal and change together."""
    regimes: tuple[str, ...] = tuple(REGIMES)
    """Value regimes that may be applied."""
    hidden: tuple[Pinned, ...] | None = None
    """Pinned hidden sizes; None: derive them."""
    confirm: tuple[Pinned, ...] | None = None
    """Pinned confirm sizes; None: derive them."""
    pin: Callable[[Pinned], Workload] | None = None
    """Instantiate a workload of pinned sizes, where they may have dtypes and scalars of their own."""
    least: Callable[[Axes], int] = lambda _: 0
    """Elements that a workload has at least, known without instantiating it, which may run the reference."""


class Sizes:
    """Derives workloads of other sizes from the largest declared one."""

    def __init__(self, plan: Plan, base: Workload, runs: Callable[[Workload], bool]) -> None:
        """Prepare.

        Args:
            plan: The form's description of its sizes.
            base: The workload to start from.
            runs: Whether the reference accepts a workload.
        """
        self._plan, self._base, self._runs = plan, base, runs
        self._limit = int(workload_elements(base) * _MOST_GROWTH)
        self.dropped = 0
        """How many derived workloads the reference refused."""

    def smallest(self) -> Workload:
        """Reduce the base workload on its free axes as far as it goes.

        If what no axis changes is too large by itself (the weights of a network), all else becomes small.
        """
        return self._reduced(self._plan.free)

    def smallest_running(self) -> tuple[Workload, Groups]:
        """Reduce the base workload as far as the reference accepts it.

        Returns:
            The workload, the base itself if nothing smaller runs, and the groups of axes that may change.
        """
        if self._takes(found := self._reduced(self._plan.free)):
            return found, self._plan.free
        found = self._base
        kept: Groups = ()
        for group in self._plan.free:
            trial = self._reduced((*kept, group))
            if self._takes(trial):
                found, kept = trial, (*kept, group)
        return found, kept

    def _takes(self, workload: Workload) -> bool:
        taken = self._runs(workload)
        self.dropped += not taken
        return taken

    def _reduced(self, groups: Groups) -> Workload:
        free = [name for group in groups for name in group]
        fixed = {k: v for k, v in self._base.axes.items() if k not in free}

        def measure(values: Axes) -> int:
            if any(len({values[n] for n in group}) > 1 for group in groups):
                raise TaskError("axes of one group differ")
            return workload_elements(self._plan.make(fixed | values))

        values = {k: self._base.axes[k] for k in free}
        shrinker, limit = Shrinker(measure), workload_elements(self._base)
        while limit > _SMALL:
            try:
                values = shrinker.shrink(values, limit // 2)
            except TaskError:
                left = measure(shrinker.least(values))
                values = shrinker.shrink(values, left + _SMALL)
                break
            limit //= 2
        return self._plan.make(self._base.axes | values)

    def shapes(self, smallest: Workload, offset: int) -> list[Workload]:
        """Derive one shape of each kind; the offset picks different numbers for hidden and confirm.

        Only the first of those for hidden is of the declared size: a large workload costs much and takes the
        same path as a smaller one.
        """
        base, small, groups = self._base.axes, smallest.axes, self._plan.free[:_MOST_AXES]
        most = max(_MOST_DERIVED, 4 * workload_elements(smallest))
        by_size = sorted(groups, key=lambda g: -base[g[0]])
        primes = {n: _prime_below(base[g[0]], offset) for g in groups for n in g}
        odd_small = {n: _odd_near(small[g[0]], offset) for g in groups for n in g}
        prime_small = {n: _prime_below(2 * small[g[0]] + 3, offset) for g in groups for n in g}
        found = [
            self._first([primes, *_each(by_size, lambda g: _prime_below(base[g[0]], offset)),
                         *_each(by_size, lambda g: base[g[0]] - 1 - offset),
                         *_each(by_size, lambda g: base[g[0]] * (3 + offset) // (4 + offset))],
                        base, None if offset == 0 else most),
            self._first([odd_small, *_each(by_size, lambda g: _odd_near(small[g[0]], offset))], small, most),
            self._first([prime_small, *_each(by_size, lambda g: small[g[0]] * 3)], small, most),
        ]  # fmt: skip
        for group in groups:
            found.append(self._first([{n: 1 + offset for n in group}], small, most))
            large = base[group[0]] + base[group[0]] // (2 + offset) + 1
            others = {n: 3 for g in groups if g != group for n in g}
            sizes = [dict.fromkeys(group, large), dict.fromkeys(group, large - 1)]
            found.append(self._first([*sizes, *(others | s for s in sizes)], small, most))
        return [w for w in found if w is not None]

    def _first(
        self, choices: Iterable[Mapping[str, int]], base: Axes, most: int | None = None
    ) -> Workload | None:
        """Return the first choice that is new, within the size limit and accepted by the reference."""
        limit = self._limit if most is None else min(self._limit, most)
        for choice in choices:
            axes = base | dict(choice)
            if axes == base:
                continue
            try:
                if self._plan.least(axes) > limit:
                    continue
                found = self._plan.make(axes)
            except TaskError:
                continue
            if workload_elements(found) <= limit and self._takes(found):
                return found
        return None


def _each(groups: Sequence[tuple[str, ...]], value: Callable[[tuple[str, ...]], int]) -> list[dict[str, int]]:
    return [{n: max(1, value(g)) for n in g} for g in groups]


def _odd_near(value: int, offset: int) -> int:
    return max(1, value + 1 - value % 2 + 2 * offset)


def _prime_below(value: int, offset: int) -> int:
    """Return the largest prime below the value, or the one before that; at least 2.

    Example:
        >>> _prime_below(1024, 0), _prime_below(1024, 1)
        (1021, 1019)
    """
    found: list[int] = []
    candidate = value - 1
    while candidate >= 2 and len(found) <= offset:
        if all(candidate % d for d in range(2, math.isqrt(candidate) + 1)):
            found.append(candidate)
        candidate -= 1
    return found[-1] if found else 2
