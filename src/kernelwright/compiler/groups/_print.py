"""Launches as text, in any dialect: expressions, statements, accumulators merged across a group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..graph import text_of
from ..printers import Unprintable
from ..tile import (
    MONOIDS,
    Arith,
    Begin,
    Call,
    Contraction,
    Expression,
    Extent,
    Guard,
    Kind,
    Let,
    Literal,
    Load,
    Loop,
    Position,
    Program,
    Result,
    Row,
    Statement,
    Store,
    Update,
    Variable,
    offset,
    part_kind,
    statements,
)
from ._dialect import CALLS, Dialect
from ._launches import Launch


@dataclass
class Body:
    """Prints what one group, or one item, does."""

    program: Program
    dialect: Dialect
    launch: Launch
    monoids: dict[str, Begin] = field(default_factory=dict)
    within: bool = False
    """Inside of a vector loop: every item has an iteration of its own."""
    shares: dict[str, Kind] = field(default_factory=dict)
    """Arrays in the group's memory, by name."""

    def lines(self) -> list[str]:
        """Print the positions that follow from `index`, then the body."""
        d = self.dialect
        found: list[str] = []
        sizes = [self.text(loop.end) for loop in self.launch.nest]
        for place, loop in enumerate(self.launch.nest):
            text = "index"
            for inner in sizes[place + 1 :]:
                text = f"({text} / {inner})"
            if place:
                text = f"({text} % {sizes[place]})"
            found.append(d.declared("int64", loop.axis, text, fixed=True))
        return [f"  {line}" for line in (*found, *self._block(self.launch.body))]

    @property
    def count(self) -> str:
        """The iterations of the nest, as text."""
        return " * ".join(self.text(loop.end) for loop in self.launch.nest) or "1"

    # Expressions ---------------------------------------------------------------------------------------

    def text(self, e: Expression) -> str:
        """Print an expression."""
        d = self.dialect
        match e:
            case Literal(value, kind):
                return d.number(value, kind)
            case Extent(size):
                return d.size(text_of(size))
            case Position(axis):
                return axis
            case Variable(name):
                return name
            case Result(name, part):
                return f"{name}_{part}"
            case Arith(sign, left, right):
                return self._arith(sign, self.text(left), self.text(right))
            case Load(buffer, index):
                of = self.program.buffer(buffer)
                return self._loaded(d.load(of, self.text(offset(index, of.shape))), of.dtype, e.kind)
            case Guard(condition, value, other):
                return d.chosen(self.text(condition), self.text(value), self.text(other))
            case Call():
                return self._call(e)

    def _loaded(self, text: str, dtype: str, kind: Kind) -> str:
        have = dtype if dtype in ("float64", "bool") else "float32" if "float" in dtype else "int64"
        return text if have == kind else self.dialect.cast(text, have, kind)

    def _arith(self, sign: str, a: str, b: str) -> str:
        if sign in ("min", "max"):
            return self.dialect.chosen(f"({a} {'<' if sign == 'min' else '>'} {b})", a, b)
        return f"({a} {sign.replace('//', '/')} {b})"

    def _call(self, e: Call) -> str:
        if e.op == "cast":
            (value,) = e.args
            assert value is not None
            return self.dialect.cast(self.text(value), value.kind, e.kind)
        rule = CALLS.get(e.op)
        if rule is None:
            raise Unprintable(f"no form of {e.op} for work-groups")
        args = [None if a is None else self.text(a) for a in e.args]
        kinds = [a.kind for a in e.args if a is not None]
        return rule(self.dialect, args, dict(e.options), kinds[-1] if kinds else e.kind)

    # Statements ----------------------------------------------------------------------------------------

    def _block(self, body: Sequence[Statement]) -> list[str]:
        return [line for s in body for line in self._statement(s)]

    def _statement(self, s: Statement) -> list[str]:
        d = self.dialect
        match s:
            case Let(name, value):
                return [d.declared(value.kind, name, self.text(value), fixed=True)]
            case Store():
                return self._store(s)
            case Row(buffer):
                raise Unprintable(f"{buffer}: no room for rows of a worker")
            case Contraction():
                raise Unprintable(f"{s.name}: a product within rows")
            case Begin(name, monoid, kind):
                self.monoids[name] = s
                return [
                    d.declared(
                        part_kind(p, kind), f"{name}_{p}", d.number(v, part_kind(p, kind)), fixed=False
                    )
                    for p, v in MONOIDS[monoid].parts.items()
                ]
            case Update(name, value, position):
                return self._update(name, value, position)
            case Loop():
                return self._loop(s)

    def _store(self, s: Store) -> list[str]:
        d, buffer = self.dialect, self.program.buffer(s.buffer)
        at = self.text(offset(s.index, buffer.shape))
        value = self.text(s.value)
        if s.combine:
            old = self._loaded(d.load(buffer, at), buffer.dtype, s.value.kind)
            op = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}[s.combine]
            value = CALLS[op](d, [old, value], {}, s.value.kind)
        line = d.store(buffer, at, value, s.value.kind)
        if self.launch.grouped and not self.within:
            return ["if (item == 0) {", f"  {line}", "}"]
        return [line]

    def _state(self, name: str, suffix: str = "") -> dict[str, Expression]:
        begin = self.monoids[name]
        return {
            p: Variable(f"{name}_{p}{suffix}", part_kind(p, begin.kind)) for p in MONOIDS[begin.monoid].parts
        }

    def _assigned(self, name: str, new: dict[str, Expression]) -> list[str]:
        """Change all parts of a state at once."""
        begin, d = self.monoids[name], self.dialect
        if len(new) == 1:
            ((part, e),) = new.items()
            return [f"{name}_{part} = {self._to(e, part_kind(part, begin.kind))};"]
        lines = [
            d.declared(
                part_kind(p, begin.kind), f"{name}_{p}_new", self._to(e, part_kind(p, begin.kind)), fixed=True
            )
            for p, e in new.items()
        ]
        return [
            "{",
            *(f"  {line}" for line in (*lines, *(f"{name}_{p} = {name}_{p}_new;" for p in new))),
            "}",
        ]

    def _to(self, e: Expression, kind: Kind) -> str:
        return self.text(e) if e.kind == kind else self.dialect.cast(self.text(e), e.kind, kind)

    def _update(self, name: str, value: Expression, position: Expression) -> list[str]:
        begin, d = self.monoids[name], self.dialect
        head = d.declared(begin.kind, f"{name}_x", self._to(value, begin.kind), fixed=True)
        new = MONOIDS[begin.monoid].update(self._state(name), Variable(f"{name}_x", begin.kind), position)
        return ["{", f"  {head}", *(f"  {line}" for line in self._assigned(name, new)), "}"]

    # Loops ---------------------------------------------------------------------------------------------

    def _loop(self, s: Loop) -> list[str]:
        begin, end = self.text(s.begin), self.text(s.end)
        over_items = self.launch.grouped and s.vector and not s.ordered and not self.within
        if not over_items:
            inner = self._block(s.body)
            return [self.dialect.counted(s.axis, begin, end, "1"), *(f"  {line}" for line in inner), "}"]
        folded = self._folded(s)
        reset = [line for name in folded for line in self._initial(name)]
        lines = ["if (item != 0) {", *(f"  {line}" for line in reset), "}"] if reset else []
        self.within = True
        inner = self._block(s.body)
        self.within = False
        lines += [*self._items(s, begin, end), *(f"  {line}" for line in inner), "}"]
        return lines + [line for name in folded for line in self._joined(name)]

    def _items(self, s: Loop, begin: str, end: str) -> list[str]:
        """Print the head of a loop over items: a guard on items if each has at most one iteration.

        A loop there is also miscompiled by PoCL 3.0: items beyond its end wrote next to the output.
        """
        d = self.dialect
        at_start = begin == d.number(0, "int64")
        if at_start and isinstance(s.end, Literal) and s.end.value <= d.items:
            return [f"if (item < {end}) {{", f"  {d.declared('int64', s.axis, 'item', fixed=True)}"]
        first = "item" if at_start else f"({begin} + item)"
        return [d.counted(s.axis, first, end, d.number(d.items, "int64"))]

    def _folded(self, s: Loop) -> list[str]:
        own = {t.name for t in statements(s.body) if isinstance(t, Begin)}
        return list(
            dict.fromkeys(t.name for t in statements(s.body) if isinstance(t, Update) and t.name not in own)
        )

    def _initial(self, name: str) -> list[str]:
        begin = self.monoids[name]
        return [
            f"{name}_{p} = {self.dialect.number(v, part_kind(p, begin.kind))};"
            for p, v in MONOIDS[begin.monoid].parts.items()
        ]

    def _joined(self, name: str) -> list[str]:
        """Join the items' states in a tree; afterwards every item has the whole."""
        begin, d = self.monoids[name], self.dialect
        kinds = {p: part_kind(p, begin.kind) for p in MONOIDS[begin.monoid].parts}
        for p, kind in kinds.items():
            self.shares[self._share(name, p)] = kind
        merged = MONOIDS[begin.monoid].merge(self._state(name), self._state(name, "_late"))
        late = [
            d.declared(k, f"{name}_{p}_late", f"{self._share(name, p)}[item + half_way]", fixed=True)
            for p, k in kinds.items()
        ]
        kept = [f"{self._share(name, p)}[item] = {name}_{p};" for p in kinds]
        turn = [
            "if (item < half_way) {",
            *(f"  {line}" for line in (*late, *self._assigned(name, merged), *kept)),
            "}",
        ]
        inner = [
            *kept, d.declared("int64", "half_way", d.number(d.items // 2, "int64"), fixed=False),
            "while (half_way > 0) {", f"  {d.barrier()}", *(f"  {line}" for line in turn),
            "  half_way = half_way / 2;", "}", d.barrier(),
            *(f"{name}_{p} = {self._share(name, p)}[0];" for p in kinds), d.barrier(),
        ]  # fmt: skip
        return ["{", *(f"  {line}" for line in inner), "}"]

    def _share(self, name: str, part: str) -> str:
        """Name an array in the group's memory: one namespace for all kernels of a file."""
        return f"{self.launch.name}_{name}_{part}"


Frame = Callable[[Launch, Body, list[str], list[str]], tuple[list[str], list[str]]]
"""(launch, body, buffers passed, lines of the body) → comment lines and text of one kernel."""


def print_program(
    program: Program, dialect: Dialect, launched: Sequence[Launch], frame: Frame
) -> tuple[list[str], list[str]]:
    """Return the comment lines that tell the language how to run it, and the text of its kernels."""
    temporaries = [b for b in program.buffers if b.role == "temporary"]
    outside = sorted((b for b in program.buffers if b.role != "temporary"), key=lambda b: b.position)
    scalars = {position: f"scalar{position}" for position, _ in program.scalars}
    named = sorted([*((b.position, b.name) for b in outside), *scalars.items()])
    head = [f"// arguments: {', '.join(name for _, name in named)}"]
    by_position = {b.position: b for b in outside}
    for name, (position, dim) in program.symbols.items():
        head.append(f"// launch: {name} = {by_position[position].name}.shape[{dim}]")
    for b in outside:
        shape = "".join(f"{text_of(s)}, " for s in b.shape)
        head.append(f'// launch: require = {b.name}.shape == ({shape}) and {b.name}.dtype == "{b.dtype}"')
    head += [f"// launch: require = {guard}" for guard in program.guards]
    head += [f"// launch: require = {scalars[p]} == {value!r}" for p, value in program.scalars]
    head += [f"// temporary: {b.name} = {b.dtype}[{text_of(b.elements)}]" for b in temporaries]
    text: dict[str, list[str]] = {}
    for launch in launched:
        body = Body(program, dialect, launch)
        lines = body.lines()
        passed = list(dict.fromkeys((*launch.loaded, *launch.stored)))
        said, code = frame(launch, body, passed, lines)
        head += said
        text.setdefault(launch.name, [*code, ""])
    return head, [line for lines in text.values() for line in lines]
