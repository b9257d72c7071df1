"""Arithmetic over axes (`2 * dim`, `rows // 4`), and the argument declarations of `@kw.task`."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import TaskError
from ...records import Distribution, TensorSpec
from ..inputs._draw import dtype_of

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_DECLARATION = re.compile(r"^\s*(\w+)\s*\[([^\]]*)\]\s*(.*)$")
_WORD = re.compile(r"([\w-]+)\s*(?:\(([^)]*)\))?")
_LAYOUTS = ("contiguous", "transposed", "strided")
_PARAMETERS = {
    "normal": ("scale",), "uniform": ("low", "high"), "integers": ("low", "high"), "bernoulli": ("scale",),
    "constant": ("low",), "sorted": ("low", "high"), "offsets": ("high",), "permutation": (), "probabilities": (),
    "triangular": ("scale",),
}  # fmt: skip

Names = Mapping[str, int | str]


def evaluate(text: str, names: Names) -> int | float:
    """Evaluate arithmetic over named integers; raises `TaskError` for anything else.

    Example:
        >>> evaluate("2 * dim + 1", {"dim": 8})
        17
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        known = ", ".join(k for k, v in names.items() if isinstance(v, int)) or "none"
        why = f"{error} is no axis" if isinstance(error, KeyError) else error
        raise TaskError(
            f"{text!r} cannot be evaluated ({why}); expected arithmetic over axes: {known}"
        ) from None


def names_in(text: str) -> frozenset[str]:
    """Return the names that an expression uses; none if it is not Python.

    Example:
        >>> sorted(names_in("2 * dim == heads"))
        ['dim', 'heads']
    """
    try:
        return frozenset(
            n.id for n in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(n, ast.Name)
        )
    except SyntaxError:
        return frozenset()


def holds(text: str, names: Names) -> bool:
    """Whether a comparison of arithmetic over named integers is true; raises `TaskError` for anything else.

    Example:
        >>> holds("heads % 2 == 0", {"heads": 6}), holds("1 < heads <= 4", {"heads": 6})
        (True, False)
    """
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        found = None
    if not isinstance(found, ast.Compare) or not all(type(op) in _COMPARISONS for op in found.ops):
        raise TaskError(f"{text!r} is no comparison; expected one such as 'heads % 2 == 0'")
    values = [evaluate(ast.unparse(side), names) for side in (found.left, *found.comparators)]
    return all(_COMPARISONS[type(op)](a, b) for op, a, b in zip(found.ops, values, values[1:], strict=False))


def size(text: str, names: Names) -> int:
    """Evaluate a size: a positive whole number, or zero where an axis that it names is."""
    value = evaluate(text, names)
    least = 0 if any(names.get(name) == 0 for name in names_in(text)) else 1
    if value != int(value) or value < least:
        raise TaskError(f"size {text!r} is {value}; expected a whole number of at least 1")
    return int(value)


def declared(name: str, text: str, names: Names) -> TensorSpec:
    """Read a declaration such as `float32[rows, 2 * dim] transposed uniform(-1, 1)`.

    The grammar is `dtype[sizes] words`; a word is a layout or a distribution, `index(n)` is short for
    `integers(0, n)`, and a dtype or layout may be an axis of the workload that holds text.

    Example:
        >>> spec = declared("target", "int64[rows] index(vocab)", {"rows": 4, "vocab": 10})
        >>> spec.shape, spec.distribution.kind, spec.distribution.high
        ((4,), 'integers', 10.0)
    """
    matched = _DECLARATION.match(text)
    if matched is None:
        raise TaskError(f"argument {name!r} is declared as {text!r}; expected 'dtype[size, ...] words', "
                        "such as 'float32[rows, dim]' or 'int64[rows] index(vocab)'")  # fmt: skip
    dtype, sizes, words = matched.groups()
    dtype = str(names.get(dtype, dtype))
    dtype_of(dtype)
    layout, distribution = "contiguous", _default(dtype)
    for word, parameters in _WORD.findall(words):
        if str(names.get(word, word)) in _LAYOUTS:
            layout = str(names.get(word, word))
        else:
            distribution = _distribution(name, word, parameters, names)
    return TensorSpec.model_validate({
        "name": name, "dtype": dtype, "layout": layout, "distribution": distribution,
        "shape": tuple(size(s, names) for s in sizes.split(",") if s.strip()),
    })  # fmt: skip


def _default(dtype: str) -> Distribution:
    if dtype == "bool":
        return Distribution(kind="bernoulli", scale=0.5)
    if dtype_of(dtype).is_floating_point:
        return Distribution(kind="normal")
    return Distribution(kind="integers", low=0, high=100)


def _distribution(name: str, word: str, parameters: str, names: Names) -> Distribution:
    given = [evaluate(p, names) for p in parameters.split(",") if p.strip()]
    if word == "index":
        word, given = "integers", [0, *given]
    if word not in _PARAMETERS:
        raise TaskError(
            f"argument {name!r}: {word!r} is neither a layout ({', '.join(_LAYOUTS)}) nor a distribution "
            f"({', '.join(_PARAMETERS)}, index)"
        )
    if len(given) > len(_PARAMETERS[word]):
        raise TaskError(f"argument {name!r}: {word} takes {len(_PARAMETERS[word])} numbers, not {len(given)}")
    fields = dict(zip(_PARAMETERS[word], given, strict=False))
    return Distribution.model_validate({"kind": word, **fields})


def _value(node: ast.expr, names: Names) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            found = names[name]
            if isinstance(found, str):
                raise TypeError(f"{name} is text")
            return found
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            result: int | float = _OPERATORS[type(op)](_value(left, names), _value(right, names))
            return result
    raise TypeError(f"{type(node).__name__} is not arithmetic")
