"""Text → Program: an assembler made from a description, whose errors name the line, and the binary form.

A line is `label:`, an instruction, both, or empty; what follows the comment sign is ignored. An instruction is a
mnemonic and its operands with commas between them.

Binary: 64 bits an instruction: 8 bits opcode, three fields of 8 bits for registers in the order of the text, 32 bits
for a number, a float32 or the place of a label.
"""

import math
import re
import struct
from dataclasses import dataclass

from ..errors import InputError, known_names
from ._description import PREFIXES, Description, Operation
from ._operations import Role

_LABEL = re.compile(r"([A-Za-z_]\w*)\s*:")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_ERRORS = 20
_MOST_TEXT = 1 << 20
_INT_LIMIT = 1 << 31


class AssemblyError(InputError):
    """A text that is no program of the instruction set."""

    def __init__(self, errors: list[tuple[int, str]]) -> None:
        self.errors = tuple(errors)
        """The line, counted from 1, and what is wrong there, for each error."""
        shown = [f"line {line}: {message}" for line, message in errors[:_MOST_ERRORS]]
        more = len(errors) - len(shown)
        super().__init__("; ".join(shown) + (f"; and {more} more" if more > 0 else ""))


@dataclass(frozen=True)
class Instruction:
    """One instruction of a program."""

    operation: Operation
    """What is done."""
    values: dict[str, int | float]
    """Its operands by role: a register's number, a number, or the place of a label."""
    line: int
    """The line of the source, counted from 1."""


@dataclass(frozen=True)
class Program:
    """An assembled program."""

    description: Description
    """Its instruction set."""
    instructions: tuple[Instruction, ...]
    """Its instructions in order."""
    source: tuple[str, ...]
    """The lines of its source."""

    def encode(self) -> bytes:
        """Return the binary form: eight bytes an instruction, the least significant first."""
        return b"".join(_encode(i) for i in self.instructions)


def assemble(text: str, description: Description) -> Program:
    """Assemble a program, and check that it keeps to the limits of the instruction set.

    Raises:
        AssemblyError: every error with its line.

    Example:
        >>> from kernelwright.craft import TESSERA
        >>> assemble("li r1, 2", TESSERA)
        Traceback (most recent call last):
        kernelwright.craft._assembler.AssemblyError: line 1: the program can run past its last instruction; ...
    """
    if len(text) > _MOST_TEXT:
        raise AssemblyError([(1, f"the text has {len(text)} characters; at most {_MOST_TEXT} are read")])
    lines = text.splitlines()
    errors: list[tuple[int, str]] = []
    statements, labels = _split(lines, description, errors)
    found = []
    for line, words in statements:
        try:
            found.append(_instruction(line, words, labels, description))
        except ValueError as error:
            errors.append((line, str(error)))
    errors += [] if errors else _limits(found, description)
    if errors:
        raise AssemblyError(sorted(errors))
    return Program(description, tuple(found), tuple(lines))


def decode(data: bytes, description: Description) -> tuple[tuple[Operation, dict[str, int | float]], ...]:
    """Read the binary form back: each operation with its operands by role."""
    found = []
    for (word,) in struct.iter_unpack("<Q", data):
        operation = description.by_opcode[word >> 56]
        fields = iter((word >> 48 & 255, word >> 40 & 255, word >> 32 & 255))
        number = struct.pack("<I", word & 0xFFFFFFFF)
        values: dict[str, int | float] = {}
        for role in operation.roles:
            if role.cls in PREFIXES:
                values[role.name] = next(fields)
            else:
                values[role.name] = struct.unpack("<f" if role.cls == "float" else "<i", number)[0]
        found.append((operation, values))
    return tuple(found)


def _encode(instruction: Instruction) -> bytes:
    word, shift = instruction.operation.opcode << 56, 48
    for role in instruction.operation.roles:
        value = instruction.values[role.name]
        if role.cls in PREFIXES:
            word |= int(value) << shift
            shift -= 8
        else:
            packed = struct.pack("<f", value) if role.cls == "float" else struct.pack("<i", value)
            word |= struct.unpack("<I", packed)[0]
    return struct.pack("<Q", word)


