"""OpenCL C dialect of work-group kernels."""

import math

from ...graph import Number, Size, text_of
from ...groups import Dialect
from ...tile import Buffer, Kind

_TYPES = {"float32": "float", "float64": "double", "int64": "long", "bool": "int"}
STORED = {
    "float32": "float", "float64": "double", "float16": "half", "bfloat16": "ushort", "bool": "uchar",
    "int64": "long", "int32": "int", "int16": "short", "int8": "char", "uint8": "uchar",
}  # fmt: skip
"""Types in memory."""
_OWN = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tanh", "erf", "erfc", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "fabs", "abs",
    "isnan", "isinf", "atan2", "fmod",
})  # fmt: skip
_NAMES = {"round": "rint", "power": "pow"}
TAKEN = _OWN | {
    "auto", "bool", "break", "case", "char", "clamp", "const", "constant", "continue", "default", "do", "dot",
    "double", "else", "enum", "extern", "float", "fmax", "fmin", "for", "global", "goto", "group", "half",
    "half_way", "if", "image", "index", "int", "item", "kernel", "local", "log", "long", "max", "min", "mix",
    "normalize", "pow", "private", "restrict", "return", "rint", "select", "short", "sign", "signed",
    "sizeof", "static", "step", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile",
    "while",
}  # fmt: skip
"""Names that a program must not use."""


class OpenClC(Dialect):
    """The dialect."""

    items = 64

    def type(self, kind: Kind) -> str:
        return _TYPES[kind]

    def number(self, value: Number, kind: Kind) -> str:
        if isinstance(value, Size):
            return f"(({_TYPES[kind]})({self.size(text_of(value))}))"
        if kind == "bool":
            return "1" if value else "0"
        if kind == "int64":
            if isinstance(value, float) and math.isinf(value):
                return "LONG_MAX" if value > 0 else "LONG_MIN"
            return str(int(value)) if value >= 0 else f"({int(value)})"
        number = float(value)
        if math.isnan(number):
            return "NAN"
        if math.isinf(number) or (kind == "float32" and abs(number) > 3.4028235677973366e38):
            return "INFINITY" if number > 0 else "(-INFINITY)"
        text = f"{number!r}f" if kind == "float32" else repr(number)
        return text if number >= 0 else f"({text})"

    def size(self, text: str) -> str:
        return text.replace("//", "/")

    def declared(self, kind: Kind, name: str, text: str, *, fixed: bool) -> str:
        return f"{'const ' if fixed else ''}{_TYPES[kind]} {name} = {text};"

    def counted(self, axis: str, begin: str, end: str, step: str) -> str:
        return f"for (long {axis} = {begin}; {axis} < {end}; {axis} += {step}) {{"

    def chosen(self, condition: str, value: str, other: str) -> str:
        return f"({condition} ? {value} : {other})"

    def cast(self, text: str, kind: Kind, to: Kind) -> str:
        if kind == to:
            return text
        if to == "bool":
            return f"({text} != 0)"
        if to == "int64" and kind.startswith("float"):
            return f"convert_long_rtz({text})"
        return f"(({_TYPES[to]})({text}))"

    def call(self, name: str, *args: str) -> str:
        name = _NAMES.get(name, name)
        return f"{name if name in _OWN or name in _NAMES.values() else f'kw_{name}'}({', '.join(args)})"

    def load(self, buffer: Buffer, at: str) -> str:
        match buffer.dtype:
            case "float16":
                return f"vload_half({at}, {buffer.name})"
            case "bfloat16":
                return f"kw_wide({buffer.name}[{at}])"
            case "int32" | "int16" | "int8" | "uint8":
                return f"((long){buffer.name}[{at}])"
            case "bool":
                return f"({buffer.name}[{at}] != 0)"
            case _:
                return f"{buffer.name}[{at}]"

    def store(self, buffer: Buffer, at: str, value: str, kind: Kind) -> str:
        match buffer.dtype:
            case "float16":
                return f"vstore_half_rte((float)({value}), {at}, {buffer.name});"
            case "bfloat16":
                return f"{buffer.name}[{at}] = kw_narrow((float)({value}));"
            case "bool":
                return f"{buffer.name}[{at}] = ({value} != 0);"
            case dtype:
                wanted = "float64" if dtype == "float64" else "float32" if dtype == "float32" else "int64"
                return f"{buffer.name}[{at}] = ({STORED[dtype]}){self.cast(value, kind, wanted)};"

    def shared(self, kind: Kind, name: str) -> str:
        return f"__local {_TYPES[kind]} {name}[{self.items}];"

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE);"
