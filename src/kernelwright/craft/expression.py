"""What a task computes, as statements over arrays: compilers print it, and `evaluate` says what it gives.

Arrays have rows and columns; a vector is one row. Sizes are names (`n`), numbers, or sums of both (`n+4`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Size = str | int
"""A number of rows or columns: `n`, `n+4` or 3."""
Mode = Literal["full", "row", "col", "elem", "shift"]
"""How an array is read at row r and column c: at (r, c), (0, c), (0, r), (0, j), or (r, c + j)."""
BINARY = {"add", "sub", "mul", "div", "max", "min", "gt"}
"""Operations of two operands; `gt` gives 1 where the first is larger, else 0."""
UNARY = {"exp", "sqrt"}
"""Operations of one operand."""


@dataclass(frozen=True)
class Expr:
    """A value at every row and column; adds up with operators."""

    op: str
    """An operation, or `ref`, `const`, `size`, `row`, `col`."""
    args: tuple["Expr", ...] = ()
    """Its operands."""
    name: str = ""
    """Of `ref` the array, of `size` the size."""
    mode: Mode = "full"
    """Of `ref` how it is read."""
    number: float = 0.0
    """Of `const` its value, of `ref` the place `j`."""

    def __add__(self, other: "Expr | float") -> "Expr":
        return _binary("add", self, other)

    def __sub__(self, other: "Expr | float") -> "Expr":
        return _binary("sub", self, other)

    def __mul__(self, other: "Expr | float") -> "Expr":
        return _binary("mul", self, other)

    def __truediv__(self, other: "Expr | float") -> "Expr":
        return _binary("div", self, other)

    def __neg__(self) -> "Expr":
        return const(0.0) - self

    def refs(self) -> tuple["Expr", ...]:
        """Return every reading of an array in it, each once."""
        own = (self,) if self.op == "ref" else ()
        return tuple(dict.fromkeys([*own, *(r for a in self.args for r in a.refs())]))


def _binary(op: str, a: Expr, b: "Expr | float") -> Expr:
    return Expr(op, (a, b if isinstance(b, Expr) else const(b)))


def const(value: float) -> Expr:
    """Return a constant."""
    return Expr("const", number=float(value))


def ref(name: str, mode: Mode = "full", place: int = 0) -> Expr:
    """Return an array as it is read."""
    return Expr("ref", name=name, mode=mode, number=place)


def size(name: str) -> Expr:
    """Return a size as a number."""
    return Expr("size", name=name)


ROW, COL = Expr("row"), Expr("col")
"""The number of the row, and of the column."""


def exp(a: Expr) -> Expr:
    """Return e to the power a."""
    return Expr("exp", (a,))


def sqrt(a: Expr) -> Expr:
    """Return the square root."""
    return Expr("sqrt", (a,))


def maximum(a: Expr, b: "Expr | float") -> Expr:
    """Return the larger."""
    return _binary("max", a, b)


def minimum(a: Expr, b: "Expr | float") -> Expr:
    """Return the smaller."""
    return _binary("min", a, b)


def greater(a: Expr, b: "Expr | float") -> Expr:
    """Return 1 where a is larger, else 0."""
    return _binary("gt", a, b)


@dataclass(frozen=True)
class Array:
    """An array of a task."""

    name: str
    """Its name."""
    rows: Size
    """Its rows."""
    cols: Size
    """Its columns."""
    role: Literal["in", "out", "temp"] = "in"
    """Whether it is given, wanted, or only in between."""


@dataclass(frozen=True)
class Map:
    """`out[r, c] = expr`."""

    out: str
    """The array that is written."""
    expr: Expr
    """Its values."""


@dataclass(frozen=True)
class Reduce:
    """`out[0, r]` = the sum or maximum of `expr` over the columns of row r of array `over`."""

    out: str
    """A vector."""
    op: Literal["add", "max"]
    """How values are combined."""
    expr: Expr
    """The values."""
    over: str
    """The array that gives rows and columns."""


@dataclass(frozen=True)
class MatMul:
    """`out = a @ b`, or `a @ b.T`."""

    out: str
    """The product."""
    a: str
    """The first factor."""
    b: str
    """The second factor."""
    transposed: bool = False
    """Whether `b` is given transposed."""


@dataclass(frozen=True)
class Transpose:
    """`out = a.T`."""

    out: str
    """The array that is written."""
    a: str
    """The array that is read."""


@dataclass(frozen=True)
class Gather:
    """`out[r] = table[index[r]]`."""

    out: str
    """The array that is written."""
    table: str
    """Rows to choose from."""
    index: str
    """A vector of row numbers."""


Statement = Map | Reduce | MatMul | Transpose | Gather
Values = dict[str, NDArray[Any]]


def measure(wanted: Size, sizes: Mapping[str, int]) -> int:
    """Return a size as a number.

    Example:
        >>> measure("n+4", {"n": 10}), measure(3, {})
        (14, 3)
    """
    if isinstance(wanted, int):
        return wanted
    name, _, more = wanted.partition("+")
    return sizes[name] + int(more or 0)


def evaluate(
    statements: Sequence[Statement],
    arrays: Mapping[str, Array],
    given: Mapping[str, NDArray[Any]],
    sizes: Mapping[str, int],
    dtype: Any = np.float64,
) -> Values:
    """Execute the statements with numpy.

    Args:
        statements: What to do, in order.
        arrays: Every array by name.
        given: The inputs.
        sizes: Every size.
        dtype: In which all is computed.

    Returns:
        Every array by name.
    """
    values: Values = {name: np.asarray(v, dtype) for name, v in given.items()}
    for s in statements:
        out = arrays[s.out]
        rows, cols = measure(out.rows, sizes), measure(out.cols, sizes)
        match s:
            case Map():
                values[s.out] = np.broadcast_to(
                    _value(s.expr, values, rows, cols, sizes, dtype), (rows, cols)
                )
            case Reduce():
                over = arrays[s.over]
                r, c = measure(over.rows, sizes), measure(over.cols, sizes)
                whole = np.broadcast_to(_value(s.expr, values, r, c, sizes, dtype), (r, c))
                values[s.out] = (whole.sum(1) if s.op == "add" else whole.max(1))[None, :]
            case MatMul():
                values[s.out] = values[s.a] @ (values[s.b].T if s.transposed else values[s.b])
            case Transpose():
                values[s.out] = values[s.a].T
            case Gather():
                values[s.out] = values[s.table][values[s.index][0].astype(np.int64)]
    return values


def _value(e: Expr, values: Values, rows: int, cols: int, sizes: Mapping[str, int], dtype: Any) -> Any:
    def of(arg: Expr) -> Any:
        return _value(arg, values, rows, cols, sizes, dtype)

    match e.op:
        case "const":
            return dtype(e.number)
        case "size":
            return dtype(measure(e.name, sizes))
        case "row":
            return np.arange(rows, dtype=dtype)[:, None]
        case "col":
            return np.arange(cols, dtype=dtype)[None, :]
        case "ref":
            return _read(e, values[e.name], cols)
        case "exp":
            return np.exp(of(e.args[0]))
        case "sqrt":
            return np.sqrt(of(e.args[0]))
        case "gt":
            return (of(e.args[0]) > of(e.args[1])).astype(dtype)
    named = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    more = {"max": np.maximum, "min": np.minimum}
    return {**named, **more}[e.op](of(e.args[0]), of(e.args[1]))


def _read(e: Expr, value: NDArray[Any], cols: int) -> Any:
    place = int(e.number)
    match e.mode:
        case "row":
            return value[:1]
        case "col":
            return value[0][:, None]
        case "elem":
            return value[0, place]
        case "shift":
            return value[:, place : place + cols]
    return value
