"""Print pointwise ATen operators as Triton expressions over float32 blocks."""

import math
from collections.abc import Callable, Sequence

from ...languages.vectors import Unprintable
from ...tasks.capture import Graph, Node
from .dialect import Dialect
from .printer import Printer

FLOATS = ("float32", "float16", "bfloat16")
POINTERS = {"float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16", "int64": "*i64", "bool": "*i1"}
"""Types of pointers in a signature, by dtype."""

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "logical_and": "&", "logical_or": "|",
}  # fmt: skip
_FORMS = {
    "neg": "(-{0})", "exp": "tl.exp({0})", "log": "tl.log({0})", "sqrt": "tl.sqrt({0})", "abs": "tl.abs({0})",
    "rsqrt": "(1.0 / tl.sqrt({0}))", "reciprocal": "(1.0 / {0})", "sin": "tl.sin({0})", "cos": "tl.cos({0})",
    "erf": "tl.erf({0})", "relu": "tl.where({0} < 0.0, 0.0, {0})", "square": "({0} * {0})",
    "sigmoid": "(1.0 / (1.0 + tl.exp(-{0})))", "silu": "({0} / (1.0 + tl.exp(-{0})))",
    "tanh": "(2.0 / (1.0 + tl.exp(-2.0 * {0})) - 1.0)", "floor": "tl.floor({0})", "ceil": "tl.ceil({0})",
    "clone": "{0}", "_to_copy": "{0}",
}  # fmt: skip
_GELU = {
    "none": "(0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476)))",
    "tanh": "({0} / (1.0 + tl.exp(-1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0}))))",
}
_POWERS = {
    2: "({0} * {0})",
    3: "({0} * {0} * {0})",
    0.5: "tl.sqrt({0})",
    -0.5: "(1.0 / tl.sqrt({0}))",
    1: "{0}",
}


def number(value: object) -> str:
    """Print a Python number; raises `Unprintable` if it is not one.

    Example:
        >>> number(2), number(float("-inf"))
        ('2.0', 'float("-inf")')
    """
    if not isinstance(value, bool | int | float):
        raise Unprintable(f"{value!r} is no number")
    return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'


TRITON = Dialect("Triton", _INFIX, _FORMS, _GELU, _POWERS, "tl.where({0}, {1}, {2})", number)
"""Triton over float32 blocks.

Example:
    >>> TRITON.operator("aten.add.Tensor", ["x", 1], {})
    '(x + 1.0)'
"""


def block(lines: Sequence[str], indent: int = 1) -> str:
    """Join statements, indented."""
    return "\n".join("    " * indent + line for line in lines)


def triton_printer(graph: Graph, special: Callable[[Printer, Node], str | None]) -> Printer:
    """Return a printer of Triton statements."""
    return Printer(graph, special, TRITON.operator, "{name} = {text}")
