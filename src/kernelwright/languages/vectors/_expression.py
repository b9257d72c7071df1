"""Print pointwise ATen operators as C++ over the vectors of `vector.h`.

Covers: float arithmetic, activations, comparisons, `where`, logic on masks, casts between float types.
Does not cover: integer arithmetic, float64, complex numbers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...records import Scalar

FLOATS = frozenset({"float32", "bfloat16", "float16"})
"""Dtypes that compute as float32 vectors."""
STORED = FLOATS | {"bool"}
"""Dtypes that the vector header loads and stores."""
C_TYPES = {
    "float32": "float", "bfloat16": "kw::bfloat16", "float16": "kw::float16", "bool": "bool",
    "int64": "int64_t", "int32": "int32_t", "uint8": "uint8_t", "float64": "double",
}  # fmt: skip
"""C++ element types by dtype, as `kernelwright.h` names them."""


Kind = Literal["float", "mask", "integer", "scalar"]


class Unprintable(Exception):
    """The operator, or the operator with these arguments, has no vector form here."""


@dataclass(frozen=True)
class Term:
    """A C++ expression for one vector."""

    text: str
    kind: Kind = "float"
    """`float`: `kw::F`; `mask`, `integer`: `kw::M`; `scalar`: a float literal, the same in every lane."""

    def as_float(self) -> str:
        """Return the text as a `kw::F`."""
        return {
            "float": self.text,
            "mask": f"kw::to_float({self.text})",
            "scalar": f"kw::splat({self.text})",
        }[self.kind]

    def as_mask(self) -> str:
        """Return the text as a `kw::M`."""
        return self.text if self.kind == "mask" else f"kw::to_mask({self.as_float()})"


def literal(value: Scalar) -> str:
    """Print a number as a float32 literal.

    Example:
        >>> literal(2), literal(1e-6), literal(float("-inf"))
        ('2.0f', '1e-06f', '-kw::kInf')
    """
    if not isinstance(value, bool | int | float):
        raise Unprintable(f"{value!r} is not a number")
    number = float(value)
    if math.isnan(number):
        return "kw::kNaN"
    if math.isinf(number) or abs(number) > 3.4028235677973366e38:
        return "kw::kInf" if number > 0 else "-kw::kInf"
    return f"{number!r}f"


def term(value: Term | Scalar) -> Term:
    """Return a term unchanged and a Python number as a literal."""
    return value if isinstance(value, Term) else Term(literal(value), "scalar")


def print_pointwise(op: str, args: Sequence[Term | Scalar], kwargs: dict[str, Scalar] | None = None) -> Term:
    """Print one operator, named as `aten.add.Tensor`, applied to terms and Python numbers.

    Raises:
        Unprintable: there is no vector form.

    Example:
        >>> x = Term("x")
        >>> print_pointwise("aten.add.Tensor", [x, Term("y")], {"alpha": 2}).text
        '(x + 2.0f * y)'
        >>> print_pointwise("aten.gelu.default", [x], {"approximate": "tanh"}).text
        'kw::gelu_tanh(x)'
    """
    name = op.split(".")[1].rstrip("_") if op.startswith("aten.") else op
    rule = _RULES.get(name)
    if rule is None:
        raise Unprintable(f"no vector form of {op}")
    try:
        return rule(*args, **(kwargs or {}))
    except TypeError as error:
        raise Unprintable(f"{op} with {len(args)} arguments and {sorted(kwargs or {})}: {error}") from None


Rule = Callable[..., Term]
_RULES: dict[str, Rule] = {}


def pointwise_names() -> frozenset[str]:
    """Return the bare names of the operators that can be printed, such as `add`."""
    return frozenset(_RULES)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


def _operator(symbol: str, left: Term | Scalar, right: Term | Scalar) -> str:
    """Print `left symbol right`; a literal stays bare unless both sides are literals."""
    a, b = term(left), term(right)
    if a.kind == b.kind == "scalar":
        a = Term(a.as_float())
    first, second = (t.text if t.kind == "scalar" else t.as_float() for t in (a, b))
    return f"({first} {symbol} {second})"


def _call(function: str, *values: Term | Scalar) -> Term:
    return Term(f"kw::{function}({', '.join(term(v).as_float() for v in values)})")


def _scaled(value: Term | Scalar, alpha: Scalar) -> Term | Scalar:
    return value if alpha == 1 else Term(_operator("*", alpha, value)[1:-1])


@_rule("add")
def _add(a: Term | Scalar, b: Term | Scalar, *, alpha: Scalar = 1) -> Term:
    return Term(_operator("+", a, _scaled(b, alpha)))


@_rule("sub", "subtract")
def _sub(a: Term | Scalar, b: Term | Scalar, *, alpha: Scalar = 1) -> Term:
    return Term(_operator("-", a, _scaled(b, alpha)))


@_rule("rsub")
def _rsub(a: Term | Scalar, b: Term | Scalar, alpha: Scalar = 1) -> Term:
    return Term(_operator("-", b, _scaled(a, alpha)))


@_rule("mul", "multiply")
def _mul(a: Term | Scalar, b: Term | Scalar) -> Term:
    return Term(_operator("*", a, b))


@_rule("div", "divide", "true_divide")
def _div(a: Term | Scalar, b: Term | Scalar, *, rounding_mode: Scalar = None) -> Term:
    quotient = _operator("/", a, b)
    if rounding_mode is None:
        return Term(quotient)
    return Term(f"kw::{rounding_mode}({quotient})")


for _name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "abs", "neg", "relu", "sigmoid",
    "tanh", "erf", "sin", "cos", "floor", "ceil", "trunc", "square", "finite", "reciprocal", "silu", "sign",
    "mish",
):  # fmt: skip
    _RULES[_name] = lambda x, _function=_name: _call(_function, x)
_RULES["round"] = lambda x: _call("rint", x)
_RULES["log_sigmoid"] = lambda x: _call("logsigmoid", x)
_RULES["maximum"] = lambda a, b: _call("maximum", a, b)
_RULES["minimum"] = lambda a, b: _call("minimum", a, b)


def _compare(symbol: str, left: Term | Scalar, right: Term | Scalar) -> Term:
    """Compare; integers with integers as integers."""
    if all(isinstance(t, int) or (isinstance(t, Term) and t.kind == "integer") for t in (left, right)):
        texts = (t.text if isinstance(t, Term) else str(t) for t in (left, right))
        return Term(f"({f' {symbol} '.join(texts)})", "mask")
    return Term(_operator(symbol, left, right), "mask")


for _name, _symbol in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    _RULES[_name] = lambda a, b, _s=_symbol: _compare(_s, a, b)
for _name, _symbol in {"and": "&", "or": "|", "xor": "^"}.items():
    for _prefix in ("logical_", "bitwise_", "__", ""):
        _full = f"__{_name}__" if _prefix == "__" else f"{_prefix}{_name}"
        _RULES[_full] = lambda a, b, _s=_symbol: Term(
            f"({term(a).as_mask()} {_s} {term(b).as_mask()})", "mask"
        )


@_rule("logical_not", "bitwise_not")
def _not(a: Term | Scalar) -> Term:
    return Term(f"(~{term(a).as_mask()})", "mask")


@_rule("isnan")
def _isnan(x: Term) -> Term:
    return Term(f"({x.as_float()} != {x.as_float()})", "mask")


@_rule("isinf")
def _isinf(x: Term) -> Term:
    return Term(f"(kw::abs({x.as_float()}) == kw::kInf)", "mask")


@_rule("where")
def _where(condition: Term, a: Term | Scalar, b: Term | Scalar) -> Term:
    return Term(f"kw::select({condition.as_mask()}, {term(a).as_float()}, {term(b).as_float()})")


@_rule("masked_fill")
def _masked_fill(x: Term, condition: Term, value: Term | Scalar) -> Term:
    return _where(condition, value, x)


@_rule("clone", "alias", "detach", "contiguous", "dropout", "_to_copy", "to", "float", "convert_element_type")
def _identity(x: Term, *_: object, **__: object) -> Term:
    return x


@_rule("gelu")
def _gelu(x: Term, *, approximate: Scalar = "none") -> Term:
    return _call("gelu_tanh" if approximate == "tanh" else "gelu", x)


@_rule("clamp", "clip", "hardtanh")
def _clamp(x: Term, min: Scalar | Term = None, max: Scalar | Term = None) -> Term:
    text = x.as_float()
    if min is not None:
        text = f"kw::maximum({text}, {term(min).as_float()})"
    if max is not None:
        text = f"kw::minimum({text}, {term(max).as_float()})"
    return Term(text)


_RULES["clamp_min"] = _clamp
_RULES["clamp_max"] = lambda x, high: _clamp(x, None, high)
_RULES["relu6"] = lambda x: _clamp(x, 0, 6)
_RULES["hardtanh"] = lambda x, low=-1, high=1: _clamp(x, low, high)


@_rule("pow")
def _pow(base: Term | Scalar, exponent: Term | Scalar) -> Term:
    x = term(base).as_float()
    match exponent:
        case 2:
            return Term(f"kw::square({x})")
        case 3:
            return Term(f"({x} * kw::square({x}))")
        case 1:
            return Term(x)
        case 0.5:
            return Term(f"kw::sqrt({x})")
        case -0.5:
            return Term(f"kw::rsqrt({x})")
        case -1:
            return Term(f"kw::reciprocal({x})")
        case _:
            return _call("pow", base, exponent)


@_rule("leaky_relu")
def _leaky_relu(x: Term, slope: Scalar = 0.01) -> Term:
    text = x.as_float()
    return Term(f"kw::select({text} > 0.0f, {text}, {literal(slope)} * {text})")


@_rule("elu")
def _elu(x: Term, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Term:
    text = x.as_float()
    power = "expm1_below" if isinstance(input_scale, int | float) and input_scale >= 0 else "expm1"
    low = _operator("*", Term(_call(power, Term(_operator("*", Term(text), input_scale))).text), alpha)
    return Term(f"kw::select({text} > 0.0f, {text}, {low}) * {literal(scale)}")


_RULES["selu"] = lambda x: _elu(x, 1.6732632423543772, 1.0507009873554805)
_RULES["celu"] = lambda x, alpha=1.0: _elu(x, alpha, 1, 1.0 / float(alpha))


@_rule("softplus")
def _softplus(x: Term, beta: Scalar = 1, threshold: Scalar = 20) -> Term:
    return Term(f"kw::softplus({x.as_float()}, {literal(beta)}, {literal(threshold)})")


@_rule("softsign")
def _softsign(x: Term) -> Term:
    return Term(f"({x.as_float()} / (1.0f + kw::abs({x.as_float()})))")


@_rule("hardsigmoid")
def _hardsigmoid(x: Term) -> Term:
    return Term(f"({_clamp(Term(f'({x.as_float()} + 3.0f)'), 0, 6).text} * {literal(1 / 6)})")


@_rule("hardswish")
def _hardswish(x: Term) -> Term:
    return Term(f"({x.as_float()} * {_hardsigmoid(x).text})")


@_rule("lerp")
def _lerp(a: Term, b: Term | Scalar, weight: Term | Scalar) -> Term:
    return Term(f"kw::fma({term(weight).as_float()}, ({_operator('-', b, a)}), {a.as_float()})")


@_rule("addcmul")
def _addcmul(x: Term, a: Term, b: Term, *, value: Scalar = 1) -> Term:
    return _add(x, Term(_operator("*", a, b)), alpha=value)


@_rule("addcdiv")
def _addcdiv(x: Term, a: Term, b: Term, *, value: Scalar = 1) -> Term:
    return _add(x, Term(_operator("/", a, b)), alpha=value)
