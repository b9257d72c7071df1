"""Statements of a launch as lines of a Triton kernel: loops over tiles, accumulators, scans, stores."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..printing import Unprintable
from ..tile import (
    MONOIDS,
    Begin,
    Expression,
    Extent,
    Let,
    Literal,
    Loop,
    Position,
    Result,
    Statement,
    Store,
    Update,
    Variable,
    expressions,
    number,
    part_kind,
    renamed,
    statements,
    substitute,
    walk,
)
from ._blocks import NONE, Dims, Scope, is_large
from ._dialect import bare
from ._folds import SCANS, SIMPLE, folded
from ._launches import Launch

PROGRAMS = 1024
"""Programs that fold a whole tensor, at most: their parts are one block of the next launch."""
WIDEST = 16384
"""Elements of a row that stay in registers between its passes."""
_UNROLLED = 9


@dataclass(frozen=True)
class Lanes:
    """The loop that lanes run over."""

    kept: bool
    """Whether one block holds all of it: nothing is read twice."""
    mask: str
    scan: bool = False


@dataclass
class Body:
    """Prints what a program of a launch does."""

    scope: Scope
    launch: Launch
    block: int
    """Elements that a program has at once."""
    constants: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Compile-time argument → its text on the host, its value at the largest sizes."""
    top: list[str] = field(default_factory=list)
    """Positions of lanes that all passes share."""
    ends: dict[str, str] = field(default_factory=dict)
    """Position of shared lanes → how many there are."""
    begun: dict[str, Begin] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """Accumulators that nothing was folded into."""
    known: dict[Expression, str] = field(default_factory=dict)
    lanes: Lanes | None = None

    # Positions -----------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The dimensions of a tile."""
        return 2 if self.launch.way == "rows" else 1

    @property
    def state(self) -> str:
        """The shape of an accumulator."""
        return {"points": "[BLOCK]", "rows": "[ROWS, 1]", "single": "[]"}[self.launch.way]

    @property
    def state_dims(self) -> Dims:
        """The dimensions of an accumulator."""
        return NONE if self.launch.way == "single" else frozenset({0})

    @property
    def axis(self) -> str:
        """How lanes are folded into the state."""
        return "axis=1, keep_dims=True" if self.rank == 2 else "axis=0"

    def lines(self) -> list[str]:
        """Print the body of the kernel."""
        found = [line for b in self.launch.joined for line in self._joined(b)]
        for b in self.launch.folds:
            self.begun[b.name] = b
            self.scope.dims[b.name] = self.state_dims
            found += self._initial(b.name)
        found += self._block(self.launch.before)
        block = [*self._positions(), *self._statements()]
        if self.launch.folds:
            head = "for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):"
            block = [head, *(f"    {line}" for line in block)]
            block += [line for b in self.launch.folds for line in self._left(b)]
        return [*found, *block]

    def _statements(self) -> list[str]:
        body = self._block(self.launch.body)
        return [*self.top, *body]

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
        program = f"tl.cast({program}, tl.int64)" if is_large(scope.program) else program
        found = [
            f"{name} = {program} * {size} + tl.arange(0, {size}){lanes}",
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
        inner = ""
        for place, loop in reversed(list(enumerate(nest))):
            scope.at[loop.axis] = (loop.axis, frozenset({0}))
            if not lone and loop.axis in used:
                text = f"{name} // {inner}" if inner else name
                end = scope.text(loop.end)
                found.append(f"{loop.axis} = {text} % {end}" if place else f"{loop.axis} = {text}")
            inner = (
                f"({inner[1:-1]} * {scope.text(loop.end)})"
                if " * " in inner
                else (f"({inner} * {scope.text(loop.end)})" if inner else scope.text(loop.end))
            )
        return found

    # Statements ----------------------------------------------------------------------------------------

    def _block(self, body: Sequence[Statement]) -> list[str]:
        return [line for s in body for line in self._statement(s)]

    def _statement(self, s: Statement) -> list[str]:
        match s:
            case Let():
                return self._let(s)
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

    # Accumulators --------------------------------------------------------------------------------------

    def _parts(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the parts of a state: what they compute in and start as."""
        begin, d = self.begun[name], self.scope.dialect
        return {
            part: (d.type(part_kind(part, begin.kind)), d.number(start, part_kind(part, begin.kind)))
            for part, start in MONOIDS[begin.monoid].parts.items()
        }

    def _initial(self, name: str, shape: str = "", suffix: str = "") -> list[str]:
        self.fresh.discard(name)
        return [
            f"{name}{suffix or f'_{part}'} = tl.full({shape or self.state}, {start}, {kind})"
            for part, (kind, start) in self._parts(name).items()
        ]

    def _started(self, body: Sequence[Statement]) -> list[str]:
        """Start the accumulators that a loop folds into."""
        folded_here = dict.fromkeys(s.name for s in statements(tuple(body)) if isinstance(s, Update))
        return [line for name in folded_here if name in self.fresh for line in self._initial(name)]

    def _variables(self, name: str, suffix: str = "") -> dict[str, Expression]:
        begin = self.begun[name]
        return {
            p: Variable(f"{name}_{p}{suffix}", part_kind(p, begin.kind)) for p in MONOIDS[begin.monoid].parts
        }

    def _update(self, s: Update) -> list[str]:
        if self.lanes is not None:
            return self._lanes_scan(s) if self.lanes.scan else self._lanes_update(s)
        start = self._initial(s.name) if s.name in self.fresh else []
        begin, state = self.begun[s.name], self._variables(s.name)
        value = Variable(f"{s.name}_x", begin.kind)
        self.scope.dims[value.name] = self.scope.dims_of(s.value)
        lone = len(state) == 1
        text = self.scope.to(s.value, begin.kind)
        head = [] if lone else [f"{value.name} = {bare(text)}"]
        new = MONOIDS[begin.monoid].update(state, value, s.position)
        if lone:
            form = SIMPLE[begin.monoid][0].format(
                f"{s.name}_value", bare(text) if begin.monoid in ("max", "min") else text
            )
            return [*start, f"{s.name}_value = {self._held(s.name, bare(form), f'{s.name}_value')}"]
        texts = [
            self._held(s.name, bare(self.scope.to(e, part_kind(p, begin.kind))), f"{s.name}_{p}")
            for p, e in new.items()
        ]
        return [*start, *head, f"{', '.join(f'{s.name}_{p}' for p in new)} = {', '.join(texts)}"]

    def _held(self, name: str, text: str, old: str) -> str:
        """Keep the old state where a block has no element: what is folded over the block counts them all."""
        if name not in {b.name for b in self.launch.folds}:
            return text
        return f"tl.where({self.scope.masks[0]}, {text}, {old})"

    def _element(self, s: Update) -> str:
        """Print what is folded, neutral where a block has no element."""
        begin = self.begun[s.name]
        start = next(iter(self._parts(s.name).values()))[1]
        neutral = "0.0" if begin.monoid == "variance" else start
        assert self.lanes is not None
        return f"tl.where({self.lanes.mask}, {bare(self.scope.to(s.value, begin.kind))}, {neutral})"

    def _lanes_update(self, s: Update) -> list[str]:
        begin, text = self.begun[s.name], self._element(s)
        assert self.lanes is not None
        if begin.monoid in SIMPLE:
            if not self.lanes.kept:
                return [f"{s.name}_lanes = {bare(SIMPLE[begin.monoid][0].format(f'{s.name}_lanes', text))}"]
            return self._entered(s.name, {"value": text})
        x, mask = f"{s.name}_x", self.lanes.mask
        if begin.monoid == "variance":
            parts = {"count": f"tl.where({mask}, 1.0, 0.0)", "mean": x}
        elif begin.monoid in ("argmax", "argmin"):
            index = f"{s.name}_at"
            at = f"{index} = tl.where({mask}, {bare(self.scope.text(s.position))}, -1).to(tl.int64)"
            return [f"{x} = {text}", at, *self._entered(s.name, {"value": x, "index": index})]
        else:
            parts = {"top": x}
        count = f"{s.name}_here"
        if "count" in parts:
            return [
                f"{x} = {text}",
                f"{count} = {parts['count']}",
                *self._entered(s.name, {**parts, "count": count}),
            ]
        return [f"{x} = {text}", *self._entered(s.name, parts)]

    def _entered(self, name: str, parts: dict[str, str]) -> list[str]:
        """Fold a tile into the state; the first is the state."""
        begin = self.begun[name]
        if name in self.fresh:
            self.fresh.discard(name)
            return folded(begin.monoid, name, parts, self.axis)
        late = f"{name}_late"
        lines = folded(begin.monoid, late, parts, self.axis)
        names = {p: f"{late}_{p}" for p in MONOIDS[begin.monoid].parts}
        return [*lines, *self._merged(name, names)]

    def _merged(self, name: str, late: dict[str, str]) -> list[str]:
        begin = self.begun[name]
        later: dict[str, Expression] = {
            p: Variable(text, part_kind(p, begin.kind)) for p, text in late.items()
        }
        for text in late.values():
            self.scope.dims[text] = self.state_dims
        if begin.monoid in SIMPLE:
            return [f"{name}_value = {bare(SIMPLE[begin.monoid][0].format(f'{name}_value', late['value']))}"]
        new = MONOIDS[begin.monoid].merge(self._variables(name), later)
        texts = [bare(self.scope.to(e, part_kind(p, begin.kind))) for p, e in new.items()]
        return [f"{', '.join(f'{name}_{p}' for p in new)} = {', '.join(texts)}"]

    def _lanes_scan(self, s: Update) -> list[str]:
        """Print the partial results of a tile, and carry its last one on."""
        begin, x, here = self.begun[s.name], f"{s.name}_x", f"{s.name}_here"
        fresh = s.name in self.fresh
        scan = SCANS[begin.monoid].format(x, axis=self.axis.partition(",")[0])
        joined = scan if fresh else SIMPLE[begin.monoid][0].format(f"{s.name}_value", scan)
        dims = frozenset(range(self.rank))
        self.scope.scanned[s.name] = (here, dims)
        return [f"{x} = {self._element(s)}", f"{here} = {bare(joined)}", *self._entered(s.name, {"value": x})]

    # Across programs -----------------------------------------------------------------------------------

    def _left(self, b: Begin) -> list[str]:
        """Fold the block and leave the part of this program."""
        parts = {p: f"{b.name}_{p}" for p in MONOIDS[b.monoid].parts}
        flat, lines = parts, list[str]()
        if self.launch.way == "rows":
            flat = {p: f"tl.reshape({text}, [ROWS])" for p, text in parts.items()}
        own = f"{b.name}_part"
        lines += folded(b.monoid, own, flat, "axis=0")
        return [*lines, *(f"tl.store({part_buffer(b.name, p)} + tl.program_id(0), {own}_{p})" for p in parts)]

    def _joined(self, b: Begin) -> list[str]:
        """Join what the programs of an earlier launch left."""
        self.begun[b.name] = b
        self.constants["PROGRAMS"] = (str(PROGRAMS), PROGRAMS)
        names, lines = {}, ["part = tl.arange(0, PROGRAMS)"]
        for p, (_, start) in self._parts(b.name).items():
            names[p] = f"{b.name}_{p}_parts"
            lines.append(
                f"{names[p]} = tl.load({part_buffer(b.name, p)} + part, mask=part < programs, other={start})"
            )
        return [*lines, *folded(b.monoid, b.name, names, "axis=0")]

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
        body = self._block(s.body)
        self.known, self.scope.alias = kept
        short = isinstance(s.end, Literal) and int(s.end.value) <= _UNROLLED
        begin = "" if s.begin == number(0) else f"{bare(self.scope.text(s.begin))}, "
        head = f"for {s.axis} in {'tl.static_range' if short else 'range'}({begin}{bare(self.scope.text(s.end))}):"
        return [*lines, head, *(f"    {line}" for line in body or ["pass"])]

    def _over_lanes(self, s: Loop, scan: bool) -> list[str]:
        """Keep what fits registers at the declared sizes; at larger ones it is right all the same."""
        size = (
            s.end.size if isinstance(s.end, Extent) else s.end.value if isinstance(s.end, Literal) else None
        )
        kept = size is not None and int(size) <= WIDEST and s.begin == number(0)
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
            self.top.append(f"{column} = tl.arange(0, {width}){lanes}")
            scope.at[column] = (column, frozenset({lane}))
            self.top.append(f"here{tail} = {self._with_rows(f'{column} < {end}')}")
        tail = column.removeprefix("column")
        body = tuple(_renamed(t, s.axis, column) for t in s.body)
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
        """Print a loop over tiles; lanes fold on their own where the monoid is simple."""
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
        body = self._within(s.body, mask, Lanes(False, "here", scan), axis)
        self.known, scope.alias = held
        first = [f"{axis} = start + tl.arange(0, BLOCK){lanes}", f"here = {self._with_rows(mask)}"]
        loop = [f"for start in range({begin}, {end}, BLOCK):", *(f"    {line}" for line in (*first, *body))]
        return [*head, *loop, *(line for n in apart for line in self._entered(n, {"value": f"{n}_lanes"}))]

    def _lane_start(self, name: str, shape: str) -> list[str]:
        ((kind, start),) = self._parts(name).values()
        return [f"{name}_lanes = tl.full({shape}, {start}, {kind})"]


def part_buffer(name: str, part: str) -> str:
    """Name the memory that holds a part of every program's state."""
    return f"{name}_{part}_of"


def _renamed(s: Statement, axis: str, by: str) -> Statement:
    axes = {axis: Position(by)}
    match s:
        case Let(name, value):
            return Let(name, renamed(value, axes))
        case Store():
            return replace(s, index=tuple(renamed(i, axes) for i in s.index), value=renamed(s.value, axes))
        case Update(name, value, position):
            return Update(name, renamed(value, axes), renamed(position, axes))
        case _:
            return s
