"""WGSL dialect of work-group kernels.

Source of the reserved words: W3C, WebGPU Shading Language, keyword and reserved word summary.
"""

import math

from ...graph import Number, Size, text_of
from ...groups import Dialect
from ...tile import Buffer, Kind
from .. import Unprintable

_TYPES = {"float32": "f32", "float64": "f32", "int64": "i32", "bool": "bool"}
HELD = {
    "float32": "f32", "float16": "f32", "bfloat16": "f32", "int64": "i32", "int32": "i32", "bool": "i32",
}  # fmt: skip
"""Types in memory, by dtype; tensors are converted when copied."""
_OWN = frozenset(
    {"floor", "ceil", "trunc", "round", "sqrt", "atan", "asin", "acos", "cos", "sin", "tan", "abs", "atan2"}
)
"""Functions of WGSL that are accurate enough; the rest are `kw_` functions (`_functions.py`)."""

TAKEN = _OWN | {
    "alias", "alignas", "alignof", "array", "asm", "async", "attribute", "auto", "await", "become", "bool",
    "break", "case", "cast", "catch", "clamp", "class", "co_await", "common", "compile", "const",
    "const_assert", "constexpr", "continue", "continuing", "cosh", "crate", "cross", "debugger", "decltype",
    "default", "delete", "demote", "diagnostic", "discard", "do", "dot", "else", "enable", "enum", "exp",
    "explicit", "export", "extends", "extern", "external", "f16", "f32", "fallthrough", "false", "filter",
    "final", "finally", "fma", "fn", "for", "friend", "from", "get", "goto", "group", "half_way", "highp",
    "i32", "if", "impl", "implements", "import", "index", "inline", "instanceof", "interface", "item",
    "layout", "length", "let", "log", "loop", "lowp", "macro", "match", "max", "mediump", "meta", "min",
    "mix", "mod", "module", "move", "mut", "mutable", "namespace", "new", "nil", "noexcept", "noinline",
    "normalize", "null", "nullptr", "of", "operator", "override", "package", "patch", "pixelfragment",
    "place", "pow", "precise", "precision", "premerge", "priv", "private", "protected", "pub", "public",
    "readonly", "ref", "register", "requires", "resource", "restrict", "return", "round", "select", "self",
    "set", "shared", "sign", "sinh", "sizeof", "smooth", "snorm", "static", "std", "step", "storage",
    "struct", "subroutine", "super", "switch", "tanh", "target", "template", "this", "throw", "trait", "true",
    "try", "type", "typedef", "typeof", "u32", "uniform", "union", "unless", "unorm", "unsafe", "use",
    "using", "var", "varying", "virtual", "volatile", "wgsl", "where", "while", "with", "workgroup",
    "writeonly", "yield",
}  # fmt: skip
"""Names that a program must not use: WGSL's keywords, functions that the text calls, its own names."""


class Wgsl(Dialect):
    """The dialect."""

    items = 64

    def type(self, kind: Kind) -> str:
        return _TYPES[kind]

    def number(self, value: Number, kind: Kind) -> str:
        if isinstance(value, Size):
            return f"{_TYPES[kind]}({self.size(text_of(value))})"
        if kind == "bool":
            return "true" if value else "false"
        if kind == "int64":
            if isinstance(value, float) and math.isinf(value):
                return "2147483647" if value > 0 else "(-2147483647)"
            if not -(1 << 31) < int(value) < 1 << 31:
                raise Unprintable(f"{value} does not fit 32 bits")
            return str(int(value)) if value >= 0 else f"({int(value)})"
        number = float(value)
        if math.isnan(number):
            return "kw_bits(0x7fc00000u)"
        if math.isinf(number) or abs(number) > 3.4028234e38:
            return f"kw_bits({'0x7f800000u' if number > 0 else '0xff800000u'})"
        return f"{number!r}f" if number >= 0 else f"({number!r}f)"

    def size(self, text: str) -> str:
        return text.replace("//", "/")

    def declared(self, kind: Kind, name: str, text: str, *, fixed: bool) -> str:
        return f"{'let' if fixed else 'var'} {name}: {_TYPES[kind]} = {text};"

    def counted(self, axis: str, begin: str, end: str, step: str) -> str:
        return f"for (var {axis}: i32 = {begin}; {axis} < {end}; {axis} += {step}) {{"

    def chosen(self, condition: str, value: str, other: str) -> str:
        return f"select({other}, {value}, {condition})"

    def cast(self, text: str, kind: Kind, to: Kind) -> str:
        if _TYPES[kind] == _TYPES[to]:
            return text
        if to == "bool":
            return f"({text} != {self.number(0, kind)})"
        return f"{_TYPES[to]}({text})"

    def call(self, name: str, *args: str) -> str:
        name = "abs" if name == "fabs" else name
        return f"{name if name in _OWN else f'kw_{name}'}({', '.join(args)})"

    def load(self, buffer: Buffer, at: str) -> str:
        text = f"{buffer.name}[{at}]"
        return f"({text} != 0)" if buffer.dtype == "bool" else text

    def store(self, buffer: Buffer, at: str, value: str, kind: Kind) -> str:
        if buffer.dtype == "bool":
            value, kind = self.cast(value, kind, "bool"), "bool"
        return f"{buffer.name}[{at}] = {self.cast(value, kind, 'float32' if HELD[buffer.dtype] == 'f32' else 'int64')};"

    def shared(self, kind: Kind, name: str) -> str:
        return f"var<workgroup> {name}: array<{_TYPES[kind]}, {self.items}>;"

    def barrier(self) -> str:
        return "workgroupBarrier();"
