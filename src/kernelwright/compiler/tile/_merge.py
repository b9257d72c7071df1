"""Contraction → Contraction with fewer axes: neighbouring axes that are contiguous in every buffer become one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..graph import same
from ._expression import (
    Arith,
    Expression,
    Extent,
    Literal,
    Load,
    number,
    offset,
    positions,
    stride,
    substitute,
    walk,
)  # fmt: skip
from ._parts import Axis
from ._program import Contraction, Let, Store, factors, factors_mapped, renamed


def merged(contraction: Contraction, shapes: Mapping[str, tuple[int, ...]]) -> Contraction:
    """Merge neighbouring axes of a role if no load, store or condition distinguishes them.

    Every index becomes the element's offset in its buffer, in the last dimension. The axes of a convolution that reads
    its image stay apart.

    Args:
        contraction: What to simplify.
        shapes: Buffer → shape.

    Example:
        A product of `(batch, seq, k)` and `(k, n)` has the rows `batch` and `seq`; they become one axis.
    """
    c = _mapped(contraction, lambda e: _flat(e, shapes))
    if c.image is not None:
        return c
    c, batch = _joined(c, c.batch)
    c, rows = _joined(c, c.rows)
    c, columns = _joined(c, c.columns)
    c, inner = _joined(c, c.inner)
    c = replace(c, batch=batch, rows=rows, columns=columns, inner=inner)
    if c.weights is None:
        return c
    c, depth = _joined(c, c.weights.depth)
    assert c.weights is not None
    return replace(c, weights=replace(c.weights, depth=depth))


def _joined(c: Contraction, axes: tuple[Axis, ...]) -> tuple[Contraction, tuple[Axis, ...]]:
    """Merge the axes of a role; the outer of two is removed, the inner one covers both."""
    left = list(axes)
    for place in range(len(axes) - 2, -1, -1):
        outer, inner = left[place : place + 2]
        if _contiguous(list(_accesses(c)), outer, inner):
            c = _mapped(c, partial(renamed, axes={outer.name: number(0)}))
            left[place : place + 2] = [Axis(inner.name, outer.size * inner.size)]
    return c, tuple(left)


def _flat(e: Expression, shapes: Mapping[str, tuple[int, ...]]) -> Expression:
    def by(part: Expression) -> Expression | None:
        if not isinstance(part, Load):
            return None
        index = tuple(substitute(i, by) for i in part.index)
        return Load(part.buffer, _flat_index(index, shapes[part.buffer]), part.kind)

    return substitute(e, by)


def _flat_index(index: tuple[Expression, ...], shape: tuple[int, ...]) -> tuple[Expression, ...]:
    if not index:
        return ()
    return (*(number(0) for _ in index[1:]), offset(index, shape))


def _mapped(c: Contraction, change: Callable[[Expression], Expression]) -> Contraction:
    epilogue: list[Let | Store] = []
    for s in c.epilogue:
        if isinstance(s, Let):
            epilogue.append(Let(s.name, change(s.value)))
        else:
            at = change(Load(s.buffer, s.index))
            assert isinstance(at, Load)
            epilogue.append(replace(s, index=at.index, value=change(s.value)))
    return replace(factors_mapped(c, change), epilogue=tuple(epilogue))


def _accesses(c: Contraction) -> Iterator[Expression]:
    """Yield what is computed, with every store as the load of its place."""
    yield from factors(c)
    for s in c.epilogue:
        yield s.value
        if isinstance(s, Store):
            yield Load(s.buffer, s.index)


def side_by_side(value: Expression, axes: Sequence[Axis]) -> Expression | None:
    """Return a factor whose last axis runs through all of these; None if it distinguishes them."""
    size = axes[-1].size
    for outer in reversed(axes[:-1]):
        if not _contiguous([value], outer, Axis(axes[-1].name, size)):
            return None
        size = outer.size * size
    return renamed(value, {a.name: number(0) for a in axes[:-1]})


def _contiguous(accesses: Sequence[Expression], outer: Axis, inner: Axis) -> bool:
    """Whether a step of the outer axis is as long as the inner one in every buffer, and nothing else uses them."""
    for access in accesses:
        loads = [e for e in walk(access) if isinstance(e, Load) and e.index]
        steps = [(stride(e.index[-1], outer.name), stride(e.index[-1], inner.name)) for e in loads]
        if not all(_fits(one, two, inner.size) for one, two in steps):
            return False
        rest = substitute(access, lambda e: Literal(0) if isinstance(e, Load) else None)
        if positions(rest) & {outer.name, inner.name}:
            return False
    return True


def _fits(outer: Expression | None, inner: Expression | None, size: int) -> bool:
    one, two = known_size(outer), known_size(inner)
    return one is not None and two is not None and same(one, two * size)


def known_size(e: Expression | None) -> int | None:
    """Return a stride as a size; None if it is not made of sizes."""
    match e:
        case Literal(value):
            return int(value)
        case Extent(size):
            return size
        case Arith(("+" | "-" | "*") as sign, left, right):
            a, b = known_size(left), known_size(right)
            if a is None or b is None:
                return None
            return a * b if sign == "*" else a + b if sign == "+" else a - b
        case _:
            return None
