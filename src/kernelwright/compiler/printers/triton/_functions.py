"""Jitted functions that Triton lacks; a file gets those that its kernels call."""

import re

FUNCTIONS = {
    "larger": """(a, b):  # NaN wins
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)""",
    "smaller": """(a, b):  # NaN wins
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)""",
    "multiplied": """(a, b):
    return a * b""",
    "expm1": """(x):  # a series near zero, where exp(x) - 1 would cancel
    near = x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666667 + x * (0.0083333333 + x * 0.0013888889)))))
    return tl.where(tl.abs(x) < 0.35, near, tl.exp(x) - 1.0)""",
    "log1p": """(x):  # a series near zero, where 1 + x would round
    s = x / (2.0 + x)
    z = s * s
    near = 2.0 * s * (1.0 + z * (0.33333333 + z * (0.2 + z * (0.14285714 + z * 0.11111111))))
    return tl.where(tl.abs(x) < 0.35, near, tl.log(1.0 + x))""",
    "tanh": """(x):
    falling = expm1(-2.0 * tl.abs(x))
    size = -falling / (2.0 + falling)
    return tl.where(x < 0, -size, size)""",
    "sinh": """(x):
    return 0.5 * (expm1(x) - expm1(-x))""",
    "cosh": """(x):
    return 0.5 * (tl.exp(x) + tl.exp(-x))""",
    "tan": """(x):
    return tl.sin(x) / tl.cos(x)""",
    "log10": """(x):
    return tl.log(x) * 0.4342944819032518""",
    "erfc": """(x):
    return 1.0 - tl.erf(x)""",
    "silu": """(x):
    return x * tl.sigmoid(x)""",
    "softplus": """(x, beta, threshold):
    return tl.where(x * beta > threshold, x, log1p(tl.exp(x * beta)) / beta)""",
    "mish": """(x):
    return x * tanh(softplus(x, 1.0, 20.0))""",
    "gelu": """(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))""",
    "gelu_tanh": """(x):
    return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))""",
    "leaky_relu": """(x, slope):
    return tl.where(x > 0, x, slope * x)""",
    "elu": """(x, alpha, scale, inner):
    return scale * tl.where(x > 0, x, alpha * expm1(x * inner))""",
    "hardsigmoid": """(x):
    return smaller(larger(x + 3.0, 0.0), 6.0) / 6.0""",
    "hardswish": """(x):
    return x * hardsigmoid(x)""",
    "log_sigmoid": """(x):
    return tl.minimum(x, 0.0) - log1p(tl.exp(-tl.abs(x)))""",
    "round": """(x):  # to even
    up = tl.floor(x + 0.5)
    odd = up - 2.0 * tl.floor(up * 0.5)
    return tl.where((up - x == 0.5) & (odd != 0), up - 1.0, up)""",
    "trunc": """(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))""",
    "power": """(x, y):
    whole = y == tl.floor(y)
    odd = whole & (y - 2.0 * tl.floor(y * 0.5) != 0)
    size = tl.where(y == 0, 1.0, tl.exp2(y * tl.log2(tl.abs(x))))
    negative = tl.where(whole, tl.where(odd, -size, size), float("nan"))
    return tl.where(x < 0, negative, size)""",
    "fmod": """(x, y):
    return x - y * trunc(x / y)""",
    "floor_div": """(a, b):
    quotient = a // b
    rest = a - quotient * b
    return quotient - ((rest != 0) & ((rest < 0) != (b < 0))).to(tl.int64)""",
    "floor_mod": """(a, b):
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)""",
}
"""Name → parameters and body."""
TAKEN = frozenset(FUNCTIONS) | {
    "across", "aten", "column", "float", "group", "here", "high", "index", "inner", "inside", "left", "live", "max",
    "min", "part", "place", "programs", "range", "right", "row", "start", "tile", "tiles", "tl", "torch", "triton",
}  # fmt: skip
"""Names that a program must not use."""


def used(text: str) -> list[str]:
    """Return the functions that a text names, those they need first."""
    found: dict[str, list[str]] = {}

    def need(within: str) -> None:
        for name in dict.fromkeys(re.findall(r"(?<![\w.])[a-z]\w*", re.sub("#.*", "", within))):
            if name in FUNCTIONS and name not in found:
                need(FUNCTIONS[name])
                found[name] = ["@triton.jit", *f"def {name}{FUNCTIONS[name]}".split("\n"), "", ""]

    need(text)
    return [line for lines in found.values() for line in lines]
