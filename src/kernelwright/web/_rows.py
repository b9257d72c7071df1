"""Nodes over one shape → one program over its rows: pointwise operators, reductions, softmax and norms together."""

import math
from collections.abc import Sequence

from ..errors import InputError
from ..tasks.capture import Argument, Node, Ref
from ._program import Plain

_BYTES = 4
_UNARY = {
    name: name
    for name in (
        "exp",
        "log",
        "tanh",
        "sigmoid",
        "relu",
        "sqrt",
        "rsqrt",
        "abs",
        "neg",
        "erf",
        "silu",
        "hardswish",
    )
}
_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "max", "minimum": "min"}
_MORE = {
    "gelu",
    "pow",
    "clamp",
    "clamp_min",
    "clamp_max",
    "leaky_relu",
    "reciprocal",
    "square",
    "rsub",
    "hardtanh",
}
_REDUCTIONS = {"sum": "sum", "mean": "sum", "amax": "max", "amin": "min"}
_NORMALISATIONS = {"_softmax", "_log_softmax", "native_layer_norm"}
Expression = Plain
"""A number, or a list: the name of an operation and what it takes."""


def packet_of(node: Node) -> str:
    """Return the operator's name without library and overload: `softmax` of `aten.softmax.int`."""
    return node.op.split(".")[1] if "." in node.op else node.op


def is_pointwise(node: Node) -> bool:
    """Tell whether each element of the result depends on one element of each operand."""
    return packet_of(node) in {*_UNARY, *_BINARY, *_MORE}


def is_reduction(node: Node) -> bool:
    """Tell whether the node reduces axes of its first operand."""
    return packet_of(node) in _REDUCTIONS


def is_normalisation(node: Node) -> bool:
    """Tell whether the node normalises along its last axes."""
    return packet_of(node) in _NORMALISATIONS


