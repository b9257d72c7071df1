"""What a parsed PTX module is made of: declarations, functions, instructions and their operands."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

WIDTHS: Final = {
    "b8": 1, "u8": 1, "s8": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "u16x2": 4, "s16x2": 4, "bf16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8,
    "b128": 16,
}  # fmt: skip
"""Bytes of each type of PTX; `pred` has none."""


@dataclass(frozen=True)
class Register:
    """A register, under the name that is unique within its function; `negated` is `!p`."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Part:
    """Bytes or halves of a register, `%r1.b0`, or its negative, `-%r1`: operands of video instructions alone."""

    register: Register
    chosen: str = ""
    negative: bool = False


@dataclass(frozen=True)
class Immediate:
    """A constant: an integer, or the bits of an `0f` or `0d` literal with its width in bytes."""

    value: int
    float_bytes: int = 0


@dataclass(frozen=True)
class Special:
    """A special register, for example `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """The name of a variable, function or label, and an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """`[base + offset]`; the base is a register, a variable or nothing. `coordinates` are a tensor map's."""

    base: "Register | Symbol | None"
    offset: int = 0
    coordinates: tuple["Operand", ...] = ()


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`; `None` is the sink `_`."""

    items: tuple["Operand", ...]


@dataclass(frozen=True)
class Pair:
    """`a|b`: two destinations."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True)
class Sink:
    """`_`: a result that nobody wants."""


@dataclass(frozen=True)
class Arguments:
    """`(a, b, ...)` of a call."""

    items: tuple["Operand", ...]


Operand = Register | Part | Immediate | Special | Symbol | Address | Vector | Pair | Sink | Arguments


@dataclass(frozen=True)
class Source:
    """A place in the source that the compiler read: file, line, column."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Instruction:
    """One instruction: `@guard opcode.modifiers operands`, and where it stands."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    line: int
    source: Source | None = None

    @property
    def name(self) -> str:
        """Return opcode and modifiers as they are written."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True)
class Label:
    """A place to branch to."""

    name: str


@dataclass(frozen=True)
class Variable:
    """A variable of a state space: type of an element, bytes in all, alignment, first contents."""

    name: str
    space: str
    type: str
    size: int
    align: int
    contents: tuple["int | Symbol", ...] = ()
    """Bytes, or a symbol whose address takes eight bytes."""
    dynamic: bool = False
    """Whether the size comes with the launch (`[]`)."""


@dataclass
class Function:
    """A `.func` or `.entry`: parameters, registers, variables, statements in order."""

    name: str
    is_entry: bool
    parameters: list[Variable]
    results: list[Variable]
    line: int
    registers: dict[str, str] = field(default_factory=dict)
    """Type of each register."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Variables of its `.param`, `.local` and `.shared` declarations."""
    body: list[Instruction | Label] = field(default_factory=list)
    tables: dict[str, list[str]] = field(default_factory=dict)
    """Labels that each `.branchtargets` lists."""
    defined: bool = False
    required_threads: tuple[int, ...] = ()
    """`.reqntid`: the block that the kernel must be launched with; empty for any."""
    most_threads: int = 0
    """`.maxntid`: the most threads of a block; 0 for any."""
    required_cluster: tuple[int, ...] = ()
    """`.reqnctapercluster`: the blocks of a cluster; empty for any."""


@dataclass
class ParsedModule:
    """A whole PTX file."""

    version: str = ""
    target: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    text: str = ""


def registers_in(operand: Operand | None) -> Iterator[Register]:
    """Yield every register that an operand names."""
    match operand:
        case Register():
            yield operand
        case Part(register=register):
            yield register
        case Address(base=base, coordinates=coordinates):
            yield from registers_in(base)
            for item in coordinates:
                yield from registers_in(item)
        case Vector(items=items) | Arguments(items=items):
            for item in items:
                yield from registers_in(item)
        case Pair(first=first, second=second):
            yield from registers_in(first)
            yield from registers_in(second)
        case _:
            return
