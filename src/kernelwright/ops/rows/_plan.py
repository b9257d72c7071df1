"""Plan: the schedule of a row program: which axes are rows, which are reduced, what each pass computes."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

from ...languages.vectors import Unprintable
from ._program import Output, Program, Value

COSTLY = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "tanh", "erf", "sin", "cos", "pow",
    "gelu", "silu", "mish", "softplus", "log_sigmoid", "elu", "selu", "celu",
})  # fmt: skip
"""Elementwise operators that cost more than reading their result from cache."""


class Level(IntEnum):
    """How often a value is computed."""

    ROW = 0
    """Once per row (or per column of a block)."""
    ELEMENT = 1
    """For every element of every row."""
    GRAND = 2
    """Once, after all rows."""


@dataclass(frozen=True)
class Group:
    """Neighbouring axes that run as one loop."""

    axes: tuple[int, ...]
    reduced: bool


@dataclass
class Plan:
    """A program's iteration space and schedule.

    The last group is the vector loop. `rows`: it is reduced (or there is no reduction); `columns`: it is
    not, and each lane keeps its own result. Other reduced groups are `segments` of a row; the other
    groups number the rows.
    """

    program: Program
    keep: bool = False
    """Whether costly values that later passes need again are kept in a buffer as long as a row."""
    values: list[Value] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    over: tuple[int, ...] = ()
    """Reduced axes, in order."""
    order: tuple[int, ...] = ()
    """All axes, in order."""
    levels: dict[Value, Level] = field(default_factory=dict)
    passes: dict[Value, int] = field(default_factory=dict)
    """For a reduction the pass that folds it; for other values the first pass in which they are known."""

    def __post_init__(self) -> None:
        self._resolve()
        first = [set(v.over) for v in self.values if v.op == "reduce" and not self._reduces(v.args)]
        reduced = min(first, key=len, default=set())
        self._nest(reduced)
        self.order = max((self._flat(v) for v in self.values), key=len, default=())
        self._drop_single()
        used = set().union(*(v.varies for v in self.values), *(v.over for v in self.values))
        if used - set(self.order) or len(set(self.order)) != len(self.order):
            raise Unprintable("no tensor runs over all axes")
        self.over = tuple(a for a in self.order if a in reduced)
        for value in self.values:
            self._place(value)
        for output in self.outputs:
            self._check_output(output)
        for value in self.values:
            if value.op == "load" and not _ordered(self._flat(value), self.order):
                raise Unprintable(f"axes of {value.name!r} are permuted")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Merge neighbouring axes that every tensor has or lacks together."""
        tensors = [v.varies for v in self.values if v.op == "load"]
        groups: list[Group] = []
        for axis in self.order:
            reduced = axis in self.over
            last = groups[-1] if groups else None
            together = last is not None and all((axis in t) == (last.axes[-1] in t) for t in tensors)
            if last is not None and last.reduced == reduced and together:
                groups[-1] = Group((*last.axes, axis), reduced)
            else:
                groups.append(Group((axis,), reduced))
        return tuple(groups) or (Group((), False),)

    @property
    def columns(self) -> bool:
        """Whether lanes run over kept axes while others are reduced."""
        return bool(self.over) and not self.groups[-1].reduced

    @property
    def outer(self) -> tuple[Group, ...]:
        """Groups that number the rows."""
        return tuple(g for g in self.groups[:-1] if not g.reduced)

    @property
    def segments(self) -> tuple[Group, ...]:
        """Reduced groups other than the vector loop."""
        return tuple(g for g in self.groups[:-1] if g.reduced)

    @property
    def vector(self) -> Group:
        """The group that lanes run over."""
        return self.groups[-1]

    @property
    def last_pass(self) -> int:
        """Number of passes."""
        written = [self.passes[o.value] for o in self.outputs if self.levels[o.value] is Level.ELEMENT]
        folded = [n for v, n in self.passes.items() if v.op == "reduce" and self.levels[v] is Level.ROW]
        return max([*written, *folded], default=0)

    def pass_values(self, number: int) -> tuple[list[Value], list[Value], list[Output]]:
        """Return what a pass computes for each element, which reductions it folds, what it writes."""
        folds, writes = self._folds(number), self._writes(number)
        return self._needed(self._roots(number), number), folds, writes

    def behind(self, folds: Iterable[Value], number: int) -> list[Value]:
        """Return what a pass computes for each element of some of its reductions."""
        return self._needed([a for f in folds for a in f.args if isinstance(a, Value)], number)

    def _needed(self, roots: Iterable[Value], number: int) -> list[Value]:
        needed = self._closure(roots, {v for v, first in self.kept.items() if first < number})
        return [v for v in self.values if v in needed]

    @cached_property
    def kept(self) -> dict[Value, int]:
        """Map what is kept for later passes to the pass that computes it."""
        passes = range(1, self.last_pass + 1)
        needed = {n: self._closure(self._roots(n)) for n in passes} if self.keep else {}
        first = {v: min(n for n in passes if v in needed[n]) for n in needed for v in needed[n]}
        costly = {v for v in first if v.what in COSTLY}
        met = [
            {v for v in costly if first[v] < n}
            & self._closure(self._roots(n), {v for v in costly if first[v] < n})
            for n in needed
        ]
        return {v: first[v] for v in self.values if any(v in some for some in met)}

    def _folds(self, number: int) -> list[Value]:
        return [
            v for v in self.values
            if v.op == "reduce" and self.levels[v] is Level.ROW and self.passes[v] == number
        ]  # fmt: skip

    def _writes(self, number: int) -> list[Output]:
        return [
            o for o in self.outputs
            if self.levels[o.value] is Level.ELEMENT and self.passes[o.value] == number
        ]  # fmt: skip

    def _roots(self, number: int) -> list[Value]:
        """Return the values that a pass folds or writes."""
        folded = [a for v in self._folds(number) for a in v.args if isinstance(a, Value)]
        return [*folded, *(o.value for o in self._writes(number))]

    def row_values(self, number: int) -> list[Value]:
        """Return the row values that are first known after a pass; 0 is before all passes."""
        return [
            v for v in self.values
            if v in self._used_in_rows and self.levels[v] is Level.ROW and self.passes[v] == number
            and v.op in ("point", "load", "count")
        ]  # fmt: skip

    @cached_property
    def _used_in_rows(self) -> set[Value]:
        """Values that rows need: all except those used only for the end result."""
        used: set[Value] = set()
        waiting = [v for v in self.values if v.op == "reduce"]
        waiting += [o.value for o in self.outputs if self.levels[o.value] is not Level.GRAND]
        while waiting:
            value = waiting.pop()
            if value not in used:
                used.add(value)
                waiting.extend(a for a in value.args if isinstance(a, Value))
        return used

    def _closure(self, roots: Iterable[Value], ends: Collection[Value] = ()) -> set[Value]:
        """Element values that the roots need, including themselves and loads, but nothing behind the ends."""
        needed: set[Value] = set()
        waiting = list(roots)
        while waiting:
            value = waiting.pop()
            if value not in needed and self.levels[value] is Level.ELEMENT:
                needed.add(value)
                if value not in ends:
                    waiting.extend(a for a in value.args if isinstance(a, Value))
        return needed

    def _resolve(self) -> None:
        """Replace every axis by its representative."""
        axes = self.program.axes
        new: dict[Value, Value] = {}
        for value in self.program.values:
            new[value] = replace(
                value,
                dims=tuple(axes.resolve(d) for d in value.dims),
                over=axes.resolve(value.over),
                args=tuple(new[a] if isinstance(a, Value) else a for a in value.args),
            )
            new[value] = replace(new[value], varies=_varies(new[value]))
        self.values = list(new.values())
        self.outputs = [replace(o, value=new[o.value]) for o in self.program.outputs]

    def _drop_single(self) -> None:
        """Drop axes of size one along which other tensors are longer: the tensor is broadcast there."""
        sizes, order = self.program.axes.sizes, set(self.order)
        new: dict[Value, Value] = {}
        for value in self.values:
            dims = tuple(tuple(a for a in d if a in order or sizes[a] != 1) for d in value.dims)
            varies = frozenset(a for a in value.varies if a in order or sizes[a] != 1)
            args = tuple(new[a] if isinstance(a, Value) else a for a in value.args)
            new[value] = replace(value, dims=dims, varies=varies, args=args)
        self.values = list(new.values())
        self.outputs = [replace(o, value=new[o.value]) for o in self.outputs]

    def _nest(self, reduced: set[int]) -> None:
        """Split a sum over more than the rows into one over the rows and one over the rest."""
        new: dict[Value, Value] = {}
        values: list[Value] = []
        for old in self.values:
            value = replace(old, args=tuple(new[a] if isinstance(a, Value) else a for a in old.args))
            over = set(value.over)
            if value.op == "reduce" and over > reduced and self._touches(old, reduced):
                inner = tuple(a for a in value.over if a in reduced)
                rest = tuple(a for a in value.over if a not in reduced)
                source = value.args[0]
                assert isinstance(source, Value)
                first = replace(value, name=f"{value.name}_row", over=inner, varies=source.varies - reduced)
                values.append(first)
                value = replace(value, args=(first,), over=rest)
            values.append(value)
            new[old] = value
        self.values = values
        self.outputs = [replace(o, value=new[o.value]) for o in self.outputs]

    def _touches(self, value: Value, reduced: set[int]) -> bool:
        source = value.args[0]
        return isinstance(source, Value) and bool(source.varies & reduced)

    def _reduces(self, args: Sequence[object]) -> bool:
        """Whether the arguments depend on a reduction."""
        return any(isinstance(a, Value) and (a.op == "reduce" or self._reduces(a.args)) for a in args)

    def _place(self, value: Value) -> None:
        """Find a value's level and the pass after which it is known."""
        sources = [a for a in value.args if isinstance(a, Value)]
        level = max((self.levels[a] for a in sources), default=Level.ROW)
        number = max((self.passes[a] for a in sources), default=0)
        kept = set(self.order) - set(self.over)
        if value.op == "reduce":
            self._place_reduction(value, sources[0], kept)
            return
        varying = set(self.over or self.vector.axes)
        if value.varies & varying or value.op == "index":
            if level is Level.GRAND:
                raise Unprintable("elements depend on a reduction over all rows")
            level = Level.ELEMENT
            number = max([1, *(self._ready(a) for a in sources)])
        elif level is Level.GRAND and value.varies:
            raise Unprintable("rows depend on a reduction over all rows")
        self.levels[value], self.passes[value] = level, number

    def _place_reduction(self, value: Value, source: Value, kept: set[int]) -> None:
        if self.levels[source] is Level.GRAND:
            raise Unprintable("a reduction of a scalar")
        if set(value.over) == set(self.over):
            self.levels[value] = Level.ROW
            self.passes[value] = max(1, self._ready(source))
        elif set(value.over) == kept and self.levels[source] is Level.ROW:
            if value.what != "sum":
                raise Unprintable(f"a {value.what} over rows")
            self.levels[value], self.passes[value] = Level.GRAND, 0
        else:
            raise Unprintable("reductions over different axes")

    def _ready(self, value: Value) -> int:
        """Return the first pass that can use a value."""
        row = self.levels[value] is Level.ROW
        return self.passes[value] + 1 if row and self.passes[value] > 0 else max(1, self.passes[value])

    def _check_output(self, output: Output) -> None:
        value, flat = output.value, self._flat(output.value)
        integer = value.op == "reduce" and value.what.startswith("arg")
        if (output.dtype == "int64") is not integer:
            raise Unprintable(f"an output of dtype {output.dtype}")
        match self.levels[value]:
            case Level.ELEMENT:
                expected = self.order
            case Level.ROW if self.over:
                expected = tuple(a for a in self.order if a not in self.over)
            case _:
                expected = ()
        if flat != expected or (self.levels[value] is Level.ROW and not self.over):
            raise Unprintable("an output does not run over the rows in order")

    @staticmethod
    def _flat(value: Value) -> tuple[int, ...]:
        return tuple(a for axes in value.dims for a in axes)


def _varies(value: Value) -> frozenset[int]:
    """Return the axes along which a value is not constant, from those of its operands."""
    if value.op == "load":
        return frozenset(a for axes in value.dims for a in axes)
    if value.op == "index":
        return frozenset(value.over)
    found = frozenset[int]().union(*(a.varies for a in value.args if isinstance(a, Value)))
    return found - set(value.over)


def _ordered(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether the axes of `part` that are in `whole` have the same order there."""
    places = [whole.index(a) for a in part if a in whole]
    return places == sorted(places)