def reduced_axes(node: Node, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that a reduction or a normalisation runs over, in order."""
    given = node.arguments()
    if packet_of(node) == "native_layer_norm":
        normal = given["normalized_shape"]
        assert isinstance(normal, tuple)
        return tuple(range(len(shape) - len(normal), len(shape)))
    axes = given.get("dim")
    listed = axes if isinstance(axes, tuple) else (axes,) if isinstance(axes, int) else range(len(shape))
    return tuple(sorted(int(str(a)) % len(shape) for a in listed)) or tuple(range(len(shape)))


def splits(shape: Sequence[int], full: Sequence[int]) -> set[int]:
    """Say where `full` may be cut into rows and columns so that an operand is whole or constant in each row.

    Example:
        >>> splits((8, 1, 1), (2, 8, 4, 4)), splits((4,), (2, 3, 4))
        ({2, 3}, {2})
    """
    if len(shape) > len(full):
        return set()
    padded = (*[1] * (len(full) - len(shape)), *shape)
    allowed = set()
    for cut in range(max(len(full), 1)):
        tail = list(zip(padded[cut:], full[cut:], strict=True))
        if all(a == b for a, b in tail) or all(a == 1 for a, _ in tail):
            allowed.add(cut)
    return allowed


def pointwise(node: Node, given: Sequence[Expression]) -> Expression:
    """Return the expression of a pointwise node; `given` are its operands, numbers among them.

    Raises:
        InputError: a form of the operator that has no kernel.
    """
    name, arguments = packet_of(node), node.arguments()
    if name in _UNARY:
        return [_UNARY[name], given[0]]
    if name in _BINARY:
        if arguments.get("rounding_mode") is not None:
            raise InputError(
                f"{node.op} rounds to {arguments['rounding_mode']!r}, which has no kernel for the web"
            )
        alpha = arguments.get("alpha", 1)
        right = given[1] if alpha == 1 else ["mul", number(alpha), given[1]]
        return [_BINARY[name], given[0], right]
    return _more(node, name, given, arguments)


def _more(node: Node, name: str, given: Sequence[Expression], arguments: dict[str, Argument]) -> Expression:
    x = given[0]
    match name:
        case "gelu":
            return ["gelu_tanh" if arguments.get("approximate") == "tanh" else "gelu", x]
        case "square":
            return ["square", x]
        case "reciprocal":
            return ["div", 1, x]
        case "rsub":
            return ["sub", given[1], x]
        case "leaky_relu":
            return ["add", ["relu", x], ["mul", number(arguments["negative_slope"]), ["least", x, 0]]]
        case "pow":
            return _power(node, x, arguments)
    low = arguments.get("min", arguments.get("min_val"))
    high = arguments.get("max", arguments.get("max_val"))
    if isinstance(low, Ref) or isinstance(high, Ref):
        raise InputError(f"{node.op} with limits in tensors has no kernel for the web")
    x = x if low is None else ["most", x, number(low)]
    return x if high is None else ["least", x, number(high)]


def _power(node: Node, x: Expression, arguments: dict[str, Argument]) -> Expression:
    exponent = arguments.get("exponent")
    forms: dict[object, Expression] = {
        1: x, 2: ["square", x], 3: ["mul", x, ["square", x]], 4: ["square", ["square", x]],
        0.5: ["sqrt", x], -0.5: ["rsqrt", x], -1: ["div", 1, x],
    }  # fmt: skip
    if isinstance(exponent, Ref) or exponent not in forms:
        raise InputError(
            f"{node.op} with exponent {exponent} has no kernel for the web; 1, 2, 3, 4, ±0.5 and -1 have"
        )
    return forms[exponent]


def number(value: Argument) -> float:
    """Return a literal as a number.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{value!r} is no finite number, which a kernel for the web needs here")
    return float(value)


def reduction(node: Node, x: Expression, width: int) -> tuple[list[Plain], Expression]:
    """Return the passes of a reduction and the expression of its result."""
    name = packet_of(node)
    passes: list[Plain] = [{"reduce": _REDUCTIONS[name], "name": node.name, "of": x}]
    result: Expression = ["let", node.name]
    return passes, ["mul", 1 / width, result] if name == "mean" else result


def normalisation(
    node: Node, given: Sequence[Expression], width: int, spare: int
) -> tuple[list[Plain], Expression]:
    """Return the passes of a softmax or a norm and the expression of its result; `spare` holds one row."""
    x, tag = given[0], node.name
    if packet_of(node) == "native_layer_norm":
        eps, weight, bias = node.arguments()["eps"], *given[1:]
        centred: Expression = ["sub", x, ["let", f"{tag}.mean"]]
        passes: list[Plain] = [
            {"reduce": "sum", "name": f"{tag}.sum", "of": x},
            {"name": f"{tag}.mean", "be": ["mul", 1 / width, ["let", f"{tag}.sum"]]},
            {"reduce": "sum", "name": f"{tag}.squares", "of": ["square", centred]},
            {"name": f"{tag}.scale",
             "be": ["rsqrt", ["add", number(eps), ["mul", 1 / width, ["let", f"{tag}.squares"]]]]},
        ]  # fmt: skip
        result: Expression = ["mul", centred, ["let", f"{tag}.scale"]]
        result = ["mul", result, weight] if weight is not None else result
        return passes, ["add", result, bias] if bias is not None else result
    passes = [{"reduce": "most", "name": f"{tag}.top", "of": x}]
    below: Expression = ["sub", x, ["let", f"{tag}.top"]]
    total: dict[str, Plain] = {"reduce": "sum", "name": f"{tag}.sum", "of": ["exp", below]}
    if packet_of(node) == "_log_softmax":
        passes += [total, {"name": f"{tag}.log", "be": ["log", ["let", f"{tag}.sum"]]}]
        return passes, ["sub", below, ["let", f"{tag}.log"]]
    passes += [{**total, "store": spare}, {"name": f"{tag}.share", "be": ["div", 1, ["let", f"{tag}.sum"]]}]
    return passes, ["mul", ["out", spare], ["let", f"{tag}.share"]]
