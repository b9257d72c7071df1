"""Factors of a product → where they lie: weights in panels, rows of the left factor in place."""

from dataclasses import dataclass

from ...graph import Size, product, same
from ...tile import (
    LANES,
    Axis,
    Contraction,
    Expression,
    Load,
    Position,
    Program,
    known_size,
    number,
    positions,
    rights,
    side_by_side,
    stride,
    substitute,
)  # fmt: skip
from ._scalar import bare, size_text

_MULTIPLIED = {"float32", "bfloat16"}
"""What rows of the left factor are multiplied as, where they lie."""


@dataclass(frozen=True)
class Panels:
    """Weights that lie as `[items][columns / run][inner][members][run]`."""

    buffer: str
    run: int
    """Columns that lie side by side, of each member."""
    members: int


def panels_of(step: Contraction, program: Program) -> Panels | None:
    """Return the panels that the right factors lie in; none where they lie otherwise.

    Args:
        step: A product whose indices are offsets (`merged`).
        program: What it is a step of.
    """
    factors = [_joined(e, step.inner) for e in rights(step)]
    first = factors[0]
    if not isinstance(first, Load) or not step.columns or len(step.batch) > 1:
        return None
    shape = program.buffer(first.buffer).shape
    run, members = shape[-1], len(factors)
    inner, columns = _size(step.inner), _size(step.columns)
    wanted = _steps(step.columns, run, inner * members * run)
    if wanted is None or not same(product(shape), members * columns * inner * _size(step.batch)):
        return None
    wanted |= {step.inner[-1].name: members * run}
    wanted |= {a.name: inner * members * columns for a in step.batch}
    for place, factor in enumerate(factors):
        if not isinstance(factor, Load) or factor.buffer != first.buffer:
            return None
        if not _is_laid(factor, wanted, place * run):
            return None
    return Panels(first.buffer, run, members)


def _steps(columns: tuple[Axis, ...], run: int, panel: int) -> dict[str, int] | None:
    """Return how far the elements of every axis of columns lie apart; none where panels cut them otherwise.

    A vector of columns holds neighbours on the last axis: that runs through a panel, or ends with a vector.
    """
    found, below, last = dict[str, int](), product([]), columns[-1].size
    if not same(last, run) and (isinstance(last, Size) or last % LANES):
        return None
    for axis in reversed(columns):
        whole = below * axis.size
        if not isinstance(run, Size) and not isinstance(below, Size) and below % run == 0:
            found[axis.name] = below // run * panel
        elif isinstance(run, Size) or isinstance(whole, Size):
            if not same(whole, run):
                return None
            found[axis.name] = below
        elif run % whole == 0:
            found[axis.name] = below
        else:
            return None
        below = whole
    return found


@dataclass(frozen=True)
class InPlace:
    """A left factor whose rows lie in memory."""

    dtype: str
    place: str
    """Where it begins, elements from an item to the next and from a row to the next, as C++."""


def in_place(step: Contraction, program: Program) -> InPlace | None:
    """Return where the left factor's rows lie in memory; none where they are computed."""
    left: Expression | None = step.left
    for axes in (step.batch, step.rows, step.inner):
        left = _joined(left, axes)
    if not isinstance(left, Load) or not step.inner:
        return None
    dtype, place = program.buffer(left.buffer).dtype, left.index[-1]
    names = [axes[-1].name if axes else "" for axes in (step.batch, step.rows)]
    item, row = (known_size(stride(place, name)) for name in names)
    at = known_size(_start(place))
    if stride(place, step.inner[-1].name) != number(1) or item is None or row is None or at is None:
        return None
    if dtype not in _MULTIPLIED or positions(place) - {*names, step.inner[-1].name}:
        return None
    begin = "" if same(at, 0) else f" + {size_text(at)}"
    return InPlace(dtype, f"{left.buffer}{begin}, {bare(size_text(item))}, {bare(size_text(row))}")


def _joined(factor: Expression | None, axes: tuple[Axis, ...]) -> Expression | None:
    """Return a factor in which the last of some axes runs through all of them."""
    return side_by_side(factor, axes) if factor is not None and len(axes) > 1 else factor


def _is_laid(factor: Load, wanted: dict[str, int], start: int) -> bool:
    """Tell whether an element lies where panels want it."""
    place = factor.index[-1]
    if positions(place) - set(wanted):
        return False
    steps = {axis: known_size(stride(place, axis)) for axis in wanted}
    at = known_size(_start(place))
    fits = all(one is not None and same(one, wanted[axis]) for axis, one in steps.items())
    return fits and at is not None and same(at, start)


def _start(place: Expression) -> Expression:
    return substitute(place, lambda e: number(0) if isinstance(e, Position) else None)


def _size(axes: tuple[Axis, ...]) -> int:
    return product([a.size for a in axes])


__all__ = ["InPlace", "Panels", "in_place", "panels_of"]
