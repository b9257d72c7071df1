"""Print pointwise ATen operators as OpenCL C over floats."""

import math
from collections.abc import Callable

from ...languages.vectors import Unprintable
from ...tasks.capture import Graph, Node
from .dialect import Dialect
from .graphs import slots
from .printer import Printer

TYPES = {"float32": "float", "bool": "uchar", "int64": "long", "int32": "int"}
"""Element types by dtype."""

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=",
}  # fmt: skip
_FORMS = {
    "neg": "(-{0})", "exp": "exp({0})", "expm1": "expm1({0})", "log": "log({0})", "log1p": "log1p({0})",
    "sqrt": "sqrt({0})", "abs": "fabs({0})", "rsqrt": "(1.0f / sqrt({0}))", "reciprocal": "(1.0f / {0})",
    "sin": "sin({0})", "cos": "cos({0})", "erf": "erf({0})", "relu": "({0} < 0.0f ? 0.0f : {0})",
    "square": "({0} * {0})", "sigmoid": "(1.0f / (1.0f + exp(-{0})))", "silu": "({0} / (1.0f + exp(-{0})))",
    "tanh": "tanh({0})", "floor": "floor({0})", "ceil": "ceil({0})", "clone": "{0}", "_to_copy": "{0}",
}  # fmt: skip
_GELU = {
    "none": "(0.5f * {0} * (1.0f + erf({0} * 0.70710678f)))",
    "tanh": "(0.5f * {0} * (1.0f + tanh(0.79788456f * ({0} + 0.044715f * {0} * {0} * {0}))))",
}
_POWERS = {2: "({0} * {0})", 3: "({0} * {0} * {0})", 0.5: "sqrt({0})", -0.5: "(1.0f / sqrt({0}))", 1: "{0}"}


def number(value: object) -> str:
    """Print a Python number; raises `Unprintable` if it is not one.

    Example:
        >>> number(2), number(float("-inf"))
        ('2.0f', '(-INFINITY)')
    """
    if not isinstance(value, bool | int | float):
        raise Unprintable(f"{value!r} is no number")
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"{float(value)!r}f"


OPENCL = Dialect("OpenCL", _INFIX, _FORMS, _GELU, _POWERS, "({0} != 0.0f ? {1} : {2})", number)
"""OpenCL C over floats.

Example:
    >>> OPENCL.operator("aten.add.Tensor", ["x", 1], {})
    '(x + 1.0f)'
"""


def opencl_printer(graph: Graph, special: Callable[[Printer, Node], str | None]) -> Printer:
    """Return a printer of OpenCL statements over floats."""
    return Printer(graph, special, OPENCL.operator, "float {name} = {text};")


def parameters(graph: Graph) -> str:
    """Declare the call's tensors, inputs and state as x0, x1 ..., outputs as out0, out1 ..."""
    if None in graph.inputs:
        raise Unprintable("an argument that is no tensor")
    texts = []
    for name, place in sorted(slots(graph).items(), key=lambda item: item[1]):
        dtype = graph.node(name).dtype
        if dtype not in TYPES:
            raise Unprintable(f"{name} is {dtype}")
        texts.append(f"__global const {TYPES[dtype]}* x{place}")
    texts += [f"__global float* out{i}" for i in range(len(graph.outputs))]
    return ", ".join(texts)
