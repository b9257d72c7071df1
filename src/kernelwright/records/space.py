"""Space: the parameters of a template, their values and the constraints between them."""

import ast
import itertools
from collections.abc import Iterator
from types import CodeType

from pydantic import field_validator

from ._record import Record, Scalar

Configuration = dict[str, Scalar]
"""One value for each parameter of a space."""

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add,
    ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow, ast.Div, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.IfExp,
)  # fmt: skip


class Parameter(Record):
    """One tunable parameter with its finite, ordered values."""

    name: str
    """A Python identifier."""
    values: tuple[Scalar, ...]
    """Every value it may take, in an order that has meaning where numbers have one."""


class Space(Record):
    """A finite search space: the product of the parameters' values, less what a constraint forbids.

    Example:
        >>> tile, unroll = Parameter(name="tile", values=(8, 16)), Parameter(name="unroll", values=(1, 2))
        >>> s = Space(parameters=(tile, unroll), constraints=("tile * unroll <= 16",))
        >>> [tuple(c.values()) for c in s.configurations()]
        [(8, 1), (8, 2), (16, 1)]
    """

    parameters: tuple[Parameter, ...] = ()
    """The axes of the space."""
    constraints: tuple[str, ...] = ()
    """Python expressions over the parameters' names; all must hold."""

    @field_validator("constraints")
    @classmethod
    def _only_arithmetic(cls, constraints: tuple[str, ...]) -> tuple[str, ...]:
        for text in constraints:
            for node in ast.walk(ast.parse(text, mode="eval")):
                if not isinstance(node, _ALLOWED):
                    raise ValueError(
                        f"constraint {text!r} holds {type(node).__name__}; expected arithmetic, "
                        "comparisons and boolean operators over parameter names"
                    )
        return constraints

    def allows(self, configuration: Configuration) -> bool:
        """Tell whether every constraint holds for the configuration."""
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
