"""Dialect: what differs between work-group languages, and operators in terms of it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from ..graph import Number
from ..printers import Unprintable
from ..tile import Buffer, Kind

Options = Mapping[str, Number | str | None]


class Terms(Protocol):
    """How a language writes the parts of operators."""

    def number(self, value: Number, kind: Kind) -> str:
        """Write a number."""
        ...

    def chosen(self, condition: str, value: str, other: str) -> str:
        """Choose between two values."""
        ...

    def cast(self, text: str, kind: Kind, to: Kind) -> str:
        """Convert a value."""
        ...

    def call(self, name: str, *args: str) -> str:
        """Call a function of one of the names that `CALLS` uses."""
        ...


class Dialect(Terms, Protocol):
    """How a language writes what all of them have."""

    items: int
    """Items of a group: a power of two."""

    def type(self, kind: Kind) -> str:
        """Name the type that a kind computes in."""
        ...

    def size(self, text: str) -> str:
        """Write a size's rule, given as Python's integer arithmetic."""
        ...

    def declared(self, kind: Kind, name: str, text: str, *, fixed: bool) -> str:
        """Declare a name; `fixed` if it never changes."""
        ...

    def counted(self, axis: str, begin: str, end: str, step: str) -> str:
        """Open a loop."""
        ...

    def load(self, buffer: Buffer, at: str) -> str:
        """Read an element in the kind that its dtype computes in."""
        ...

    def store(self, buffer: Buffer, at: str, value: str, kind: Kind) -> str:
        """Write an element: a statement."""
        ...

    def shared(self, kind: Kind, name: str) -> str:
        """Declare an array of one element an item in a group's memory."""
        ...

    def barrier(self) -> str:
        """Wait for all items of the group: a statement."""
        ...


Rule = Callable[[Terms, list[str | None], Options, Kind], str]
"""(dialect, operands, options, kind computed in) → text."""


def _function(name: str) -> Rule:
    return lambda d, a, _, kind: d.call(
        name, d.cast(str(a[0]), kind, "float32") if kind == "int64" else str(a[0])
    )


def _sign(sign: str) -> Rule:
    return lambda _, a, __, ___: f"({a[0]} {sign} {a[1]})"


def _scaled(sign: str, first: int, second: int) -> Rule:
    def rule(d: Terms, a: list[str | None], options: Options, kind: Kind) -> str:
        alpha = options.get("alpha", a[2] if len(a) > 2 else None)
        if isinstance(alpha, int | float) and not isinstance(alpha, bool):
            alpha = d.number(alpha, kind) if alpha != 1 else None
        return f"({a[first]} {sign} {f'{alpha} * ' if alpha else ''}{a[second]})"

    return rule


def _divide(d: Terms, a: list[str | None], options: Options, kind: Kind) -> str:
    mode = options.get("rounding_mode")
    if kind == "int64":
        return d.call("floor_div", str(a[0]), str(a[1])) if mode == "floor" else f"({a[0]} / {a[1]})"
    return f"({a[0]} / {a[1]})" if mode is None else d.call(str(mode), f"({a[0]} / {a[1]})")


def _extreme(name: str, sign: str) -> Rule:
    """Choose the larger or the smaller; of numbers NaN wins."""

    def rule(d: Terms, a: list[str | None], _: Options, kind: Kind) -> str:
        one, two = str(a[0]), str(a[1])
        return d.chosen(f"({one} {sign} {two})", one, two) if kind == "int64" else d.call(name, one, two)

    return rule


def _clamp(d: Terms, a: list[str | None], options: Options, kind: Kind) -> str:
    text = str(a[0])
    if len(a) > 1 and a[1] is not None:
        text = _extreme("larger", ">")(d, [text, a[1]], options, kind)
    return (
        _extreme("smaller", "<")(d, [text, a[2]], options, kind) if len(a) > 2 and a[2] is not None else text
    )


def _hardtanh(d: Terms, a: list[str | None], options: Options, kind: Kind) -> str:
    return _clamp(d, [*a, *(d.number(v, kind) for v in (-1.0, 1.0)[len(a) - 1 :])], options, kind)


