"""Launch lines of OpenCL and WGSL kernels: `// launch: name = expression` over the arguments' shapes."""

import ast
import math
import re
from dataclasses import dataclass
from types import CodeType
from typing import Any

from ..errors import InputError

_LINE = re.compile(r"^\s*//\s*launch:\s*(\w+)\s*=\s*(.+?)\s*$", re.MULTILINE)
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add,
    ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt,
    ast.GtE, ast.In, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.IfExp, ast.Subscript, ast.Slice,
    ast.Attribute, ast.Call,
)  # fmt: skip
_FUNCTIONS: dict[str, Any] = {
    "cdiv": lambda a, b: -(-a // b),
    "prod": math.prod,
    "min": min,
    "max": max,
    "len": len,
}
_SPECIAL = ("global", "local", "require")


@dataclass(frozen=True)
class View:
    """What an expression sees of a tensor."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Geometry:
    """One launch, evaluated for given shapes."""

    global_size: tuple[int, ...]
    """Work-items along each axis."""
    local_size: tuple[int, ...] | None
    """Work-items of a group; None: the driver's choice."""
    derived: dict[str, int]
    """Kernel arguments that the launch lines define."""


class Launch:
    """The launch lines of one source.

    Example:
        >>> launch = Launch("// launch: n = prod(x.shape)\\n// launch: global = cdiv(n, 64) * 64\\n")
        >>> launch.geometry({"x": View((3, 50), "float32")})
        Geometry(global_size=(192,), local_size=None, derived={'n': 150})
    """

    def __init__(self, source: str) -> None:
        self._lines = [(name, _compiled(name, text), text) for name, text in _LINE.findall(source)]
        self.names = tuple(name for name, _, _ in self._lines if name not in _SPECIAL)
        """Names that the lines define, in order."""
        if not any(name == "global" for name, _, _ in self._lines):
            raise InputError(
                "the source says no `// launch: global = ...`; expected the number of work-items"
            )

    def geometry(self, arguments: dict[str, Any]) -> Geometry:
        """Evaluate the launch for arguments given by name: `View`s and scalars.

        Raises:
            NotImplementedError: `Unsupported: ...` if a `require` does not hold.
            InputError: an expression fails or does not give sizes.
        """
        names = {**_FUNCTIONS, **arguments}
        made: dict[str, Any] = {"local": None}
        for name, code, text in self._lines:
            try:
                value = eval(code, {"__builtins__": {}}, names)
            except (ArithmeticError, AttributeError, IndexError, NameError, TypeError) as error:
                raise InputError(f"launch line {name} = {text!r} fails: {error}") from error
            if name == "require" and not value:
                raise NotImplementedError(f"Unsupported: this kernel requires {text}")
            names[name] = made[name] = value
        derived = {name: int(made[name]) for name in self.names}
        return Geometry(_sizes(made["global"]), made["local"] and _sizes(made["local"]), derived)


def _sizes(value: Any) -> tuple[int, ...]:
    sizes = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(n, int) and n > 0 for n in sizes) or not 1 <= len(sizes) <= 3:
        raise InputError(f"launch size {value!r} is not one to three positive integers")
    return sizes


def _compiled(name: str, text: str) -> CodeType:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise InputError(f"launch line {name} = {text!r} is not an expression: {error.msg}") from error
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Attribute) and node.attr.startswith("_")):
            raise InputError(
                f"launch line {name} = {text!r} holds {type(node).__name__}; expected arithmetic over "
                f"shapes with {', '.join(_FUNCTIONS)}"
            )
    return compile(tree, "<launch>", "eval")
