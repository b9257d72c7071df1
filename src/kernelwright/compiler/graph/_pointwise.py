"""The elementwise operators of the graph form, each with its meaning on float64 tensors."""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
Meaning = Callable[..., torch.Tensor]


def _where(condition: Any, a: Any, b: Any) -> torch.Tensor:
    return torch.where(condition.bool(), _tensor(a), _tensor(b))


def _tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)


def _clamp(x: Any, low: Any = None, high: Any = None) -> torch.Tensor:
    if low is not None:
        x = torch.maximum(x, _tensor(low).to(x.dtype))
    return x if high is None else torch.minimum(x, _tensor(high).to(x.dtype))


def _two(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Meaning:
    def meaning(a: Any, b: Any) -> torch.Tensor:
        a, b = _tensor(a), _tensor(b)
        kind = torch.result_type(a, b)
        return function(a.to(kind), b.to(kind))

    return meaning


POINTWISE: dict[str, Meaning] = {
    **{name: getattr(torch, name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "abs", "neg", "relu",
        "sigmoid", "tanh", "erf", "erfc", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
        "acosh", "atanh", "floor", "ceil", "trunc", "round", "square", "reciprocal", "isnan", "isinf",
        "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "div", "add", "sub", "rsub", "mul",
    )},
    **{name: _two(getattr(torch, name)) for name in (
        "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
        "atan2", "fmod", "remainder",
    )},
    "sign": torch.sign, "where": _where, "clamp": _clamp, "pow": lambda a, b: torch.pow(_tensor(a), b),
    "gelu": aten.gelu, "silu": aten.silu, "mish": aten.mish, "elu": aten.elu, "leaky_relu": aten.leaky_relu,
    "hardtanh": aten.hardtanh, "softplus": aten.softplus, "hardsigmoid": aten.hardsigmoid,
    "hardswish": aten.hardswish, "log_sigmoid": torch.nn.functional.logsigmoid,
    "floor_divide": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "cast": lambda x: x,
}  # fmt: skip
"""By name. `cast` converts to the node's dtype; all others compute in the wider of their operands' dtypes."""
