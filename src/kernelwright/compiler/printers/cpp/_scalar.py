"""Expressions as scalar C++: one element at a time, every kind; the vector form must agree with it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...graph import Number, Size, text_of
from ...tile import (
    Arith,
    Call,
    Expression,
    Extent,
    Guard,
    Kind,
    Literal,
    Load,
    Position,
    Program,
    Result,
    Variable,
    offset,
)
from .. import Unprintable

TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "bool": "bool"}
"""C++ types of computed values."""
STORED = {
    "float32": "float", "float64": "double", "float16": "kw::float16", "bfloat16": "kw::bfloat16",
    "bool": "bool", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t",
    "uint8": "uint8_t",
}  # fmt: skip
"""C++ types in memory."""


def size_text(size: int) -> str:
    """Print a size's rule as C++."""
    return text_of(size).replace("//", "/")


def literal(value: Number, kind: Kind) -> str:
    """Print a number of a kind.

    Example:
        >>> literal(2, "float32"), literal(float("-inf"), "float64"), literal(True, "bool")
        ('2.0f', '-INFINITY', 'true')
    """
    if isinstance(value, Size):
        return f"static_cast<{TYPES[kind]}>{_wrapped(size_text(value))}"
    if kind == "bool":
        return "true" if value else "false"
    if kind == "int64":
        if isinstance(value, float) and math.isinf(value):
            return "INT64_MAX" if value > 0 else "INT64_MIN"
        return str(int(value))
    number = float(value)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number) or (kind == "float32" and abs(number) > 3.4028235677973366e38):
        return "INFINITY" if number > 0 else "-INFINITY"
    return f"{number!r}f" if kind == "float32" else repr(number)


def _wrapped(text: str) -> str:
    return text if text.startswith("(") else f"({text})"


@dataclass
class Scope:
    """The meaning of names at a statement."""

    program: Program
    lanes: dict[str, Kind] = field(default_factory=dict)
    """Names that hold a vector."""
    axis: str = ""
    """The axis that lanes run over; none outside a vector loop."""
    parts: dict[tuple[str, str], str] = field(default_factory=dict)
    """(accumulator, part) → C++ name, if it is not `accumulator_part`."""
    bounds: dict[str, float] = field(default_factory=dict)
    """Limits of named values that follow from positions."""
    local: Mapping[str, str] = field(default_factory=dict)
    """Buffers that are read through another name."""
    turned: dict[Expression, str] = field(default_factory=dict)
    """Loads that read a tile's copy, as vectors."""
    places: dict[str, str] = field(default_factory=dict)
    """Computed places of lanes → the name of how far apart they lie, which all loads at them share."""
    fresh: list[str] | None = None
    """Declarations of such names, to be printed before the next statement; none where expressions stand alone."""


@dataclass
class Scalar:
    """Prints expressions one element at a time; within a vector loop for one lane, `k`."""

    scope: Scope
    lane: bool = False

    def text(self, e: Expression) -> str:
        """Print an expression."""
        match e:
            case Literal(value, kind):
                return literal(value, kind)
            case Extent(size):
                return _wrapped(size_text(size)) if isinstance(size, Size) else str(size)
            case Position(axis):
                return f"({axis} + k)" if self.lane and axis == self.scope.axis else axis
            case Variable(name, kind):
                return self._named(name, kind)
            case Result(name, part, kind):
                return self._named(self.scope.parts.get((name, part), f"{name}_{part}"), kind)
            case Arith(sign, left, right):
                return self._arith(sign, left, right)
            case Load(buffer, index, kind):
                return self._load(buffer, index, kind)
            case Guard(condition, value, other):
                return f"({self.text(condition)} ? {self.text(value)} : {self.text(other)})"
            case Call():
                return self._call(e)

    def _named(self, name: str, kind: Kind) -> str:
        if self.lane and name in self.scope.lanes:
            return f"({name}[k] != 0)" if kind == "bool" else f"{name}[k]"
        return name

    def _arith(self, sign: str, left: Expression, right: Expression) -> str:
        a, b = self.text(left), self.text(right)
        if sign in ("min", "max"):
            return f"std::{sign}<int64_t>({a}, {b})"
        return f"({a} {sign.replace('//', '/')} {b})"

    def _load(self, buffer: str, index: tuple[Expression, ...], kind: Kind) -> str:
        place = self.text(offset(index, self.scope.program.buffer(buffer).shape))
        text = f"{self.scope.local.get(buffer, buffer)}[{bare(place)}]"
        stored = self.scope.program.buffer(buffer).dtype
        return text if stored == kind else f"static_cast<{TYPES[kind]}>({text})"

    def _call(self, e: Call) -> str:
        if e.op == "cast":
            (value,) = e.args
            assert value is not None
            text = self.text(value)
            if e.kind == "bool":
                return f"({text} != 0)"
            if e.kind == "int64" and value.kind.startswith("float"):
                return f"kw::whole({text})"
            return f"static_cast<{TYPES[e.kind]}>({bare(text)})"
        rule = SCALAR.get(e.op)
        if rule is None:
            raise Unprintable(f"no scalar form of {e.op}")
        args = [None if a is None else self.text(a) for a in e.args]
        kinds = [a.kind for a in e.args if a is not None]
        return rule(args, dict(e.options), kinds[-1] if kinds else e.kind)