def _split(
    lines: list[str], description: Description, errors: list[tuple[int, str]]
) -> tuple[list[tuple[int, str]], dict[str, int]]:
    """Part labels from instructions; a label is worth the number of the instruction that follows."""
    statements: list[tuple[int, str]] = []
    labels: dict[str, int] = {}
    for number, full in enumerate(lines, 1):
        rest = full.partition(description.comment)[0].strip()
        while match := _LABEL.match(rest):
            if match[1] in labels:
                errors.append((number, f"label {match[1]!r} is defined twice"))
            labels[match[1]] = len(statements)
            rest = rest[match.end() :].strip()
        if rest:
            statements.append((number, rest))
    return statements, labels


def _instruction(line: int, text: str, labels: dict[str, int], description: Description) -> Instruction:
    name, _, rest = text.partition(" ")
    operation = description.by_name.get(name.strip())
    if operation is None:
        raise ValueError(f"there is no instruction {name[:40]!r}; {_near(name, description)}")
    given = [w.strip() for w in rest.split(",")] if rest.strip() else []
    if len(given) != len(operation.roles):
        expected = ", ".join(r.name for r in operation.roles) or "nothing"
        raise ValueError(f"{name} takes {len(operation.roles)} operands ({expected}), given {len(given)}")
    values = {
        r.name: _operand(r, w, labels, description) for r, w in zip(operation.roles, given, strict=True)
    }
    return Instruction(operation, values, line)


def _near(name: str, description: Description) -> str:
    said = known_names(name, description.by_name)
    return said.partition("?")[0] + "?" if said.startswith("did") else "see the manual"


def _operand(role: Role, word: str, labels: dict[str, int], description: Description) -> int | float:
    shown = word[:40]
    if role.cls in PREFIXES:
        prefix, count = description.registers[role.cls]
        digits = word.removeprefix(prefix)
        if word.startswith(prefix) and digits.isdecimal() and len(digits) < 4 and int(digits) < count:
            return int(digits)
        what = "queue" if role.cls == "q" else f"{PREFIXES[role.cls]} register"
        raise ValueError(
            f"operand {role.name} is {shown!r}; expected a {what}, {prefix}0 to {prefix}{count - 1}"
        )
    if role.cls == "label":
        if word in labels:
            return labels[word]
        known = "" if _NAME.fullmatch(word) else ", which is no name"
        raise ValueError(f"operand {role.name} is {shown!r}{known}; no label is called so")
    if role.cls == "int":
        try:
            value = int(word, 0)
        except ValueError:
            raise ValueError(f"operand {role.name} is {shown!r}; expected a whole number") from None
        if not -_INT_LIMIT <= value < _INT_LIMIT:
            raise ValueError(f"operand {role.name} is {shown}; expected a number of 32 bits")
        return value
    try:
        real = struct.unpack("<f", struct.pack("<f", float(word)))[0]
    except (ValueError, OverflowError):
        raise ValueError(f"operand {role.name} is {shown!r}; expected a float32 such as 0.5") from None
    if math.isnan(real):
        raise ValueError(f"operand {role.name} is {shown!r}; expected a number")
    return float(real)


def _limits(found: list[Instruction], description: Description) -> list[tuple[int, str]]:
    """Check what the whole program must keep to."""
    most = description.most_instructions
    if not found:
        return [(1, "there is no instruction")]
    if len(found) > most:
        return [(found[most].line, f"the program has {len(found)} instructions; at most {most} fit")]
    errors = []
    if found[-1].operation.kind.name not in {"halt", "jmp"}:
        names = " or ".join(description.by_kind[k].name for k in ("halt", "jmp"))
        errors.append((found[-1].line, f"the program can run past its last instruction; end with {names}"))
    for i in found:
        if i.operation.kind.name in {"blt", "bge", "jmp"} and i.values["l"] >= len(found):
            errors.append((i.line, "the label stands behind the last instruction"))
        if i.operation.kind.name == "rup" and i.values["i"] < 1:
            errors.append((i.line, f"operand i is {i.values['i']}; expected at least 1"))
        if i.operation.kind.name == "dwait" and i.values["i"] < 0:
            errors.append((i.line, f"operand i is {i.values['i']}; expected at least 0"))
    return errors
