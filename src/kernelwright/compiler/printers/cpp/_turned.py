"""Tile of rows in lanes → what it reads across them: copied first, turned in registers, square by square."""

from collections.abc import Iterator

from ...tile import (
    Arith,
    Expression,
    Literal,
    Load,
    Loop,
    Position,
    Program,
    Variable,
    expressions,
    number,
    offset,
    positions,
    stride,
    substitute,
    walk,
)  # fmt: skip
from ._ahead import always
from ._loops import factor
from ._scalar import Scalar, Scope, bare

_ALONG = (number(0), number(1), number(-1))
"""Strides of lanes that are loads of vectors already."""
_MOST = 64
"""Elements of a tile's side whose copy stays in the first-level cache with what else the tile reads."""


def copies(scope: Scope, rows: Loop) -> list[str]:
    """Print copies of what a tile's lanes cross; where its loads read them from now on, the scope knows."""
    lines: list[str] = []
    for load, begin, apart in _crossed(scope.program, rows):
        (lanes,) = rows.body
        assert isinstance(lanes, Loop)
        name, side = f"{load.buffer}_turned{len(scope.turned)}", _side_of(rows)
        row, row_end, lane, lane_end, at, step = (
            bare(Scalar(scope).text(e)) for e in (rows.begin, rows.end, lanes.begin, lanes.end, begin, apart)
        )
        sizes = f"{lane_end} - {factor(lane)}, {row_end} - {factor(row)}"
        lines += [
            f"alignas(64) float {name}[{side} * {side}];",
            f"kw::turn({load.buffer} + {at}, {step}, {sizes}, {name}, {side});",
        ]
        place = f"({rows.axis} - {factor(row)}) * {side} + ({lanes.axis} - {factor(lane)})"
        scope.turned[load] = f"kw::load({name} + {place}, lanes)"
    return lines


def _crossed(program: Program, rows: Loop) -> Iterator[tuple[Load, Expression, Expression]]:
    """Yield the loads whose lanes lie apart and whose rows lie side by side, each once, with the place of the tile's
    first element and the elements from lane to lane; conditional ones may not be read ahead.
    """
    if not _side_of(rows):
        return
    (lanes,) = rows.body
    assert isinstance(lanes, Loop)
    begins = {rows.axis: rows.begin, lanes.axis: lanes.begin}
    loads = (e for s in lanes.body for x in expressions(s) for e in always(x) if isinstance(e, Load))
    for load in dict.fromkeys(loads):
        buffer = program.buffer(load.buffer)
        place = offset(load.index, buffer.shape)
        steady = not any(isinstance(e, Variable | Load) for index in load.index for e in walk(index))
        apart = stride(place, lanes.axis) if steady and buffer.dtype == "float32" else None
        fixed = apart is not None and apart not in _ALONG and not positions(apart)
        if apart is not None and fixed and stride(place, rows.axis) == number(1):
            first = substitute(place, lambda e: begins.get(e.axis) if isinstance(e, Position) else None)
            yield load, first, apart


def _side_of(rows: Loop) -> int:
    """Return the side of the tile that a loop around lanes begins; 0 if it is none."""
    inner = rows.body[0] if len(rows.body) == 1 else None
    if not isinstance(inner, Loop) or not inner.vector or any(isinstance(s, Loop) for s in inner.body):
        return 0
    side = _side(rows)
    return side if side == _side(inner) and side <= _MOST else 0


def _side(loop: Loop) -> int:
    """Return the elements of a block, if a loop is over one; 0 if not."""
    match loop.end:
        case Arith("min", Arith("+", begin, Literal(size)), _) if begin == loop.begin:
            return int(size)
        case _:
            return 0
