"""Rename variables and axes in statements and everything inside them."""

from collections.abc import Mapping

from ..tile import Expression, Statement, Variable, mapped, renamed, substitute


def rename_variables(s: Statement, names: Mapping[str, str]) -> Statement:
    """Substitute variables in a statement and everything inside it."""

    def by(e: Expression) -> Expression | None:
        return Variable(names[e.name], e.kind) if isinstance(e, Variable) and e.name in names else None

    return mapped(s, lambda e: substitute(e, by))


def rename_axis(body: tuple[Statement, ...], axis: str, by: Expression) -> tuple[Statement, ...]:
    """Substitute an expression for a loop's counter."""
    return tuple(mapped(s, lambda e: renamed(e, {axis: by})) for s in body)
