"""Other names for variables and axes in statements and all within them."""

from collections.abc import Mapping
from dataclasses import replace

from ..tile import Expression, Let, Loop, Statement, Store, Update, Variable, renamed, substitute


def rename_variables(s: Statement, names: Mapping[str, str]) -> Statement:
    """Put other variables in the place of some, in a statement and all within it."""

    def by(e: Expression) -> Expression | None:
        return Variable(names[e.name], e.kind) if isinstance(e, Variable) and e.name in names else None

    match s:
        case Let():
            return Let(s.name, substitute(s.value, by))
        case Store():
            return replace(s, index=tuple(substitute(i, by) for i in s.index), value=substitute(s.value, by))
        case Update():
            return Update(s.name, substitute(s.value, by), substitute(s.position, by))
        case Loop():
            body = tuple(rename_variables(b, names) for b in s.body)
            return replace(s, body=body, begin=substitute(s.begin, by), end=substitute(s.end, by))
        case _:
            return s


def rename_axis(body: tuple[Statement, ...], axis: str, by: Expression) -> tuple[Statement, ...]:
    """Put an expression in the place of a loop's counter."""
    return tuple(map_expressions(s, {axis: by}) for s in body)


def map_expressions(s: Statement, axes: Mapping[str, Expression]) -> Statement:
    """Rename positions in a statement and all within it."""
    match s:
        case Let(name, value):
            return Let(name, renamed(value, axes))
        case Store():
            index = tuple(renamed(i, axes) for i in s.index)
            return replace(s, index=index, value=renamed(s.value, axes))
        case Update(name, value, position):
            return Update(name, renamed(value, axes), renamed(position, axes))
        case Loop():
            body = tuple(map_expressions(inner, axes) for inner in s.body)
            return replace(s, body=body, end=renamed(s.end, axes), begin=renamed(s.begin, axes))
        case _:
            return s
