"""Statements of a launch as lines of a Triton kernel: positions, values, stores, loops over tiles."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...tile import (
    Begin,
    Contraction,
    Expression,
    Extent,
    Let,
    Literal,
    Load,
    Loop,
    Position,
    Result,
    Row,
    Statement,
    Store,
    Update,
    Variable,
    expressions,
    mapped,
    number,
    renamed,
    statements,
    substitute,
    walk,
)
from .. import Unprintable
from ._blocks import NONE
from ._dialect import bare
from ._folds import SCANS, SIMPLE
from ._states import Lanes, States

WIDEST = 16384
"""Elements of a row that stay in registers between its passes."""
_WIDEST_AGAIN = 4096
"""The same of a part of a row that another loop goes over: the next pass reads it again anyway."""
_UNROLLED = 9
"""Iterations of a loop that is written out, at most."""
_UNROLLED_TOGETHER = 40
"""Iterations of such a loop and those within it, together: more loads at once do not fit registers."""


@dataclass
class Body(States):
    """Prints what a program of a launch does."""

    top: list[str] = field(default_factory=list)
    """Positions of lanes that all passes share."""
    ends: dict[str, str] = field(default_factory=dict)
    """Position of shared lanes → how many there are."""
    known: dict[Expression, str] = field(default_factory=dict)
    """Value → the variable that holds it."""
    turns: int = 0
    """How many sequential loops surround the current statement."""

    # Positions -----------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """Print the body of the kernel."""
        found = [line for b in self.launch.joined for line in self._joined(b)]
        for b in self.launch.folds:
            self.begun[b.name] = b
            self.scope.dims[b.name] = self.state_dims
            found += self._initial(b.name)
        found += self._block(self.launch.before)
        positions, body = self._positions(), self._block(self.launch.body)
        block = [*positions, *self.top, *body]
        if self.launch.folds:
            head = "for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):"
            block = [head, *(f"    {line}" for line in block)]
            block += [line for b in self.launch.folds for line in self._left(b)]
        return [*found, *block]

    @property
    def count(self) -> str:
        """The iterations of the nest."""
        return " * ".join(self.scope.text(loop.end) for loop in self.launch.nest)

    def _positions(self) -> list[str]:
        """Print the positions of the nest."""
        scope, nest = self.scope, self.launch.nest
        if not nest:
            return []
        rows = self.launch.way == "rows"
        size, lanes = ("ROWS", "[:, None]") if rows else ("BLOCK", "")
        lone = len(nest) == 1
        name = nest[0].axis if lone else "row" if rows else "index"
        mask = "live" if rows else "inside"
        program = "tile" if self.launch.folds else "tl.program_id(0)"
        found = [
            f"{name} = {scope.dialect.place(program)} * {size} + tl.arange(0, {size}){lanes}",
            f"{mask} = {name} < {self.count}",
        ]
        scope.masks[0], scope.at["#0"] = mask, (name, frozenset({0}))
        used = {
            e.axis
            for s in statements((*self.launch.body,))
            for x in expressions(s)
            for e in walk(x)
            if isinstance(e, Position)
        }
        inner: list[str] = []
        for place, loop in reversed(list(enumerate(nest))):
            scope.at[loop.axis] = (loop.axis, frozenset({0}))
            end = scope.text(loop.end)
            if not lone and loop.axis in used:
                text = f"{name} // ({' * '.join(inner)})" if inner else name
                found.append(f"{loop.axis} = {text} % {end}" if place else f"{loop.axis} = {text}")
            inner.insert(0, end)
        return found

    # Statements ----------------------------------------------------------------------------------------

    def _block(self, body: Sequence[Statement]) -> list[str]:
        return [line for s in body for line in self._statement(s)]

    def _statement(self, s: Statement) -> list[str]:
        match s:
            case Let():
                return self._let(s)
            case Row(buffer):
                raise Unprintable(f"{buffer}: a row stays in registers by itself")
            case Contraction():
                raise Unprintable(f"{s.name}: a product within rows")
            case Begin(name):
                self.begun[name] = s
                self.fresh.add(name)
                self.scope.dims[name] = self.state_dims
                return []
            case Update():
                return self._update(s)
            case Store():
                return self._store(s)
            case Loop():
                return self._loop(s)

    def _let(self, s: Let) -> list[str]:
        scope = self.scope
        value = substitute(s.value, self._same)
        if self.lanes is None or self.lanes.kept:
            if value in self.known and not any(isinstance(e, Result) for e in walk(value)):
                scope.alias[s.name] = self.known[value]
                return []
            self.known[value] = s.name
        scope.alias.pop(s.name, None)
        scope.dims[s.name] = scope.dims_of(value)
        return [f"{s.name} = {bare(scope.text(value))}"]

    def _same(self, e: Expression) -> Expression | None:
        if isinstance(e, Variable) and e.name in self.scope.alias:
            return Variable(self.scope.alias[e.name], e.kind)
        return None

    def _store(self, s: Store) -> list[str]:
        buffer = self.scope.program.buffer(s.buffer)
        at, value, mask = self.scope.stored(s, self.state_dims if s.combine else NONE)
        masked = f", mask={mask}" if mask else ""
        if not s.combine:
            return [f"tl.store({at}, {value}{masked})"]
        if s.combine not in ("sum", "max", "min") or buffer.dtype not in ("float32", "int32", "int64"):
            raise Unprintable(f"Triton has no atomic {s.combine} of {buffer.dtype}")
        word = {"sum": "add"}.get(s.combine, s.combine)
        return [f"tl.atomic_{word}({at}, {value}{masked})"]

    # Loops ---------------------------------------------------------------------------------------------

    def _loop(self, s: Loop) -> list[str]:
        inner = any(isinstance(t, Loop) for t in s.body)
        if (
            self.launch.way == "points"
            or inner
            or self.lanes is not None
            or self.scope.dims_of(s.end)
            or self.scope.dims_of(s.begin)
        ):
            return self._in_turn(s)
        scan = s.ordered and all(
            isinstance(t, Let | Store) or (isinstance(t, Update) and self.begun[t.name].monoid in SCANS)
            for t in s.body
        )
        if (s.ordered and not scan) or (isinstance(s.end, Literal) and int(s.end.value) <= 4):
            return self._in_turn(s)
        return self._over_lanes(s, scan)

    def _in_turn(self, s: Loop) -> list[str]:
        """Print a sequential loop."""
        if self.scope.dims_of(s.end) or self.scope.dims_of(s.begin):
            raise Unprintable("a loop whose length differs within a block")
        lines = self._started(s.body)
        self.scope.at[s.axis] = (s.axis, NONE)
        kept = dict(self.known), dict(self.scope.alias)
        self.turns += 1
        body = self._block(s.body)
        self.turns -= 1
        self.known, self.scope.alias = kept
        short = _is_unrolled(s)
        begin = "" if s.begin == number(0) else f"{bare(self.scope.text(s.begin))}, "
        head = f"for {s.axis} in {'tl.static_range' if short else 'range'}({begin}{bare(self.scope.text(s.end))}):"
        wide = (
            [f"{s.axis} = {self.scope.dialect.place(s.axis)}"]
            if self.scope.dialect.large and not short
            else []
        )
        return [*lines, head, *(f"    {line}" for line in [*wide, *body] or ["pass"])]

    def _over_lanes(self, s: Loop, scan: bool) -> list[str]:
        """Keep what fits registers at the declared sizes; at larger ones it is right all the same."""
        size = (
            s.end.size if isinstance(s.end, Extent) else s.end.value if isinstance(s.end, Literal) else None
        )
        widest = _WIDEST_AGAIN if self.turns else WIDEST
        kept = size is not None and int(size) <= widest and s.begin == number(0)
        return self._kept(s, int(size or 0), scan) if kept else self._tiled(s, scan)

    def _kept(self, s: Loop, size: int, scan: bool) -> list[str]:
        """Print a loop that one block holds; loops of the same length share it and what they read."""
        scope, end = self.scope, bare(self.scope.text(s.end))
        lane = self.rank - 1
        column = next((c for c, other in self.ends.items() if other == end), "")
        if not column:
            number_ = len(self.ends) + 1
            tail = "" if number_ == 1 else f"_{number_}"
            column, width = f"column{tail}", f"WIDTH{tail}"
            self.ends[column] = end
            self.constants[width] = (f"triton.next_power_of_2({end})", 1 << max(0, size - 1).bit_length())
            lanes = "[None, :]" if self.rank == 2 else ""
            self.top.append(f"{column} = {scope.dialect.place(f'tl.arange(0, {width}){lanes}')}")
            scope.at[column] = (column, frozenset({lane}))
            self.top.append(f"here{tail} = {self._with_rows(f'{column} < {end}')}")
        tail = column.removeprefix("column")
        body = tuple(mapped(t, lambda e: renamed(e, {s.axis: Position(column)})) for t in s.body)
        return self._within(body, f"{column} < {end}", Lanes(True, f"here{tail}", scan), column)

    def _with_rows(self, mask: str) -> str:
        return f"{self.scope.masks[0]} & ({mask})" if self.rank == 2 else mask

    def _within(self, body: Sequence[Statement], mask: str, lanes: Lanes, column: str) -> list[str]:
        scope, lane = self.scope, self.rank - 1
        before = dict(scope.masks)
        scope.masks[lane] = f"({mask})" if self.rank == 2 else lanes.mask
        scope.whole = lanes.mask
        scope.at[f"#{lane}"] = (column, frozenset({lane}))
        self.lanes = lanes
        lines = self._block(body)
        self.lanes = None
        scope.masks, scope.whole = before, ""
        scope.scanned.clear()
        return lines

    def _tiled(self, s: Loop, scan: bool) -> list[str]:
        """Print a loop over tiles; lanes fold separately if the monoid is simple."""
        scope, axis = self.scope, s.axis
        end, begin = bare(scope.text(s.end)), bare(scope.text(s.begin))
        self.constants["BLOCK"] = (str(self.block), self.block)
        shape = "[ROWS, BLOCK]" if self.rank == 2 else "[BLOCK]"
        names = dict.fromkeys(t.name for t in s.body if isinstance(t, Update))
        apart = [n for n in names if self.begun[n].monoid in SIMPLE and not scan]
        head = [line for n in apart for line in self._lane_start(n, shape)]
        head += [line for n in names if n not in apart and n in self.fresh for line in self._initial(n)]
        scope.at[axis] = (axis, frozenset({self.rank - 1}))
        lanes = "[None, :]" if self.rank == 2 else ""
        mask = f"{axis} < {end}"
        held = dict(self.known), dict(scope.alias)
        body = self._within(s.body, mask, Lanes(False, "inside", scan), axis)
        self.known, scope.alias = held
        first = [
            f"{axis} = {scope.dialect.place('start')} + tl.arange(0, BLOCK){lanes}",
            f"inside = {self._with_rows(mask)}",
        ]
        loop = [f"for start in range({begin}, {end}, BLOCK):", *(f"    {line}" for line in (*first, *body))]
        return [*head, *loop, *(line for n in apart for line in self._entered(n, {"value": f"{n}_lanes"}))]

    def _lane_start(self, name: str, shape: str) -> list[str]:
        ((kind, start),) = self._parts(name).values()
        return [f"{name}_lanes = tl.full({shape}, {start}, {kind})"]


def _unrolled(s: Loop) -> int:
    """Count the iterations of a short loop, with those of the short ones within; 0 if it is not short."""
    if not isinstance(s.end, Literal) or int(s.end.value) > _UNROLLED:
        return 0
    within = [_unrolled(t) for t in s.body if isinstance(t, Loop)]
    return int(s.end.value) * max([1, *(n for n in within if n <= _UNROLLED_TOGETHER)])


def _is_unrolled(s: Loop) -> bool:
    return 0 < _unrolled(s) <= _UNROLLED_TOGETHER


def loads_together(body: Sequence[Statement]) -> int:
    """Count the loads that an element has in flight: those of a loop that is written out, all at once."""
    count = 0
    for s in body:
        if isinstance(s, Loop):
            times = int(s.end.value) if isinstance(s.end, Literal) and _is_unrolled(s) else 1
            count += times * loads_together(s.body)
        else:
            count += sum(isinstance(e, Load) for x in expressions(s) for e in walk(x))
    return count