def bare(text: str) -> str:
    """Drop one pair of parentheses around the whole."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


Options = Mapping[str, Number | str | None]
Args = list[str | None]
Rule = Callable[[Args, Options, Kind], str]


def _std(name: str) -> Rule:
    return lambda a, _, kind: f"std::{name}({a[0] if kind != 'int64' else f'static_cast<double>({a[0]})'})"


def _sign(sign: str) -> Rule:
    return lambda a, _, __: f"({a[0]} {sign} {a[1]})"


def _scaled(sign: str, first: int, second: int) -> Rule:
    def rule(a: Args, options: Options, kind: Kind) -> str:
        alpha = options.get("alpha", a[2] if len(a) > 2 else None)
        factor = (
            ""
            if alpha in (None, 1, 1.0)
            else f"{alpha if isinstance(alpha, str) else literal(alpha, kind)} * "
        )
        return f"({a[first]} {sign} {factor}{a[second]})"

    return rule


def _divide(a: Args, options: Options, kind: Kind) -> str:
    mode = options.get("rounding_mode")
    if kind == "int64":
        return f"kw::floor_div({a[0]}, {a[1]})" if mode == "floor" else f"({a[0]} / {a[1]})"
    return f"({a[0]} / {a[1]})" if mode is None else f"std::{mode}({a[0]} / {a[1]})"


def _gelu(a: Args, options: Options, _: Kind) -> str:
    x = a[0]
    if options.get("approximate") == "tanh":
        return f"({x} * 0.5f * (1.0f + std::tanh(0.7978845608f * ({x} + 0.044715f * {x} * {x} * {x}))))"
    return f"({x} * 0.5f * std::erfc(-{x} * 0.70710678118f))"


def _elu(a: Args, _: Options, __: Kind) -> str:
    given = [v or "1.0f" for v in a[1:]]
    alpha, scale, inner = [*given, "1.0f", "1.0f", "1.0f"][:3]
    return f"(({a[0]} > 0 ? {a[0]} : std::expm1({a[0]} * {inner}) * {alpha}) * {scale})"


def _clamp(a: Args, _: Options, kind: Kind) -> str:
    text = str(a[0])
    if len(a) > 1 and a[1] is not None:
        text = f"kw::larger<{TYPES[kind]}>({text}, {a[1]})"
    return f"kw::smaller<{TYPES[kind]}>({text}, {a[2]})" if len(a) > 2 and a[2] is not None else text


def _softplus(a: Args, _: Options, kind: Kind) -> str:
    beta = a[1] if len(a) > 1 else "1.0f"
    threshold = a[2] if len(a) > 2 else "20.0f"
    return f"kw::softplus_of<{TYPES[kind]}>({a[0]}, {beta}, {threshold})"


def _pow(a: Args, _: Options, kind: Kind) -> str:
    if kind == "int64":
        return f"static_cast<int64_t>(std::pow({a[0]}, {a[1]}))"
    if a[1] in ("2.0f", "2.0"):
        return f"({a[0]} * {a[0]})"
    return f"std::pow({a[0]}, {a[1]})"


def _typed(name: str) -> Rule:
    return lambda a, _, kind: f"{name}<{TYPES[kind]}>({', '.join(str(x) for x in a)})"


_HALF = "kw::smaller(kw::larger({x} + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f)"

SCALAR: dict[str, Rule] = {
    **{name: _std(name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "tanh", "erf", "erfc", "sin", "cos", "tan",
        "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc",
    )},
    **{name: _sign(sign) for name, sign in {
        "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "logical_and": "&&",
        "logical_or": "||", "logical_xor": "!=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    }.items()},
    "add": _scaled("+", 0, 1), "sub": _scaled("-", 0, 1), "rsub": _scaled("-", 1, 0), "div": _divide,
    "round": lambda a, _, __: f"std::nearbyint({a[0]})",
    "rsqrt": lambda a, _, kind: f"({literal(1, kind)} / std::sqrt({a[0]}))",
    "abs": lambda a, _, kind: f"std::abs({a[0]})" if kind == "int64" else f"std::fabs({a[0]})",
    "neg": lambda a, _, __: f"(-{a[0]})",
    "relu": lambda a, _, kind: f"({a[0]} < 0 ? {literal(0, kind)} : {a[0]})",
    "sigmoid": _typed("kw::sigmoid_of"),
    "square": lambda a, _, __: f"({a[0]} * {a[0]})",
    "reciprocal": lambda a, _, kind: f"({literal(1, kind)} / {a[0]})",
    "isnan": lambda a, _, kind: "false" if kind == "int64" else f"({a[0]} != {a[0]})",
    "isinf": lambda a, _, kind: "false" if kind == "int64" else f"std::isinf({a[0]})",
    "logical_not": lambda a, _, __: f"(!{a[0]})", "bitwise_not": lambda a, _, __: f"(~{a[0]})",
    "sign": _typed("kw::signum"),
    "maximum": _typed("kw::larger"), "minimum": _typed("kw::smaller"),
    "where": lambda a, _, __: f"({a[0]} ? {a[1]} : {a[2]})",
    "clamp": _clamp, "hardtanh": lambda a, o, kind: _clamp([*a, *["-1.0f", "1.0f"][len(a) - 1 :]], o, kind),
    "pow": _pow, "atan2": lambda a, _, __: f"std::atan2({a[0]}, {a[1]})",
    "fmod": lambda a, _, kind: f"({a[0]} % {a[1]})" if kind == "int64" else f"std::fmod({a[0]}, {a[1]})",
    "remainder": lambda a, _, __: f"kw::floor_mod({a[0]}, {a[1]})",
    "floor_divide": lambda a, _, kind: _divide(a, {"rounding_mode": "floor"}, kind),
    "gelu": _gelu, "elu": _elu, "softplus": _softplus,
    "silu": lambda a, _, __: f"({a[0]} / (1.0f + std::exp(-{a[0]})))",
    "mish": lambda a, _, __: f"({a[0]} * std::tanh(kw::softplus_of<float>({a[0]}, 1.0f, 20.0f)))",
    "leaky_relu": lambda a, _, __: f"({a[0]} > 0 ? {a[0]} : {a[1] if len(a) > 1 else '0.01f'} * {a[0]})",
    "hardsigmoid": lambda a, _, __: f"({_HALF.format(x=a[0])})",
    "hardswish": lambda a, _, __: f"({a[0]} * {_HALF.format(x=a[0])})",
    "log_sigmoid": lambda a, _, __: f"(std::fmin({a[0]}, 0.0f) - std::log1p(std::exp(-std::fabs({a[0]}))))",
}  # fmt: skip
"""Operator → C++ of one element; (operands, options, kind computed in)."""


def converted(value: str, kind: Kind, dtype: str) -> str:
    """Convert a value to what a buffer holds."""
    if dtype in ("float32", "float64") and kind in ("float32", "float64") and dtype == kind:
        return bare(value)
    if dtype in ("int64", "bool") and kind == dtype:
        return bare(value)
    if dtype in ("float16", "bfloat16"):
        return f"{STORED[dtype]}(static_cast<float>({bare(value)}))"
    return f"static_cast<{STORED[dtype]}>({bare(value)})"
