"""Kernel → Kernel in which a long softmax takes its exponentials block by block, each relative to the block's largest.

Instead of a pass for the largest value and one for the sum of exponentials, a block of the row is read into the
first-level cache, and both are found there. The largest value and the sum of every block are kept; what the row's
are follows from them, and a pass that reads kept exponentials scales each block by one factor:

    exp(x - top) = exp(x - block's top) * exp(block's top - top)

Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018), by blocks instead of by elements.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ._expression import (
    Arith,
    Call,
    Expression,
    Extent,
    Literal,
    Load,
    Position,
    Result,
    Variable,
    number,
    substitute,
    walk,
)  # fmt: skip
from ._program import (
    Begin,
    Buffer,
    Kernel,
    Let,
    Loop,
    Program,
    Row,
    Statement,
    Store,
    Update,
    expressions,
    mapped,
)  # fmt: skip
from ._rows import meaning

_LEAST = 1 << 13
"""Elements of a row from which on blocks pay: shorter ones stay in the first-level cache anyway."""
_INFINITE = float("inf")


@dataclass(frozen=True)
class Passes:
    """The two passes of a softmax over a row, and the later ones that read the exponentials which the second kept."""

    largest: Loop
    total: Loop
    top: str
    """Accumulator of the first pass."""
    sum: Update
    """The one fold of the second."""
    power: Let
    """The exponential, as the second pass names it."""
    value: Expression
    """What is exponentiated, by the second pass's element."""
    kept: Store | None
    """Where the second pass keeps the exponential."""
    later: tuple[Loop, ...]
    """The loops that read it there."""


def rescaled_passes(body: Sequence[Statement], total: Loop) -> Passes | None:
    """Return the passes whose second is `total`, if a block of statements runs them over one long row."""
    loops = [s for s in body if isinstance(s, Loop)]
    if not any(s is total for s in loops) or not _is_row(total):
        return None
    folds = [s for s in total.body if isinstance(s, Update)]
    stores = [s for s in total.body if isinstance(s, Store)]
    if len(folds) != 1 or len(stores) > 1 or not _begins(body, folds[0].name, "sum"):
        return None
    lets = {s.name: s for s in total.body if isinstance(s, Let)}
    power = lets.get(_named(folds[0].value))
    shifted = meaning(total, power.value) if power else None
    match shifted:
        case Call("exp", (Call("sub", (value, Variable(top)), ()),), ()) if value is not None:
            pass
        case _:
            return None
    found = next((s for s in body if isinstance(s, Let) and s.name == top), None)
    if found is None or not isinstance(found.value, Result) or power is None:
        return None
    accumulator = found.value.accumulator
    first = next((s for s in loops if _folds_only(s, accumulator, value)), None)
    if first is None or not _begins(body, accumulator, "max") or not _together(body, first, total):
        return None
    store = stores[0] if stores else None
    if store is not None and (store.value != Variable(power.name) or store.combine or store.stream):
        return None
    later = tuple(s for s in loops if store is not None and _loads(s, store.buffer))
    if any(not _reads_kept(s, total, store) for s in later if store is not None):
        return None
    return Passes(first, total, accumulator, folds[0], power, value, store, later)


def rescaled(program: Program, kernel: Kernel, axis: str, size: int) -> Program:
    """Return the program in which the pass over an axis, and the one before it, run by blocks of `size` elements."""
    taken = {b.name for b in program.buffers}
    made: list[Buffer] = []

    def changed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        for loop in (s for s in body if isinstance(s, Loop)):
            found = rescaled_passes(body, loop) if loop.axis == axis else None
            if found is not None:
                sum_ = next(
                    (t.name for t in body if isinstance(t, Let) and _is_sum(t.value, found.sum.name)), ""
                )
                work = _Blocks(found, sum_, _room(taken, f"{axis}_tops"), _room(taken, f"{axis}_sums"), size)
                made.extend(Buffer(name, "float32", (work.count,), "row") for name in (work.tops, work.sums))
                return tuple(t for s in body for t in work.statement(s))
        return tuple(replace(s, body=changed(s.body)) if isinstance(s, Loop) else s for s in body)

    new = replace(kernel, body=changed(kernel.body))
    steps = tuple(new if s is kernel else s for s in program.steps)
    return replace(program, steps=steps, buffers=(*program.buffers, *made))


# What is recognised ---------------------------------------------------------------------------------------


def _is_row(loop: Loop) -> bool:
    """Whether a loop in lanes runs over a long row, and nothing runs within it."""
    plain = loop.vector and not loop.ordered and not loop.parallel and loop.begin == number(0)
    flat = all(isinstance(s, Let | Store | Update) for s in loop.body)
    return plain and flat and isinstance(loop.end, Extent | Literal) and int(_size(loop)) >= _LEAST


