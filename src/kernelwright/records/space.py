"""Space: the parameters of a template, their values and the constraints between them."""

import ast
import itertools
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Self

from pydantic import model_validator

from ._record import Record, Scalar

Configuration = dict[str, Scalar]
"""One value for each parameter of a space."""

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add,
    ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow, ast.Div, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.IfExp,
)  # fmt: skip
_MOST_POWER = 64


class Parameter(Record):
    """One tunable parameter with its finite, ordered values."""

    name: str
    """A Python identifier."""
    values: tuple[Scalar, ...]
    """Every value it may take; the order has meaning for numbers."""


class Space(Record):
    """A finite search space: the product of the parameters' values, minus what a constraint forbids.

    Example:
        >>> tile, unroll = Parameter(name="tile", values=(8, 16)), Parameter(name="unroll", values=(1, 2))
        >>> s = Space(parameters=(tile, unroll), constraints=("tile * unroll <= 16",))
        >>> [tuple(c.values()) for c in s.configurations()]
        [(8, 1), (8, 2), (16, 1)]
    """

    parameters: tuple[Parameter, ...] = ()
    """The dimensions of the space."""
    constraints: tuple[str, ...] = ()
    """Python expressions over the parameters' names; all must hold."""

    @model_validator(mode="after")
    def _only_arithmetic(self) -> Self:
        values = {p.name: p.values for p in self.parameters}
        for text in self.constraints:
            for node in ast.walk(ast.parse(text, mode="eval")):
                if not isinstance(node, _ALLOWED):
                    raise ValueError(
                        f"constraint {text!r} holds {type(node).__name__}; expected arithmetic, "
                        "comparisons and boolean operators over parameter names"
                    )
                if isinstance(node, ast.BinOp) and not _stays_small(node, values):
                    raise ValueError(
                        f"constraint {text!r} computes with words, tuples or unbounded powers; expected numbers, "
                        f"and as an exponent a constant or parameter of at most {_MOST_POWER}"
                    )
        return self

    def allows(self, configuration: Configuration) -> bool:
        """Whether every constraint holds for the configuration."""
        return _holds(self._compiled(), configuration)

    def configurations(self) -> Iterator[Configuration]:
        """Yield every allowed configuration, the last parameter varying fastest."""
        names = [p.name for p in self.parameters]
        compiled = self._compiled()
        for values in itertools.product(*(p.values for p in self.parameters)):
            configuration = dict(zip(names, values, strict=True))
            if _holds(compiled, configuration):
                yield configuration

    def _compiled(self) -> list[CodeType]:
        return [compile(text, "<constraint>", "eval") for text in self.constraints]


def _holds(compiled: list[CodeType], configuration: Configuration) -> bool:
    return all(eval(code, {"__builtins__": {}}, configuration) for code in compiled)


def _stays_small(node: ast.BinOp, values: Mapping[str, tuple[Scalar, ...]]) -> bool:
    """Whether an operation is cheap in time and memory; constraints may be written by a model."""
    if not (_is_number(node.left, values) and _is_number(node.right, values)):
        return False
    if not isinstance(node.op, ast.Pow):
        return True
    match node.right:
        case ast.Constant(value=int() | float() as value):
            powers: tuple[Scalar, ...] = (value,)
        case ast.Name(id=name):
            powers = values.get(name, ())
        case _:
            return False
    nested = any(isinstance(below, ast.Pow) for below in ast.walk(node.left))
    return not nested and all(isinstance(p, int | float) and abs(p) <= _MOST_POWER for p in powers)


def _is_number(node: ast.expr, values: Mapping[str, tuple[Scalar, ...]]) -> bool:
    """Whether an operand is a number in every configuration; a name that is not is reported when it is used."""
    match node:
        case ast.Constant():
            return isinstance(node.value, int | float)
        case ast.Name():
            return all(isinstance(value, int | float) for value in values.get(node.id, ()))
        case ast.IfExp():
            return _is_number(node.body, values) and _is_number(node.orelse, values)
        case ast.BoolOp():
            return all(_is_number(one, values) for one in node.values)
        case ast.Tuple():
            return False
    return True
