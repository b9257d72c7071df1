"""Unify the graphs of several workloads into one with symbolic sizes."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ._real import fit_real
from ._size import Size, fit

_MOST_SYMBOLS = 64
_COMPUTED = ("args", "kwargs", "values")
"""Fields in which a number may follow from a size; elsewhere it is printed unchanged."""


class NotAlike(Exception):
    """The workloads do not run the same operations, or a number follows no simple rule."""


def join(
    versions: Sequence[Any],
    symbols: dict[str, tuple[int, ...]],
    made: dict[tuple[int, ...], Any],
    guards: dict[str, None],
    *,
    computed: bool = False,
) -> Any:
    """Return one value that stands for all versions: integers that differ become `Size`, numbers `Real`.

    Args:
        versions: The same thing on each workload: nodes, tuples, numbers, names.
        symbols: Name of a size → its value on each workload. Takes the first sizes that follow from them,
            for sizes that follow from those: `(height - 2) * (width - 2)`.
        made: What was unified so far, by the identity of the versions.
        guards: Takes the conditions under which the rules hold.
        computed: Whether numbers may follow from sizes here.

    Raises:
        NotAlike: the versions differ in more than sizes.
    """
    first = versions[0]
    if isinstance(first, bool | float | str | None):
        if all(repr(v) == repr(first) for v in versions[1:]):
            return first
        real = fit_real(versions, symbols) if computed and all(type(v) is float for v in versions) else None
        if real is None:
            raise NotAlike(f"{first!r} differs between workloads")
        return real
    if isinstance(first, int):
        if any(type(v) is not int for v in versions):
            raise NotAlike("an integer here, something else there")
        found = fit([int(v) for v in versions], symbols)
        if found is None:
            raise NotAlike(f"{tuple(versions)} follow no rule")
        if isinstance(found, Size):
            if found.guard:
                guards.setdefault(found.guard)
            if len(symbols) < _MOST_SYMBOLS:
                symbols.setdefault(found.text, found.values)
        return found
    if any(type(v) is not type(first) for v in versions):
        raise NotAlike("another kind of operation")
    if isinstance(first, tuple):
        if any(len(v) != len(first) for v in versions):
            raise NotAlike("another number of operands")
        return tuple(
            join(parts, symbols, made, guards, computed=computed) for parts in zip(*versions, strict=True)
        )
    if not is_dataclass(first):
        raise NotAlike(f"{first!r} cannot be compared")
    key = tuple(map(id, versions))
    if key not in made:
        names = [f.name for f in fields(first) if f.init]
        made[key] = replace(
            first,  # type: ignore[type-var]  # only dataclasses get here
            **{
                n: join([getattr(v, n) for v in versions], symbols, made, guards, computed=n in _COMPUTED)
                for n in names
            },
        )
    return made[key]
