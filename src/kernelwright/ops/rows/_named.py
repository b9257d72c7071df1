"""Recognise operator chains that have a name, such as softplus: printed as one function they cost less."""

from ...records import Scalar
from ._value import Value

Arguments = tuple[Value | Scalar, ...]


def named(what: str, args: Arguments) -> tuple[str, Arguments]:
    """Return an elementwise operator and its arguments under the name of the whole chain, or unchanged.

    `where(x > 20, x, log1p(exp(x)))` is `softplus(x)`, with torch's own threshold, and `x * tanh(softplus(x))` is
    `mish(x)`.
    """
    match what, args:
        case "where", (
            Value(what="gt", args=(y, 20)),
            Value() as x,
            Value(what="log1p", args=(Value(what="exp", args=(z,)),)),
        ) if x is y is z:
            return "softplus", (x,)
        case ("mul", (Value() as x, Value(what="tanh", args=(Value(what="softplus", args=(y,)),)))) | (
            "mul",
            (Value(what="tanh", args=(Value(what="softplus", args=(y,)),)), Value() as x),
        ) if x is y:
            return "mish", (x,)
    return what, args
