"""Kernels that help alone may hurt inside: which ones to leave out, found by bisection."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Score = Callable[[tuple[T, ...]], float]
"""The speedup of the model with these parts changed; 0 where it is wrong or does not build."""
_CLEARLY = 1.01
"""A set must be so many times as fast as another to be called faster."""
_SURELY = 1.1
"""So many times as fast the native model must be for the last part to be taken out: a few rounds are off by some
percent, and what is kept is judged in full."""


def without_harm(parts: Sequence[T], score: Score[T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return the parts to keep, and those that were taken out because the model is faster, or right, without them.

    First a set that works is found by bisection: a half that is right is kept as it is, another is cut in two. Then the
    part without which the model is clearly faster is taken out, the worst first, until there is none. Each set is
    scored once.

    Example:
        >>> def score(parts): return 1.0 + sum({"norm": 0.2, "rope": 0.1, "mlp": -0.3}[p] for p in parts)
        >>> without_harm(["norm", "rope", "mlp"], score)
        (('norm', 'rope'), ('mlp',))
    """
    known: dict[tuple[int, ...], float] = {(): 1.0}

    def scored(places: tuple[int, ...]) -> float:
        if places not in known:
            known[places] = score(tuple(parts[i] for i in places))
        return known[places]

    kept = _working((), tuple(range(len(parts))), scored)
    while kept:
        without = {i: scored(tuple(k for k in kept if k != i)) for i in kept}
        worst = max(without, key=lambda i: without[i])
        if without[worst] <= (_CLEARLY if len(kept) > 1 else _SURELY) * scored(kept):
            break
        kept = tuple(i for i in kept if i != worst)
    out = tuple(i for i in range(len(parts)) if i not in kept)
    return tuple(parts[i] for i in kept), tuple(parts[i] for i in out)


def _working(
    base: tuple[int, ...], more: tuple[int, ...], scored: Callable[[tuple[int, ...]], float]
) -> tuple[int, ...]:
    """Add to a set that works as many parts as still work together."""
    if scored((*base, *more)) > 0.0:
        return (*base, *more)
    if len(more) == 1:
        return base
    middle = len(more) // 2
    return _working(_working(base, more[:middle], scored), more[middle:], scored)
