"""Maps and reductions: a loop over rows, in it a loop over chunks."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..expression import Expr, Map, Reduce
from ._places import Places
from ._vectors import ADVANCING, Cursor, RowPrinter
from ._writer import Writer


@dataclass
class _Operand:
    """An array that rows come from or go to."""

    pointer: int
    """The register with the place of its row: in the scratchpad if resident, else in memory."""
    step: int
    """The register with how far that moves from row to row."""
    buffer: int = 0
    """Where its row is in the scratchpad if it is not resident, in address units."""
    words: int = 0
    """The register with the number of words that come for each row."""
    taken: list[int] = field(default_factory=list)
    """Registers to give back."""


def print_map(w: Writer, places: Places, s: Map, unroll: int) -> None:
    """Print `out[r, c] = expr`."""
    out = places.arrays[s.out]
    target = Expr("ref", name=s.out, mode="full", number=-1.0)
    cursors, operands = _operands(w, places, (*s.expr.refs(), target))
    with w.count(places.size(out.rows)) as row:
        _bring(w, places, operands[:-1])
        printer = RowPrinter(w, cursors, places.size, row, places.one, hoist=unroll > 0)
        printer.begin(s.expr)
        at = cursors[target].pointer

        def chunk(count: int) -> None:
            printer.load(s.expr, count)
            values = printer.value(s.expr, count)
            for value in values:
                w.op("vst", x=value, a=at)
                w.op("addi", d=at, a=at, i=w.d.lanes * w.d.unit)
            printer.free(values)
            printer.unload()
            printer.advance(s.expr, count)

        _chunks(w, places.size(out.cols), unroll, chunk, chunk)
        printer.end(s.expr)
        _send(w, places, operands[-1])
        _next_row(w, operands)
    _give(w, cursors, operands)


def print_reduce(w: Writer, places: Places, s: Reduce, unroll: int) -> None:
    """Print `out[0, r] = op over c of expr`."""
    over = places.arrays[s.over]
    target = Expr("ref", name=s.out, mode="col", number=-1.0)
    cursors, operands = _operands(w, places, (*s.expr.refs(), target))
    reducing = "vrsum" if s.op == "add" else "vrmax"
    with w.count(places.size(over.rows)) as row:
        _bring(w, places, operands[:-1])
        printer = RowPrinter(w, cursors, places.size, row, places.one, hoist=unroll > 0)
        printer.begin(s.expr)
        with w.registers("v", 2 + unroll) as (total, part, *sums):
            w.op("setvl", a=places.count)
            w.op("vimm", d=total, f="0.0" if s.op == "add" else str(-math.inf))

            def fold(register: int) -> None:
                """Reduce a register and add it to the total, which is one lane."""
                w.op(reducing, d=part, a=register)
                w.op("setvl", a=places.count)
                w.binary(s.op, total, total, part)

            def main(count: int) -> None:
                printer.load(s.expr, count)
                values = printer.value(s.expr, count)
                for number, value in zip(sums, values, strict=True):
                    w.binary(s.op, number, number, value)
                printer.free(values)
                printer.unload()
                printer.advance(s.expr, count)

            def rest(count: int) -> None:
                printer.load(s.expr, count)
                (value,) = printer.value(s.expr, count)
                fold(value)
                printer.free([value])
                printer.unload()
                printer.advance(s.expr, count)

            _prepare_sums(w, sums, s.op)
            _chunks(w, places.size(over.cols), unroll, main, rest)
            if sums:
                lanes = w.li(w.d.lanes)
                w.op("setvl", a=lanes)
                w.give("s", lanes)
                for other in sums[1:]:
                    w.binary(s.op, sums[0], sums[0], other)
                fold(sums[0])
            with w.registers("s", 1) as (at,):
                printer.address(at, target)
                w.op("vst1", x=total, a=at)
        printer.end(s.expr)
        _send(w, places, operands[-1])
        _next_row(w, operands)
    _give(w, cursors, operands)


def _prepare_sums(w: Writer, sums: list[int], op: str) -> None:
    if sums:
        lanes = w.li(w.d.lanes)
        w.op("setvl", a=lanes)
        w.give("s", lanes)
        for number in sums:
            w.op("vimm", d=number, f="0.0" if op == "add" else str(-math.inf))


def _chunks(
    w: Writer, columns: int, unroll: int, main: Callable[[int], None], rest: Callable[[int], None]
) -> None:
    """Loop over the columns: so many whole chunks at a time, then what is left chunk by chunk."""
    left, end = w.take("s"), w.label()
    w.move(left, columns)
    if unroll:
        step, tail, top = w.li(unroll * w.d.lanes), w.label(), w.label()
        w.op("blt", a=left, b=step, l=tail)
        w.op("setvl", a=step)
        w.place(top)
        main(unroll)
        w.minus(left, left, step)
        w.op("bge", a=left, b=step, l=top)
        w.place(tail)
        w.op("li", d=step, i=1)
        w.op("blt", a=left, b=step, l=end)
        w.give("s", step)
    zero, top = w.li(0), w.label()
    w.place(top)
    w.op("setvl", a=left)
    rest(1)
    w.op("addi", d=left, a=left, i=-w.d.lanes)
    w.op("blt", a=zero, b=left, l=top)
    w.place(end)
    w.give("s", zero, left)


def _operands(w: Writer, places: Places, keys: tuple[Expr, ...]) -> tuple[dict[Expr, Cursor], list[_Operand]]:
    """Place the arrays that a statement reads, and last the one that it writes; readings of one row share a place."""
    cursors: dict[Expr, Cursor] = {}
    operands: dict[tuple[str, str], _Operand] = {}
    shared: dict[tuple[str, str], Cursor] = {}
    for key in keys:
        group = (key.name if key.number >= 0 else "", {"shift": "full"}.get(key.mode, key.mode))
        if group not in shared:
            operands[group] = _place(w, places, key, len(operands))
            pointer = w.take("s") if key.mode in ADVANCING else -1
            o = operands[group]
            shared[group] = Cursor(pointer, o.pointer if places.resident else o.buffer, not places.resident)
        cursors[key] = shared[group]
    return cursors, list(operands.values())


def _place(w: Writer, places: Places, key: Expr, number: int) -> _Operand:
    array = places.arrays[key.name]
    moves = key.mode in {"full", "shift"} and array.rows != 1
    if places.resident:
        at = w.li(places.start(key.name) * w.d.unit)
        step = places.stride(w, key.name) if moves else _step(places, key)
        return _Operand(at, step, taken=[at, *([step] if moves else [])])
    at = places.address(w, key.name)
    step = w.scaled(places.size(array.cols)) if moves else _step(places, key)
    buffer = places.buffer(f"row {number}", places.largest(array.cols)) * w.d.unit
    words = places.count if key.mode == "col" else places.size(array.cols)
    return _Operand(at, step, buffer, words, [at, *([step] if moves else [])])


def _step(places: Places, key: Expr) -> int:
    return places.one if key.mode == "col" else places.zero


def _bring(w: Writer, places: Places, operands: list[_Operand]) -> None:
    """Start a row's transfers, and wait for them."""
    if places.resident or not operands:
        return
    with w.registers("s", 1) as (at,):
        for operand in operands:
            w.op("dshape", q=0, a=places.count, b=operand.words)
            w.op("li", d=at, i=operand.buffer)
            w.op("din", q=0, a=at, b=operand.pointer)
    w.wait_all()


def _send(w: Writer, places: Places, operand: _Operand) -> None:
    if places.resident:
        return
    with w.registers("s", 1) as (at,):
        w.op("dshape", q=0, a=places.count, b=operand.words)
        w.op("li", d=at, i=operand.buffer)
        w.op("dout", q=0, a=at, b=operand.pointer)
    w.wait_all()


def _next_row(w: Writer, operands: list[_Operand]) -> None:
    for operand in operands:
        w.op("add", d=operand.pointer, a=operand.pointer, b=operand.step)


def _give(w: Writer, cursors: dict[Expr, Cursor], operands: list[_Operand]) -> None:
    w.give("s", *{c.pointer for c in cursors.values()} - {-1})
    for operand in operands:
        w.give("s", *operand.taken)
