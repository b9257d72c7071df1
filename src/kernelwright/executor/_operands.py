"""Tokens → operands: registers, constants, addresses, vectors, arguments of calls."""

import re
import struct
from collections.abc import Callable
from typing import Final

from ._errors import PtxError
from ._ir import (
    Address,
    Arguments,
    Immediate,
    Operand,
    Pair,
    Part,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)  # fmt: skip
from ._lexer import Token

_PART: Final = re.compile("[bh][0-7]{1,4}")
"""What chooses bytes or halves of a register."""


class Cursor:
    """Walks over tokens."""

    def __init__(self, items: list[Token]) -> None:
        self._items = items
        self._at = 0

    @property
    def line(self) -> int:
        """Return the line of the next token."""
        return self._items[min(self._at, len(self._items) - 1)].line if self._items else 1

    def peek(self, ahead: int = 0) -> str:
        """Return the text of a coming token, empty at the end."""
        at = self._at + ahead
        return self._items[at].text if at < len(self._items) else ""

    def kind(self, ahead: int = 0) -> str:
        """Return the kind of a coming token, empty at the end."""
        at = self._at + ahead
        return self._items[at].kind if at < len(self._items) else ""

    def take(self, expected: str | None = None) -> str:
        """Return the next token's text and move on.

        Raises:
            PtxError: where the text ends or is another than expected.
        """
        if self._at >= len(self._items):
            raise PtxError(f"line {self.line}: the PTX ends where {expected or 'more'!r} was expected")
        token = self._items[self._at]
        if expected is not None and token.text != expected:
            raise PtxError(f"line {token.line}: {token.text!r} stands where {expected!r} was expected")
        self._at += 1
        return token.text

    def whole(self, most: int) -> int:
        """Return the next token, a whole number of at most `most`, and move on.

        Raises:
            PtxError: where it is something else.
        """
        line, text = self.line, self.take()
        if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
            raise PtxError(f"line {line}: {text!r} stands where a number of at most {most} was expected")
        return int(text)

    def accept(self, text: str) -> bool:
        """Move over the next token if it is this one."""
        if self.peek() != text:
            return False
        self._at += 1
        return True


def constant(text: str, line: int) -> Immediate:
    """Read a literal.

    Example:
        >>> constant("0f3F800000", 1), constant("0x10", 1).value
        (Immediate(value=1065353216, float_bytes=4), 16)
    """
    if text[:2] in {"0f", "0F"}:
        return Immediate(int(text[2:], 16), 4)
    if text[:2] in {"0d", "0D"}:
        return Immediate(int(text[2:], 16), 8)
    try:
        if "." in text:
            return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 8)
        text = text.rstrip("U")
        if text[:2].lower() not in {"0x", "0b"} and len(text) > 1 and text[0] == "0":
            return Immediate(int(text, 8))
        return Immediate(int(text, 0))
    except ValueError:
        raise PtxError(f"line {line}: {text!r} is no constant") from None


def signed_constant(cursor: Cursor) -> Immediate:
    """Read a constant with its sign, or a sum of such in parentheses."""
    if cursor.accept("("):
        value = signed_constant(cursor)
        while cursor.peek() in {"+", "-", "*"}:
            sign, other = cursor.take(), signed_constant(cursor)
            a, b = value.value, other.value
            value = Immediate(a + b if sign == "+" else a - b if sign == "-" else a * b)
        cursor.take(")")
        return value
    if cursor.accept("-"):
        value = signed_constant(cursor)
        if value.float_bytes:
            return Immediate(value.value ^ (1 << (8 * value.float_bytes - 1)), value.float_bytes)
        return Immediate(-value.value)
    if cursor.accept("~"):
        return Immediate(~signed_constant(cursor).value)
    return constant(cursor.take(), cursor.line)


class Operands:
    """Reads operands; `lookup` turns a name into the function's register, or nothing."""

    def __init__(self, cursor: Cursor, lookup: Callable[[str], str | None]) -> None:
        self._cursor = cursor
        self._lookup = lookup

    def all(self) -> tuple[Operand, ...]:
        """Read operands up to the semicolon."""
        found: list[Operand] = []
        while self._cursor.peek() != ";":
            found.append(self.one())
            if not self._cursor.accept(","):
                break
        self._cursor.take(";")
        return tuple(found)

    def one(self) -> Operand:
        """Read one operand, `a|b` included."""
        first = self._single()
        if self._cursor.accept("|"):
            return Pair(first, self._single())
        return first

    def _single(self) -> Operand:
        cursor = self._cursor
        match cursor.peek():
            case "[":
                return self._address()
            case "{":
                return Vector(self._list("{", "}"))
            case "(":
                return Arguments(self._list("(", ")"))
            case "!":
                cursor.take()
                inner = self._single()
                if not isinstance(inner, Register):
                    raise PtxError(f"line {cursor.line}: '!' stands before something that is no predicate")
                return Register(inner.name, negated=True)
            case "-" if cursor.kind(1) == "name":
                cursor.take()
                return self._negative()
            case "-" | "~":
                return signed_constant(cursor)
        if cursor.kind() == "number":
            return constant(cursor.take(), cursor.line)
        return self._name()

    def _name(self) -> Operand:
        cursor = self._cursor
        if not cursor.kind():
            cursor.take("an operand")
        if cursor.kind() != "name":
            raise PtxError(f"line {cursor.line}: {cursor.peek()!r} stands where an operand was expected")
        name = cursor.take()
        if name == "_":
            return Sink()
        if name == "WARP_SZ":
            return Immediate(32)
        if (register := self._lookup(name)) is not None:
            return Register(register)
        whole, _, part = name.rpartition(".")
        if _PART.fullmatch(part) and (register := self._lookup(whole)) is not None:
            return Part(Register(register), part)
        if name.startswith("%"):
            return Special(name)
        return Symbol(name, self._offset())

    def _negative(self) -> Part:
        inner = self._name()
        match inner:
            case Register():
                return Part(inner, negative=True)
            case Part(register=register, chosen=chosen):
                return Part(register, chosen, negative=True)
        raise PtxError(f"line {self._cursor.line}: '-' stands before something that is no register")

    def _offset(self) -> int:
        total = 0
        while self._cursor.peek() in {"+", "-"}:
            negative = self._cursor.take() == "-"
            value = signed_constant(self._cursor).value
            total += -value if negative else value
        return total

    def _address(self) -> Address:
        cursor = self._cursor
        cursor.take("[")
        base: Register | Symbol | None = None
        offset = 0
        if cursor.kind() == "number" or cursor.peek() == "-":
            offset = signed_constant(cursor).value
        else:
            inner = self._name()
            if not isinstance(inner, Register | Symbol):
                raise PtxError(f"line {cursor.line}: {inner} is no address")
            base = inner
            if isinstance(inner, Register):
                offset = self._offset()
        coordinates: tuple[Operand, ...] = ()
        if cursor.accept(","):
            coordinates = tuple(self._list("{", "}"))
        cursor.take("]")
        return Address(base, offset, coordinates)

    def _list(self, opening: str, closing: str) -> tuple[Operand, ...]:
        cursor = self._cursor
        cursor.take(opening)
        items: list[Operand] = []
        while cursor.peek() != closing:
            items.append(self._single())
            if not cursor.accept(","):
                break
        cursor.take(closing)
        return tuple(items)
