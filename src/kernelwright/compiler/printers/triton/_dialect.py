"""Triton dialect of operators on blocks: built-in functions, and jitted ones where Triton has none."""

import math

from ...graph import Number, Size, text_of
from ...groups import CALLS, Options, Rule, Terms
from ...tile import Kind
from .. import Unprintable
from ._functions import FUNCTIONS

TYPES = {"float32": "tl.float32", "float64": "tl.float64", "int64": "tl.int64", "bool": "tl.int1"}
"""Types of computed values."""
POINTERS = {
    "float32": "*fp32", "float64": "*fp64", "float16": "*fp16", "bfloat16": "*bf16", "bool": "*i1",
    "int64": "*i64", "int32": "*i32", "int16": "*i16", "int8": "*i8", "uint8": "*u8",
}  # fmt: skip
"""Types of pointers in a signature, by dtype."""
_OWN = {name: f"tl.{name}" for name in (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil", "abs", "sigmoid",
)} | {"fabs": "tl.abs"}  # fmt: skip
_POWERS = {
    3.0: "({0} * {0} * {0})", 4.0: "({0} * {0} * {0} * {0})", 1.0: "{0}", 0.5: "tl.sqrt({0})",
    -0.5: "tl.rsqrt({0})", -1.0: "(1.0 / {0})",
}  # fmt: skip


class Blocks(Terms):
    """Numbers, choices, conversions and calls."""

    def __init__(self, *, wide: bool, large: bool = False) -> None:
        self.wide = wide
        """Whether the program holds doubles; without, sums that would be wide are float32: blocks add in a tree."""
        self.large = large
        """Whether positions need 64 bits."""

    def kind(self, kind: Kind) -> Kind:
        """Return what a kind computes in here."""
        return "float32" if kind == "float64" and not self.wide else kind

    def type(self, kind: Kind) -> str:
        return TYPES[self.kind(kind)]

    def number(self, value: Number, kind: Kind) -> str:
        if isinstance(value, Size):
            return f"tl.cast({text_of(value)}, {self.type(kind)})"
        if kind == "bool":
            return str(bool(value))
        if kind == "int64":
            if isinstance(value, float) and math.isinf(value):
                return str((1 << 63) - 1) if value > 0 else f"(-{1 << 63})"
            return str(int(value)) if value >= 0 else f"({int(value)})"
        number = float(value)
        if not math.isfinite(number) or (
            self.kind(kind) == "float32" and abs(number) > 3.4028235677973366e38
        ):
            word = "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
            return f'float("{word}")'
        return repr(number) if number >= 0 else f"({number!r})"

    def place(self, text: str) -> str:
        """Print a position, in 64 bits where positions need them."""
        return f"tl.cast({bare(text)}, tl.int64)" if self.large else text

    def chosen(self, condition: str, value: str, other: str) -> str:
        return f"tl.where({bare(condition)}, {bare(value)}, {bare(other)})"

    def cast(self, text: str, kind: Kind, to: Kind) -> str:
        if self.kind(kind) == self.kind(to):
            return text
        return f"({text} != 0)" if to == "bool" else f"tl.cast({bare(text)}, {self.type(to)})"

    def call(self, name: str, *args: str) -> str:
        if name == "isnan":
            return f"({args[0]} != {args[0]})"
        if name == "isinf":
            return f'(tl.abs({bare(args[0])}) == float("inf"))'
        if name not in _OWN and name not in FUNCTIONS:
            raise Unprintable(f"Triton has no {name}")
        return f"{_OWN.get(name, name)}({', '.join(map(bare, args))})"


def bare(text: str) -> str:
    """Drop one pair of parentheses around the whole.

    Example:
        >>> bare("(a + b)"), bare("(a) + (b)")
        ('a + b', '(a) + (b)')
    """
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def _sign(sign: str) -> Rule:
    return lambda _, a, __, ___: f"({a[0]} {sign} {a[1]})"


def _power(d: Terms, a: list[str | None], options: Options, kind: Kind) -> str:
    for value, form in _POWERS.items():
        if kind.startswith("float") and a[1] == d.number(value, kind):
            return form.format(a[0])
    return CALLS["pow"](d, a, options, kind)


def _divide(d: Terms, a: list[str | None], options: Options, kind: Kind) -> str:
    if kind == "int64" and options.get("rounding_mode") != "floor":
        return f"({a[0]} // {a[1]})"
    return CALLS["div"](d, a, options, kind)


OPERATORS: dict[str, Rule] = {
    **CALLS,
    "logical_and": _sign("&"), "logical_or": _sign("|"),
    "logical_not": lambda _, a, __, ___: f"({a[0]} == 0)",
    "pow": _power, "div": _divide,
}  # fmt: skip
"""Operator of the graph form → text; the work-group rule if Triton writes it the same way."""
