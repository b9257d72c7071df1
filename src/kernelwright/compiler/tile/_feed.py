"""A kernel and the library product that reads its output → both interleaved, a panel of rows at a time."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ..graph import text_of
from ._expression import Expression, Extent, Load, number, offset, stride, walk
from ._program import Kernel, Loop, NativeCall, Program, Store, expressions, read_by, statements, written
from ._strips import own_elements

_LEFT = {"aten.mm.default": 0, "aten.addmm.default": 1, "aten.bmm.default": 0}
"""Operations that multiply row by row, or item by item → which of the tensors that they read holds the rows."""
_PRODUCT = re.compile(r"\(?(\w+)((?: \* \w+)*)\)?")


def fed_by(program: Program, kernel: Kernel) -> NativeCall | None:
    """Return the one library product that reads what a kernel writes, if both can run row by row.

    Legal if nothing else reads or writes that value, each iteration of the kernel's only outer loop has its own rows
    in every buffer with rows, and nothing else depends on the number of rows.
    """
    names = list(written(kernel))
    if len(names) != 1 or kernel.name in program.ahead or program.buffer(names[0]).role != "temporary":
        return None
    (name,) = names
    readers = [step for step in program.steps if name in read_by(step)]
    call = readers[0] if len(readers) == 1 else None
    if not isinstance(call, NativeCall) or call.fed or not _multiplies_rows_of(program, call, name):
        return None
    return call if _is_row_wise(program, kernel, led_by(program.buffer(name).shape[0])[0]) else None


def fed(program: Program, kernel: Kernel, buffer: str, size_bytes: int) -> Program:
    """Return the program in which a product's rows are computed right before it, at most this many bytes at a time."""
    call = fed_by(program, kernel)
    assert call is not None and buffer in call.reads
    new = replace(call, fed=buffer, panel_bytes=size_bytes)
    return replace(program, steps=tuple(new if step is call else step for step in program.steps))


def led_by(size: int) -> tuple[str, str]:
    """Return the first factor of a size and what it is multiplied by; nothing if the size is no such product.

    Example:
        >>> from kernelwright.compiler.graph import Size
        >>> items, rows = Size("items", (2, 3)), Size("rows", (8, 9))
        >>> led_by(items), led_by(items * rows), led_by(items + rows)
        (('items', ''), ('items', 'rows'), ('', ''))
    """
    found = _PRODUCT.fullmatch(text_of(size))
    return (found[1], found[2].removeprefix(" * ")) if found else ("", "")


def _multiplies_rows_of(program: Program, call: NativeCall, name: str) -> bool:
    """Whether a call multiplies the rows of a buffer, whose number is a size, by what has no such axis.

    The items of a batch are rows here; the other factor has as many. So are items of as many rows each.
    """
    place = _LEFT.get(call.op)
    if place is None or len(call.reads) != place + 2 or call.reads[place] != name:
        return False
    rows, each = led_by(program.buffer(name).shape[0])
    others = [[*map(text_of, program.buffer(read).shape)] for read in call.reads if read != name]
    if call.op == "aten.bmm.default" and (each or [shape.pop(0) for shape in others] != [rows]):
        return False
    return rows in program.symbols and not any(_mentions(text, rows) for shape in others for text in shape)


def _is_row_wise(program: Program, kernel: Kernel, rows: str) -> bool:
    """Whether every iteration of a kernel's only outer loop reads and writes rows of its own."""
    loop = kernel.body[0]
    if len(kernel.body) != 1 or not isinstance(loop, Loop) or loop.ordered or loop.begin != number(0):
        return False
    others = {text_of(e.size) for e in _within(loop) if isinstance(e, Extent)}
    shapes = {b.name: b.shape for b in program.buffers}
    touched = {s.buffer for s in statements(kernel.body) if isinstance(s, Store)}
    loads = [e for e in _within(loop) if isinstance(e, Load)]
    for name in touched | {e.buffer for e in loads}:
        first, *behind = (text_of(size) for size in shapes[name] or (1,))
        others |= set(behind)
        if shapes[name] and led_by(shapes[name][0])[0] == rows:
            if own_elements(kernel, loop, program.buffer(name)) is None:
                return False
        elif any(
            stride(offset(e.index, shapes[name]), loop.axis) != number(0) for e in loads if e.buffer == name
        ):
            return False
        else:
            others.add(first)
    return not any(_mentions(text, rows) for text in others)


def _within(loop: Loop) -> Iterator[Expression]:
    """Yield every expression inside a loop, except its own bounds."""
    return (e for s in statements(loop.body) for x in expressions(s) for e in walk(x))


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
