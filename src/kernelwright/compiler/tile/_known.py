"""Kernel → the same kernel with an extra version for one known size, so that loop bounds are constants."""

import re
from collections.abc import Mapping
from dataclasses import replace

from ..graph import text_of
from ._expression import Arith, Expression, Extent, Literal, Load, number, walk
from ._program import Kernel, Loop, Program, Store, expressions, statements

LANES = 16
"""Of the widest vectors."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_PRODUCT = re.compile(r"\w+( \* \w+)*")


def sizes_of(program: Program, kernel: Kernel) -> dict[str, int]:
    """Return the sizes, by symbol, that the loops and places of a kernel depend on, on the first workload."""
    shapes = {b.name: b.shape for b in program.buffers}
    texts: dict[str, None] = {}
    for s in statements(kernel.body):
        touched = [s.buffer] if isinstance(s, Store) else []
        for e in (e for x in expressions(s) for e in walk(x)):
            if isinstance(e, Extent):
                texts[text_of(e.size)] = None
            elif isinstance(e, Load):
                touched.append(e.buffer)
        texts |= dict.fromkeys(text_of(size) for name in touched for size in shapes[name][1:])
    used = {name for text in texts for name in _NAME.findall(text)}
    given = {b.position: b.shape for b in program.buffers if b.role == "argument"}
    return {name: int(given[p][d]) for name, (p, d) in program.symbols.items() if name in used}


def specialised(program: Program, kernel: Kernel, symbol: str) -> Program:
    """Return the program with an extra version of a kernel for the first workload's size."""
    new = replace(kernel, known=(*kernel.known, (symbol, sizes_of(program, kernel)[symbol])))
    return replace(program, steps=tuple(new if step is kernel else step for step in program.steps))


def wholly(program: Program, kernel: Kernel, symbol: str) -> Program:
    """Return the program with an extra version of a kernel for multiples of `LANES`."""
    new = replace(kernel, whole=(*kernel.whole, symbol))
    return replace(program, steps=tuple(new if step is kernel else step for step in program.steps))


def factors_of(loop: Loop) -> frozenset[str]:
    """Name the sizes such that if one is a multiple of `LANES` the loop has no tail.

    Covers: loops over a size or a product of sizes, and blocks of them.
    Does not cover: loops over sums of sizes, such as those of convolutions.
    """
    end: Expression = loop.end
    match loop.begin, end:
        case Arith("*", _, Literal(size)), Arith("min", Arith("+", _, Literal(block)), last):
            if int(size) % LANES or int(block) % LANES:
                return frozenset()
            end = last
        case begin, _ if begin != number(0):
            return frozenset()
    text = text_of(end.size) if isinstance(end, Extent) else ""
    return frozenset(_NAME.findall(text)) if _PRODUCT.fullmatch(text) else frozenset()


def is_known(size: int, known: Mapping[str, int]) -> bool:
    """Whether a size is constant if these symbols are.

    Example:
        >>> from kernelwright.compiler.graph import Size
        >>> rows = Size("rows", (8, 3))
        >>> is_known(rows * 2, {}), is_known(rows * 2, {"rows": 8}), is_known(5, {})
        (False, True, True)
    """
    return all(name in known for name in _NAME.findall(text_of(size)))