def _float(name: str) -> Rule:
    """Call a function on float32, whose other operands have defaults."""
    defaults = {"leaky_relu": (0.01,), "softplus": (1.0, 20.0), "elu": (1.0, 1.0, 1.0)}.get(name, ())

    def rule(d: Terms, a: list[str | None], _: Options, kind: Kind) -> str:
        if kind != "float32":
            raise Unprintable(f"{name} in {kind}")
        rest = [v if v is not None else d.number(w, kind) for v, w in zip(a[1:], defaults, strict=False)]
        rest += [d.number(w, kind) for w in defaults[len(rest) :]]
        return d.call(name, str(a[0]), *rest)

    return rule


def _gelu(d: Terms, a: list[str | None], options: Options, kind: Kind) -> str:
    if kind != "float32":
        raise Unprintable(f"gelu in {kind}")
    return d.call("gelu_tanh" if options.get("approximate") == "tanh" else "gelu", str(a[0]))


def _power(d: Terms, a: list[str | None], _: Options, kind: Kind) -> str:
    if a[1] in (d.number(2.0, kind), d.number(2, kind)):
        return f"({a[0]} * {a[0]})"
    if kind == "int64":
        raise Unprintable("powers of integers")
    return d.call("power", str(a[0]), str(a[1]))


CALLS: dict[str, Rule] = {
    **{name: _function(name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "tanh", "erf", "erfc", "sin", "cos", "tan",
        "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "round", "sigmoid",
        "silu", "mish", "hardsigmoid", "hardswish", "log_sigmoid", "rsqrt",
    )},
    **{name: _sign(sign) for name, sign in {
        "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "logical_and": "&&",
        "logical_or": "||", "logical_xor": "!=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    }.items()},
    "add": _scaled("+", 0, 1), "sub": _scaled("-", 0, 1), "rsub": _scaled("-", 1, 0), "div": _divide,
    "floor_divide": lambda d, a, _, kind: _divide(d, a, {"rounding_mode": "floor"}, kind),
    "abs": lambda d, a, _, kind: d.call("abs" if kind == "int64" else "fabs", str(a[0])),
    "neg": lambda _, a, __, ___: f"(-{a[0]})",
    "relu": lambda d, a, _, kind: d.chosen(f"({a[0]} < {d.number(0, kind)})", d.number(0, kind), str(a[0])),
    "square": lambda _, a, __, ___: f"({a[0]} * {a[0]})",
    "reciprocal": lambda d, a, _, kind: f"({d.number(1, kind)} / {a[0]})",
    "isnan": lambda d, a, _, kind: d.call("isnan", str(a[0])) if kind != "int64" else d.number(False, "bool"),
    "isinf": lambda d, a, _, kind: d.call("isinf", str(a[0])) if kind != "int64" else d.number(False, "bool"),
    "logical_not": lambda d, a, _, kind: f"(!{d.cast(str(a[0]), kind, 'bool')})",
    "bitwise_not": lambda _, a, __, ___: f"(~{a[0]})",
    "sign": lambda d, a, _, kind: d.chosen(
        f"({a[0]} > {d.number(0, kind)})", d.number(1, kind),
        d.chosen(f"({a[0]} < {d.number(0, kind)})", d.number(-1, kind), str(a[0])),
    ),
    "maximum": _extreme("larger", ">"), "minimum": _extreme("smaller", "<"),
    "where": lambda d, a, _, __: d.chosen(str(a[0]), str(a[1]), str(a[2])),
    "clamp": _clamp, "hardtanh": _hardtanh, "pow": _power, "gelu": _gelu,
    "atan2": lambda d, a, _, __: d.call("atan2", str(a[0]), str(a[1])),
    "fmod": lambda d, a, _, kind: f"({a[0]} % {a[1]})" if kind == "int64" else d.call("fmod", str(a[0]), str(a[1])),
    "remainder": lambda d, a, _, __: d.call("floor_mod", str(a[0]), str(a[1])),
    **{name: _float(name) for name in ("leaky_relu", "softplus", "elu")},
}  # fmt: skip
"""Operator of the graph form → text."""