def _size(loop: Loop) -> int:
    assert isinstance(loop.end, Extent | Literal)
    return loop.end.size if isinstance(loop.end, Extent) else int(loop.end.value)


def _begins(body: Sequence[Statement], name: str, monoid: str) -> bool:
    return any(isinstance(s, Begin) and (s.name, s.monoid) == (name, monoid) for s in body)


def _named(value: Expression) -> str:
    """Name the variable that is folded, widened or not."""
    inner = value.args[0] if isinstance(value, Call) and value.op == "cast" else value
    return inner.name if isinstance(inner, Variable) and inner.kind == "float32" else ""


def _folds_only(loop: Loop, accumulator: str, value: Expression) -> bool:
    """Whether a pass does nothing but find the largest of a value."""
    folds = [s for s in loop.body if not isinstance(s, Let)]
    if not _is_row(loop) or len(folds) != 1:
        return False
    (fold,) = folds
    return isinstance(fold, Update) and fold.name == accumulator and meaning(loop, fold.value) == value


def _together(body: Sequence[Statement], first: Loop, total: Loop) -> bool:
    """Whether two passes cover the same row, and the second only needs what is known before the first, and its top."""
    places = {id(s): at for at, s in enumerate(body)}
    start, end = places[id(first)], places[id(total)]
    between = body[start + 1 : end]
    if (first.begin, first.end) != (total.begin, total.end) or any(isinstance(s, Loop) for s in between):
        return False
    fresh = {s.name for s in between if isinstance(s, Let)}
    own = {s.name for s in total.body if isinstance(s, Let)}
    used = {e.name for s in total.body for x in expressions(s) for e in walk(x) if isinstance(e, Variable)}
    needed = (used - own) & fresh
    results = any(isinstance(e, Result) for s in total.body for x in expressions(s) for e in walk(x))
    return start < end and len(needed) == 1 and not results


def _is_sum(value: Expression, accumulator: str) -> bool:
    """Whether a value is what was summed."""
    inner = value.args[0] if isinstance(value, Call) and value.op == "cast" else value
    return isinstance(inner, Result) and inner.accumulator == accumulator


def _loads(loop: Loop, buffer: str) -> bool:
    inner = (t for s in loop.body for t in (s.body if isinstance(s, Loop) else (s,)))
    every = (e for s in inner if not isinstance(s, Loop) for x in expressions(s) for e in walk(x))
    return any(isinstance(e, Load) and e.buffer == buffer for e in every)


def _reads_kept(loop: Loop, total: Loop, store: Store) -> bool:
    """Whether a later pass reads what was kept at its own place only, and names it."""
    named = {s.name for s in loop.body if isinstance(s, Let) and _is_kept(s.value, loop, total, store)}
    loads = [
        e for s in loop.body for x in expressions(s) for e in walk(x)
        if isinstance(e, Load) and e.buffer == store.buffer
    ]  # fmt: skip
    return _is_row(loop) and (loop.begin, loop.end) == (total.begin, total.end) and len(loads) == len(named)


def _is_kept(value: Expression, loop: Loop, total: Loop, store: Store) -> bool:
    places = tuple(_moved(e, total.axis, loop.axis) for e in store.index)
    return isinstance(value, Load) and value.buffer == store.buffer and value.index == places


def _moved(e: Expression, old: str, new: str) -> Expression:
    return substitute(e, lambda p: Position(new) if p == Position(old) else None)


def _room(taken: set[str], wanted: str) -> str:
    name = next(n for n in (wanted, *(f"{wanted}{i}" for i in range(2, 99))) if n not in taken)
    taken.add(name)
    return name


