"""Expressions over a row: chunks of lanes, unrolled or not."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..expression import Expr
from ._writer import Writer

ADVANCING = {"full", "row", "shift"}
"""Readings that move along the columns."""


@dataclass
class Cursor:
    """Where the row of an array is in the scratchpad; readings of the same row share it."""

    pointer: int
    """The scalar register that moves along the columns; -1 where every reading is of one word."""
    start: int
    """The scalar register with the row's start, or that address itself if `fixed`."""
    fixed: bool
    """Whether `start` is an address."""


class RowPrinter:
    """Prints expressions for chunks of a row."""

    def __init__(
        self,
        w: Writer,
        cursors: dict[Expr, Cursor],
        sizes: Callable[[str], int],
        row: int,
        one: int,
        hoist: bool,
    ) -> None:
        self.w = w
        self._cursors, self._sizes, self._row, self._one = cursors, sizes, row, one
        self._hoist = hoist
        self._kept: dict[Expr, int] = {}
        self._loaded: dict[Expr, list[int]] = {}
        self._done = 0

    def begin(self, expr: Expr) -> None:
        """Set pointers to the start of a row, and load what is the same in all its chunks."""
        w = self.w
        for cursor in _each(self._cursors.values()):
            if cursor.pointer >= 0:
                self._set(cursor.pointer, cursor)
        if _has_column(expr):
            self._done = w.li(0)
        if not self._hoist:
            return
        lanes = w.li(w.d.lanes)
        w.op("setvl", a=lanes)
        w.give("s", lanes)
        for leaf in _constant_leaves(expr):
            if w.left("v") > 6:
                self._kept[leaf] = self._leaf(leaf)

    def end(self, expr: Expr) -> None:
        """Give back what `begin` took."""
        self.w.give("v", *self._kept.values())
        self._kept = {}
        if _has_column(expr):
            self.w.give("s", self._done)

    def load(self, expr: Expr, unroll: int) -> None:
        """Load the next chunks of everything that moves along the row, each once."""
        moving = [leaf for leaf in expr.refs() if leaf.mode in ADVANCING]
        for leaf in moving:
            self._loaded[leaf] = []
        for _ in range(unroll):
            for leaf in moving:
                self._loaded[leaf].append(self._chunk(leaf))
            for cursor in _each(self._cursors[leaf] for leaf in moving):
                self.w.op("addi", d=cursor.pointer, a=cursor.pointer, i=self.w.d.lanes * self.w.d.unit)

    def unload(self) -> None:
        """Give back what `load` took."""
        for registers in self._loaded.values():
            self.w.give("v", *registers)
        self._loaded = {}

    def value(self, expr: Expr, unroll: int) -> list[int]:
        """Print an expression for so many chunks, and return the registers that hold it."""
        w = self.w
        if expr in self._kept:
            return [self._kept[expr]] * unroll
        if expr in self._loaded:
            return self._loaded[expr]
        if not expr.args:
            if expr.op == "col":
                return [self._columns(u) for u in range(unroll)]
            return [self._leaf(expr)] * unroll
        parts = [self.value(a, unroll) for a in expr.args]
        found = []
        for u in range(unroll):
            d = w.take("v")
            if len(parts) == 1:
                w.op(f"v{expr.op}", d=d, a=parts[0][u])
            else:
                w.binary(expr.op, d, parts[0][u], parts[1][u])
            found.append(d)
        for part in parts:
            self.free(part)
        return found

    def free(self, registers: list[int]) -> None:
        """Give back the registers of a value, but none that is kept or loaded."""
        held = {*self._kept.values(), *(r for registers in self._loaded.values() for r in registers)}
        self.w.give("v", *(set(registers) - held))

    def advance(self, expr: Expr, chunks: int) -> None:
        """Count the columns that are done."""
        if _has_column(expr):
            self.w.op("addi", d=self._done, a=self._done, i=chunks * self.w.d.lanes)

    def address(self, register: int, expr: Expr) -> None:
        """Print the address of an operand that is one word for each row."""
        self._set(register, self._cursors[expr])

    def _chunk(self, expr: Expr) -> int:
        w, cursor = self.w, self._cursors[expr]
        d = w.take("v")
        if expr.mode != "shift":
            w.op("vld", d=d, a=cursor.pointer)
            return d
        with w.registers("s", 1) as (at,):
            w.move(at, cursor.pointer, int(expr.number) * w.d.unit)
            w.op("vlds", d=d, a=at, s=self._one)
        return d

    def _set(self, register: int, cursor: Cursor, more: int = 0) -> None:
        if cursor.fixed:
            self.w.op("li", d=register, i=cursor.start + more)
        else:
            self.w.move(register, cursor.start, more)

    def _columns(self, u: int) -> int:
        w = self.w
        with w.registers("v", 1) as (lane,), w.registers("s", 1) as (at,):
            d = w.take("v")
            w.op("viota", d=lane)
            w.move(at, self._done, u * w.d.lanes)
            w.op("vcvt", d=d, a=at)
            w.op("vadd", d=d, a=d, b=lane)
        return d

    def _leaf(self, expr: Expr) -> int:
        w, d = self.w, self.w.take("v")
        match expr.op:
            case "const":
                w.op("vimm", d=d, f=expr.number if math.isfinite(expr.number) else str(expr.number))
            case "size":
                w.op("vcvt", d=d, a=self._sizes(expr.name))
            case "row":
                w.op("vcvt", d=d, a=self._row)
            case _:
                with w.registers("s", 1) as (at,):
                    self._set(at, self._cursors[expr], int(expr.number) * w.d.unit)
                    w.op("vbc", d=d, a=at)
        return d


def _constant_leaves(expr: Expr) -> list[Expr]:
    """Name the leaves that are the same in all chunks of a row."""
    if not expr.args:
        moves = expr.op == "col" or (expr.op == "ref" and expr.mode in {"full", "row", "shift"})
        return [] if moves else [expr]
    return list(dict.fromkeys(leaf for a in expr.args for leaf in _constant_leaves(a)))


def _has_column(expr: Expr) -> bool:
    return expr.op == "col" or any(_has_column(a) for a in expr.args)


def _each(cursors: Iterable[Cursor]) -> list[Cursor]:
    """Return cursors, each once."""
    return list({id(c): c for c in cursors}.values())
