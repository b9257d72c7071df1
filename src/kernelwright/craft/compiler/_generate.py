"""Task → assembly: arrays get places, statements get loops."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import InputError
from .._description import Description
from ..expression import Array, Expr, Gather, Map, MatMul, Reduce, Size, Statement, Transpose, measure
from ._places import Places
from ._rows import print_map, print_reduce
from ._tiles import print_gather, print_matmul, print_transpose
from ._writer import Writer


@dataclass(frozen=True)
class Plan:
    """How a program is made."""

    resident: bool = False
    """Whether every array stays in the scratchpad, or rows come and go one by one."""
    tiles: bool = False
    """Whether products and transposes use tile registers; arrays must be resident."""
    unroll: int = 0
    """Chunks of a row at a time in the main loop; 0 for one loop that takes any chunk."""

    def __str__(self) -> str:
        words = ["resident" if self.resident else "row by row", "tiles" if self.tiles else "no tiles"]
        return ", ".join([*words, f"unrolled by {self.unroll}" if self.unroll else "not unrolled"])


def plans() -> Iterable[Plan]:
    """Return every plan, the naive one first."""
    return (
        Plan(), Plan(resident=True), *(Plan(resident=True, unroll=u) for u in (1, 2, 4)),
        *(Plan(resident=True, tiles=True, unroll=u) for u in (1, 2, 4)),
    )  # fmt: skip


def compile_task(
    statements: Sequence[Statement],
    arrays: Sequence[Array],
    most: Mapping[str, int],
    description: Description,
    plan: Plan = Plan(),
) -> str:
    """Compile statements to assembly.

    Args:
        statements: What to do, in order.
        arrays: Every array; addresses of inputs and outputs come in this order, then the workspace, then the sizes.
        most: The largest value of every size, in the order in which the program receives them.
        description: The instruction set.
        plan: How.

    Returns:
        The program's text.

    Raises:
        InputError: the arrays do not fit into the scratchpad under this plan, or there are too few registers.
    """
    places = Places(arrays, most, description, resident=plan.resident)
    w = Writer(description, places.arguments)
    w.note(f"made by the compiler: {plan}")
    places.begin(w)
    for statement in statements:
        w.note(_say(statement))
        match statement:
            case Map():
                print_map(w, places, statement, plan.unroll)
            case Reduce():
                print_reduce(w, places, statement, plan.unroll)
            case MatMul():
                print_matmul(w, places, statement, tiles=plan.tiles)
            case Transpose():
                print_transpose(w, places, statement, tiles=plan.tiles)
            case Gather():
                print_gather(w, places, statement)
    places.end(w)
    w.op("halt")
    return w.text()


def _say(s: Statement) -> str:
    match s:
        case Map():
            return (
                f"{s.out}[r, c] from {', '.join(dict.fromkeys(r.name for r in s.expr.refs())) or 'nothing'}"
            )
        case Reduce():
            return f"{s.out}[r]: {s.op} over the row"
        case MatMul():
            return f"{s.out} = {s.a} times {s.b}{' transposed' * s.transposed}"
        case Transpose():
            return f"{s.out} = {s.a} transposed"
        case Gather():
            return f"{s.out}[r] = {s.table}[{s.index}[r]]"


__all__ = ["Expr", "InputError", "Plan", "Size", "compile_task", "measure", "plans"]