# What is made of it ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """Rewrites the statements around two passes."""

    passes: Passes
    sum: str
    """What the kernel names the row's sum; empty if it does not."""
    tops: str
    """Row of the blocks' largest values."""
    sums: str
    """Row of their sums."""
    size: int

    @property
    def count(self) -> int:
        """Blocks of a row."""
        return (_size(self.passes.total) + (self.size - 1)) // self.size

    def statement(self, s: Statement) -> tuple[Statement, ...]:
        """Return what stands in a statement's place."""
        p = self.passes
        if s is p.largest:
            fold = Update(p.top, Load(self.tops, (Position(f"{p.largest.axis}_of"),)))
            return Row(self.tops), Row(self.sums), self._both(), self._over(f"{p.largest.axis}_of", fold)
        if s is p.total:
            return (self._over(f"{p.total.axis}_of", self._joined(f"{p.total.axis}_of")),)
        if isinstance(s, Loop) and any(s is loop for loop in p.later):
            return (self._later(s),)
        return (s,)

    @property
    def _result(self) -> Variable:
        """The row's largest value, as the kernel names it once it is known."""
        shift = meaning(self.passes.total, self.passes.power.value)
        assert isinstance(shift, Call) and isinstance(shift.args[0], Call)
        top = shift.args[0].args[1]
        assert isinstance(top, Variable)
        return top

    def _over(self, axis: str, fold: Update) -> Loop:
        return Loop(axis, number(self.count), (fold,), vector=True)

    def _block(self, loop: Loop, at: Expression, body: tuple[Statement, ...], unroll: int) -> Loop:
        first = Arith("*", at, number(self.size))
        last = Arith("min", Arith("+", first, number(self.size)), loop.end)
        return replace(loop, begin=first, end=last, body=body, unroll=unroll)

    def _both(self) -> Loop:
        """Return the loop over blocks: the largest value of each, then its exponentials and their sum."""
        p, block = self.passes, f"{self.passes.total.axis}_block"
        at, top, total = (Position(block),), f"{p.top}_block", f"{p.sum.name}_block"
        fold = tuple(replace(s, name=top) if isinstance(s, Update) else s for s in p.largest.body)
        shift = Variable(f"{top}_shift")
        empty = Call("eq", (Variable(f"{top}_result"), Literal(-_INFINITE)), (), "bool")
        add = replace(p.sum, name=total, value=Variable(p.power.name))
        powers = tuple(add if s is p.sum else self._shifted(s, shift) for s in p.total.body)
        return Loop(block, number(self.count), (
            Begin(top, "max"),
            self._block(p.largest, at[0], fold, 4),
            Let(f"{top}_result", Result(top)),
            Store(self.tops, at, Variable(f"{top}_result")),
            Let(shift.name, Call("where", (empty, Literal(0.0), Variable(f"{top}_result")))),
            Begin(total, "sum"),
            self._block(p.total, at[0], powers, 4),
            Store(self.sums, at, Result(total)),
        ))  # fmt: skip

    def _shifted(self, s: Statement, shift: Variable) -> Statement:
        """Return a statement of the second pass relative to the block's largest value; of infinities only, to zero."""
        top = self._result
        return (
            replace(s, value=substitute(s.value, lambda e: shift if e == top else None))
            if isinstance(s, Let)
            else s
        )

    def _joined(self, axis: str) -> Update:
        """Return how a block's sum joins the row's."""
        value = Call("mul", (Load(self.sums, (Position(axis),)), self._factor(Position(axis))))
        wide = isinstance(self.passes.sum.value, Call)
        return replace(self.passes.sum, value=Call("cast", (value,), (), "float64") if wide else value)

    def _factor(self, block: Expression) -> Expression:
        return Call("exp", (Call("sub", (Load(self.tops, (block,)), self._result)),))

    def _later(self, loop: Loop) -> Loop:
        """Return a later pass by blocks, from what was kept times one factor a block; the last block, which the cache
        holds, comes first.
        """
        p, block = self.passes, f"{loop.axis}_block"
        assert p.kept is not None
        at = Arith("-", number(self.count - 1), Position(block))
        named = [s.name for s in loop.body if isinstance(s, Let) and _is_kept(s.value, loop, p.total, p.kept)]
        factor, value = Variable(f"{loop.axis}_factor"), self._factor(at)
        shares = {Call("div", (Variable(name), Variable(self.sum))) for name in named}
        inside = [e for s in loop.body for x in expressions(s) for e in walk(x)]
        divided = bool(self.sum) and sum(e in shares for e in inside) == sum(e in _all(named) for e in inside)
        body: list[Statement] = []
        for s in loop.body:
            if isinstance(s, Let) and s.name in named:
                body.append(replace(s, value=Call("mul", (s.value, factor))))
            else:
                body.append(mapped(s, lambda e: substitute(e, _numerator(shares))) if divided else s)
        value = Call("div", (value, Variable(self.sum))) if divided else value
        inner = self._block(loop, at, tuple(body), loop.unroll)
        return Loop(block, number(self.count), (Let(factor.name, value), inner))


def _all(names: Sequence[str]) -> set[Expression]:
    return {Variable(name) for name in names}


def _numerator(shares: set[Call]) -> Callable[[Expression], Expression | None]:
    """Replace a kept exponential over the sum by itself, where the factor has the sum in it already."""
    return lambda e: e.args[0] if isinstance(e, Call) and e in shares else None
