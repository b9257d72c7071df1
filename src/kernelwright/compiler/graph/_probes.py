"""Problem, Workload → Workloads of other sizes: probes captured to find how sizes follow from the arguments."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from ...errors import TaskError
from ...records import TensorSpec, Workload
from ...tasks import Problem, with_gradients

Move = Callable[[int, int], tuple[int, ...]]
_MOST_STATE = 1 << 26
"""Most elements of parameters and buffers, which are really allocated, in a probe."""


def probes(
    problem: Problem, first: Workload, served: Sequence[Workload], free: Sequence[str], *, larger: bool = True
) -> Iterator[Workload]:
    """Yield up to three workloads: every axis near its half, beyond its double, and small.

    The double is that of the largest size served.

    Axes are named as in `Workload.axes`. One that the reference refuses to change alone changes together
    with those of the same size; one that it refuses to change at all stays. No two axes get the same size,
    so that the probes distinguish them, nor, if avoidable, one that leaves it the same multiple of another axis
    as before.

    Args:
        problem: Makes the workloads, and refuses sizes that do not go together.
        first: The search workload that the others differ from.
        served: The search workloads, including `first`.
        free: The axes that change.
        larger: Whether to make larger probes; not if the reference is really run.
    """
    own = {n: first.axes[n] for n in free}
    largest = {n: max(w.axes.get(n, 1) for w in served) for n in free}
    for move, sizes in ((_middle, own), (_large, largest), (_small, own)):
        found = _moved(problem, first, sizes, move) if larger or move is not _large else None
        if found is not None:
            yield found


def _middle(size: int, index: int) -> tuple[int, ...]:
    return (
        size // 2 + 1 + index,
        size // 2 + 3 + 2 * index,
        size // 2,
        size - 1 - index,
        size + 1 + index,
        2 * size,
    )


def _large(size: int, index: int) -> tuple[int, ...]:
    return 2 * size + 1 + index, 2 * size + 3 + 2 * index, 2 * size, 3 * size, 4 * size


def _small(size: int, index: int) -> tuple[int, ...]:
    return tuple(s for s in (3 + 2 * index, 7 + 2 * index, 4, 8, 16, 32, size // 4) if s < size)


def _moved(problem: Problem, first: Workload, sizes: Mapping[str, int], move: Move) -> Workload | None:
    """Change the axes one by one, as far as the reference accepts it."""
    base, axes, found = first.axes, dict(first.axes), None
    for index, name in enumerate(sizes):
        if axes[name] != base[name]:
            continue
        equal = [n for n in sizes if base[n] == base[name] and axes[n] == base[n]]
        for value in sorted(move(sizes[name], index), key=lambda v: _tied(base, axes, name, v)):
            if value < 2 or value in axes.values():
                continue
            made = _first(problem, first, [axes | {name: value}, axes | dict.fromkeys(equal, value)])
            if made is not None:
                axes, found = dict(made.axes), made
                break
    return found


def _tied(base: Mapping[str, int], axes: Mapping[str, int], name: str, value: int) -> bool:
    """Whether an axis would be the same multiple of another as before: a height halved, and a batch."""

    def ties(large: int, small: int, now_large: int, now_small: int) -> bool:
        times = large // max(small, 1)
        return times > 1 and large // times == small and now_large // times == now_small

    return any(
        ties(base[name], base[n], value, axes[n]) or ties(base[n], base[name], axes[n], value)
        for n in axes
        if n != name
    )


def _first(problem: Problem, first: Workload, choices: list[dict[str, int]]) -> Workload | None:
    for axes in choices:
        try:
            made = problem.at(first, axes)
            if first.cotangents:
                made = with_gradients(made, _wanted(first))
        except TaskError:
            continue
        if sum(math.prod(s.shape) for s in made.state) <= _MOST_STATE and alike(made, first):
            return made
    return None


def _wanted(workload: Workload) -> frozenset[str]:
    """Name what gets a gradient."""
    both = (*workload.arguments, *workload.state)
    return frozenset(s.name for s in both if isinstance(s, TensorSpec) and s.requires_grad)


def alike(a: Workload, b: Workload) -> bool:
    """Whether two workloads differ in sizes only: the same ranks, dtypes and scalars."""
    one, two = ((*w.arguments, *w.state) for w in (a, b))
    return len(one) == len(two) and all(
        len(x.shape) == len(y.shape) and x.dtype == y.dtype
        if isinstance(x, TensorSpec) and isinstance(y, TensorSpec)
        else x == y
        for x, y in zip(one, two, strict=True)
    )
