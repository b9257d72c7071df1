"""Shrink integers until a measure fits, trying the largest first and coupled ones together."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ...errors import TaskError
from ...records import Workload
from ..inputs._draw import elements_of

Values = dict[str, int]
_LARGE, _SMALL = 16, 8
"""Values below the first are kept unless they must change together with a larger one. If nothing else is
left, those that no model is constructed with change too, and finally all from the second up."""


@dataclass
class Shrinker:
    """Halve constants, one valid step at a time.

    A step is taken if `measure` accepts it, it makes the measure smaller and it keeps the ratios: where
    one constant in `tied` divides another (groups and channels, heads and width) it still does, with at
    least two of the one in the other.
    """

    measure: Callable[[Values], int]
    """Elements at these values; raises `TaskError` if they are inconsistent."""
    tied: frozenset[str] = frozenset()
    """Constants whose ratios have meaning."""
    joint: bool = False
    """Change equal values only together; for couplings that the measure cannot detect."""
    _seen: dict[tuple[tuple[str, int], ...], int | None] = field(default_factory=dict)

    def shrink(self, values: Mapping[str, int], limit: int) -> Values:
        """Return values whose measure is at most the limit.

        Raises:
            TaskError: no valid step is left and the measure is still above the limit.
        """
        now, size = self._descend(values, limit)
        if size > limit:
            raise TaskError(
                f"cannot shrink below {size:,} elements (asked for at most {limit:,}); constants left: "
                + ", ".join(f"{k} = {v}" for k, v in now.items())
            )
        return now

    def least(self, values: Mapping[str, int]) -> Values:
        """Return the values when no valid step is left."""
        return self._descend(values, 0)[0]

    def _descend(self, values: Mapping[str, int], limit: int) -> tuple[Values, int]:
        now = dict(values)
        size = self.measure(now)
        ratios = _ratios(now, self.tied)
        while size > limit and (step := self._step(now, size, ratios)) is not None:
            now, size = step
        return now, size

    def _step(self, now: Values, size: int, ratios: list[tuple[str, str]]) -> tuple[Values, int] | None:
        for changed in self._moves(now):
            trial = now | changed
            if all(trial[a] % trial[b] == 0 and trial[a] // trial[b] >= 2 for a, b in ratios):
                found = self._measured(trial)
                if found is not None and found < size:
                    return trial, found
        return None

    def _moves(self, now: Values) -> Iterable[Values]:
        yield from _moves(now, _LARGE, self.joint)
        for name in sorted((k for k in now if now[k] >= 4 and k not in self.tied), key=lambda k: -now[k]):
            yield {name: now[name] // 2}
        yield from _moves(now, _SMALL, self.joint)

    def _measured(self, values: Values) -> int | None:
        key = tuple(sorted(values.items()))
        if key not in self._seen:
            try:
                self._seen[key] = self.measure(values)
            except TaskError:
                self._seen[key] = None
        return self._seen[key]


def fit_axes(
    make: Callable[[Values], Workload], axes: Mapping[str, int], limit: int | None
) -> tuple[Workload, tuple[str, ...]]:
    """Instantiate a workload, with its axes shrunk if it has more elements than the limit.

    Returns:
        The workload, and a note for every axis that was shrunk.
    """
    found = make(dict(axes))
    if limit is None or workload_elements(found) <= limit:
        return found, ()
    values = Shrinker(lambda v: workload_elements(make(v))).shrink(axes, limit)
    notes = tuple(f"shrunk {k}: {axes[k]:,} → {v:,}" for k, v in values.items() if v != axes[k])
    return make(values), notes


def workload_elements(workload: Workload) -> int:
    """Count the elements of arguments, state and outputs."""
    return elements_of((*workload.arguments, *workload.state, *workload.outputs))


def _moves(now: Values, floor: int, joint: bool) -> Iterable[Values]:
    """Halve one constant from the floor up, those equal to it, a pair with one that large, or a side of a square."""
    for name in sorted((k for k in now if now[k] >= floor), key=lambda k: -now[k]):
        equal = [k for k in now if now[k] == now[name]]
        if not joint or len(equal) == 1:
            yield {name: now[name] // 2}
        if len(equal) > 1:
            yield {k: now[k] // 2 for k in equal}
    pairs = [(a, b) for a, b in itertools.combinations(now, 2) if max(now[a], now[b]) >= floor]
    for a, b in sorted(pairs, key=lambda p: -now[p[0]] * now[p[1]]):
        if min(now[a], now[b]) >= 4:
            yield {a: now[a] // 2, b: now[b] // 2}
    for a, b in itertools.permutations((k for k in now if now[k] >= 4), 2):
        if now[a] == now[b] ** 2:
            yield {a: now[a] // 4, b: now[b] // 2}


def _ratios(values: Values, tied: frozenset[str]) -> list[tuple[str, str]]:
    """Pairs (a, b) where b divides a, at least twice: what a step has to keep."""
    names = [k for k in values if k in tied]
    return [
        (a, b) for a, b in itertools.permutations(names, 2)
        if values[b] >= 2 and values[a] >= 2 * values[b] and values[a] % values[b] == 0
    ]  # fmt: skip
