"""Statements as C++: loops, accumulators, lanes, threads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..printing import Unprintable
from ..tile import (
    MONOIDS,
    Arith,
    Begin,
    Call,
    Expression,
    Kind,
    Let,
    Literal,
    Loop,
    Position,
    Program,
    Result,
    Statement,
    Store,
    Update,
    number,
    offset,
    part_kind,
    statements,
    stride,
)  # fmt: skip
from ._lanes import VECTORS, Lanes
from ._scalar import STORED, TYPES, Scalar, Scope, bare, literal

BLOCK = 4096
"""Elements that a thread takes at a time from a loop that is both over threads and over lanes."""
_SERIAL = 1 << 14


@dataclass
class Body:
    """Prints the body of one kernel.

    A vector loop that has no lanes' form is printed element by element: the same, only slower.
    """

    program: Program
    scope: Scope = field(init=False)
    monoids: dict[str, Begin] = field(default_factory=dict)
    vector: bool = True
    """Whether vector loops are printed with lanes."""
    serial_below: int = _SERIAL

    def __post_init__(self) -> None:
        self.scope = Scope(self.program)

    def print(self, body: Sequence[Statement], depth: int = 1) -> list[str]:
        """Print statements, indented."""
        lines: list[str] = []
        for s in body:
            lines += self._statement(s, depth)
        return lines

    @property
    def _in_lanes(self) -> bool:
        return bool(self.scope.axis)

    def _value(self, e: Expression) -> str:
        return Lanes(self.scope).text(e) if self._in_lanes else Scalar(self.scope).text(e)

    def _statement(self, s: Statement, depth: int) -> list[str]:
        pad = "  " * depth
        match s:
            case Let(name, value):
                line = f"{pad}const {self._type(value.kind)} {name} = {bare(self._value(value))};"
                self._declare(name, value.kind)
                return [line]
            case Store():
                return [pad + line for line in self._store(s)]
            case Begin():
                return self._begin(s, pad)
            case Update():
                return [pad + line for line in self._update(s)]
            case Loop():
                return self._loop(s, depth)

    def _type(self, kind: Kind) -> str:
        return VECTORS[kind] if self._in_lanes else TYPES[kind]

    def _declare(self, name: str, kind: Kind) -> None:
        if self._in_lanes:
            self.scope.lanes[name] = kind

    # Accumulators --------------------------------------------------------------------------------------

    def _begin(self, s: Begin, pad: str) -> list[str]:
        self.monoids[s.name] = s
        lines = []
        for part, start in MONOIDS[s.monoid].parts.items():
            kind = part_kind(part, s.kind)
            name = f"{s.name}_{part}"
            text = literal(start, kind)
            lines.append(
                f"{pad}{self._type(kind)} {name} = {Lanes._spread(text, kind) if self._in_lanes else text};"
            )
            self._declare(name, kind)
        return lines

    def _update(self, s: Update) -> list[str]:
        begin = self.monoids[s.name]
        monoid = MONOIDS[begin.monoid]
        names = {part: self.scope.parts.get((s.name, part), f"{s.name}_{part}") for part in monoid.parts}
        lanes = self._in_lanes and names[next(iter(names))] in self.scope.lanes
        if self._in_lanes and not lanes:
            raise Unprintable("an accumulator begun outside of the lanes")
        if begin.kind == "float64" and lanes:
            return self._wide(begin.monoid, names["value"], s.value)
        state = {part: Result(s.name, part, part_kind(part, begin.kind)) for part in monoid.parts}
        value = s.value
        lines = []
        if not isinstance(value, Literal):
            self._declare(f"{s.name}_x", value.kind)
            lines.append(f"const {self._type(value.kind)} {s.name}_x = {bare(self._value(value))};")
            from ..tile import Variable

            value = Variable(f"{s.name}_x", value.kind)
        new = monoid.update(state, value, s.position)
        if len(new) == 1:
            ((part, e),) = new.items()
            return [
                "{",
                *("  " + x for x in lines),
                f"  {names[part]} = {self._kept(self._value(e), names[part])};",
                "}",
            ]
        for part, e in new.items():
            kind = part_kind(part, begin.kind)
            lines.append(f"const {self._type(kind)} {s.name}_{part}_new = {bare(self._value(e))};")
        for part in new:
            lines.append(f"{names[part]} = {self._kept(f'{s.name}_{part}_new', names[part])};")
        return ["{", *("  " + x for x in lines), "}"]

    def _kept(self, fresh: str, old: str) -> str:
        return f"kw::keep(lanes, {bare(fresh)}, {old})" if self._in_lanes else bare(fresh)

    def _wide(self, monoid: str, name: str, value: Expression) -> list[str]:
        """Fold float lanes into double ones."""
        if monoid not in ("sum", "prod"):
            raise Unprintable("double precision lanes")
        inner = value.args[0] if isinstance(value, Call) and value.op == "cast" else value
        assert inner is not None
        text = self._value(inner)
        if inner.kind != "float32":
            raise Unprintable("double precision lanes")
        start = "kw::splat(0.0f)" if monoid == "sum" else "kw::splat(1.0f)"
        return [f"{name} {'+' if monoid == 'sum' else '*'}= kw::widen(kw::keep(lanes, {text}, {start}));"]

    # Stores --------------------------------------------------------------------------------------------

    def _store(self, s: Store) -> list[str]:
        buffer = self.program.buffer(s.buffer)
        place = offset(s.index, buffer.shape)
        kind = STORED[buffer.dtype]
        if not self._in_lanes:
            at, value = Scalar(self.scope).text(place), Scalar(self.scope).text(s.value)
            if s.combine:
                return [self._combined(f"{s.buffer}[{at}]", s.combine, value, kind)]
            return [f"{s.buffer}[{at}] = {_converted(value, s.value.kind, buffer.dtype)};"]
        if s.combine:
            raise Unprintable("combining stores in lanes")
        lanes = Lanes(self.scope)
        if not lanes.varies(place):
            raise Unprintable("lanes that store one element")
        text = lanes.text(s.value)
        if stride(place, self.scope.axis) == number(1) and not lanes._names_vary(place):
            at = Scalar(self.scope).text(place)
            if s.value.kind == "int64":
                if buffer.dtype != "int64":
                    raise Unprintable("stores of narrow integers in lanes")
                return [f"kw::store_integers({s.buffer} + {at}, {text}, lanes);"]
            return [f"kw::{'stream' if s.stream else 'store'}({s.buffer} + {at}, {bare(text)}, lanes);"]
        at = lanes.one.text(place)
        element = "stored[k] != 0" if s.value.kind == "bool" else "stored[k]"
        element = _converted(element, s.value.kind, buffer.dtype)
        each = f"for (int k = 0; k < lanes.count; ++k) {s.buffer}[{at}] = {element};"
        return [f"{{ const auto stored = {bare(text)};", f"  {each} }}"]

    @staticmethod
    def _combined(place: str, combine: str, value: str, kind: str) -> str:
        joined = {
            "sum": f"{place} + {value}", "prod": f"{place} * {value}",
            "max": f"kw::larger<double>({place}, {value})", "min": f"kw::smaller<double>({place}, {value})",
        }[combine]  # fmt: skip
        return f"{place} = static_cast<{kind}>({joined});"

    # Loops ---------------------------------------------------------------------------------------------

    def _loop(self, s: Loop, depth: int) -> list[str]:
        if s.vector and self.vector and not self._in_lanes:
            snapshot = self._snapshot()
            try:
                return self._vector_loop(s, depth)
            except Unprintable:
                self._restore(snapshot)
        if s.parallel:
            return self._parallel(s, depth)
        return self._serial(s, depth)

    def _snapshot(self) -> tuple[dict[str, Kind], str, dict[tuple[str, str], str], dict[str, Begin]]:
        return dict(self.scope.lanes), self.scope.axis, dict(self.scope.parts), dict(self.monoids)

    def _restore(self, s: tuple[dict[str, Kind], str, dict[tuple[str, str], str], dict[str, Begin]]) -> None:
        self.scope.lanes, self.scope.axis, self.scope.parts, self.monoids = s

    def _head(self, s: Loop) -> str:
        begin, end = (bare(Scalar(self.scope).text(e)) for e in (s.begin, s.end))
        return f"for (int64_t {s.axis} = {begin}; {s.axis} < {end}; ++{s.axis}) {{"

    def _serial(self, s: Loop, depth: int) -> list[str]:
        pad = "  " * depth
        return [pad + self._head(s), *self.print(s.body, depth + 1), pad + "}"]

    def _folded(self, body: Sequence[Statement]) -> list[str]:
        """Name the accumulators that statements fold into and that were begun outside of them."""
        own = {s.name for s in statements(tuple(body)) if isinstance(s, Begin)}
        found = [s.name for s in statements(tuple(body)) if isinstance(s, Update) and s.name not in own]
        return list(dict.fromkeys(found))

    def _parallel(self, s: Loop, depth: int) -> list[str]:
        pad = "  " * depth
        nest, inner = [s], s
        while len(inner.body) == 1 and isinstance(inner.body[0], Loop) and inner.body[0].parallel:
            inner = inner.body[0]
            if inner.vector:
                break
            nest.append(inner)
        last = nest[-1]
        plain = [Loop(n.axis, n.end, n.body, n.begin) for n in nest]
        folded = self._folded(s.body)
        collapse = f" collapse({len(nest)})" if len(nest) > 1 else ""
        work = " * ".join(_factor(text) for text in self._work(s))
        condition = f"({work}) >= kSerialBelow"
        loop = [*(f"{pad}  {'  ' * i}{self._head(n)}" for i, n in enumerate(plain))]
        within = self.print(tuple(_unparallel(b) for b in last.body), depth + 1 + len(nest))
        closing = [f"{pad}  {'  ' * i}}}" for i in reversed(range(len(plain)))]
        if not folded:
            pragma = f"#pragma omp parallel for schedule(static){collapse} if ({condition})"
            return [f"{pad}{pragma}", *(line[2:] for line in (*loop, *within, *closing))]
        before, local, after, merged = [], [], [], []
        for name in folded:
            begin = self.monoids[name]
            for part, start in MONOIDS[begin.monoid].parts.items():
                kind = part_kind(part, begin.kind)
                type_ = TYPES[kind]
                before.append(f"{pad}const std::unique_ptr<{type_}[]> {name}_{part}_of(new {type_}[team]);")
                local.append(f"{pad}  {type_} {name}_{part} = {literal(start, kind)};")
                after.append(f"{pad}  {name}_{part}_of[omp_get_thread_num()] = {name}_{part};")
            merged += self._merge(
                name, {p: f"{name}_{p}_of[t]" for p in MONOIDS[begin.monoid].parts}, pad + "    "
            )
        return [
            f"{pad}{{", f"{pad}const int team = ({work}) >= kSerialBelow ? omp_get_max_threads() : 1;",
            f"{pad}int used = 1;", *before,
            f"{pad}#pragma omp parallel num_threads(team)", f"{pad}{{",
            f"{pad}  #pragma omp single", f"{pad}  used = omp_get_num_threads();", *local,
            f"{pad}  #pragma omp for schedule(static){collapse}", *loop, *within, *closing, *after, f"{pad}}}",
            f"{pad}for (int t = 0; t < used; ++t) {{", *merged, f"{pad}}}", f"{pad}}}",
        ]  # fmt: skip

    def _work(self, s: Loop) -> list[str]:
        """Print the sizes of the longest path of loops."""
        inner = [self._work(b) for b in s.body if isinstance(b, Loop)]
        here = Scalar(self.scope).text(_shown_size(s))
        best = max(inner, key=len, default=[])
        return [here, *best]

    def _merge(self, name: str, other: Mapping[str, str], pad: str) -> list[str]:
        """Print the join of an accumulator's scalar state with another, whose parts have those texts."""
        begin = self.monoids[name]
        monoid = MONOIDS[begin.monoid]
        lines = [pad + "{"]
        outer = Scope(self.program, parts=dict(self.scope.parts))
        state, late = {}, {}
        for part in monoid.parts:
            kind = part_kind(part, begin.kind)
            state[part] = Result(name, part, kind)
            late[part] = Result(f"{name}_late", part, kind)
            lines.append(f"{pad}  const {TYPES[kind]} {name}_late_{part} = {other[part]};")
        new = monoid.merge(state, late)
        for part, e in new.items():
            kind = part_kind(part, begin.kind)
            lines.append(f"{pad}  const {TYPES[kind]} {name}_{part}_new = {bare(Scalar(outer).text(e))};")
        lines += [f"{pad}  {name}_{part} = {name}_{part}_new;" for part in new]
        return [*lines, pad + "}"]

    # Lanes ---------------------------------------------------------------------------------------------

    def _vector_loop(self, s: Loop, depth: int) -> list[str]:
        """Print whole vectors, then the tail; accumulators begun outside get lanes of their own."""
        pad = "  " * depth
        if s.parallel:
            return self._blocks(s, depth)
        folded = self._folded(s.body)
        unroll = s.unroll if folded else 1
        begin, end = (bare(Scalar(self.scope).text(e)) for e in (s.begin, s.end))
        declared, joined = [], []
        before = self._snapshot()
        for name in folded:
            one, two = self._lane_state(name, unroll, pad)
            declared += one
            joined += two
        self.scope.axis = s.axis
        inner = self.print(s.body, depth + 2)
        self._restore((before[0], before[1], before[2], {**self.monoids}))
        u = ", int u" if unroll > 1 else ""
        zero, run = (", 0", ", u") if unroll > 1 else ("", "")
        lines = [
            f"{pad}{{", *declared,
            f"{pad}  const auto step = [&](int64_t {s.axis}, auto lanes{u}) __attribute__((always_inline)) {{", *inner,
            f"{pad}  }};", f"{pad}  int64_t at = {begin};", f"{pad}  const int64_t end = {end};",
        ]  # fmt: skip
        if unroll > 1:
            lines += [
                f"{pad}  for (; at + {unroll} * kw::W <= end; at += {unroll} * kw::W) {{",
                f"{pad}    #pragma GCC unroll {unroll}",
                f"{pad}    for (int u = 0; u < {unroll}; ++u) step(at + u * kw::W, kw::Full{{}}{run});", f"{pad}  }}",
            ]  # fmt: skip
        lines += [
            f"{pad}  for (; at + kw::W <= end; at += kw::W) step(at, kw::Full{{}}{zero});",
            f"{pad}  if (at < end) step(at, kw::Part{{static_cast<int>(end - at)}}{zero});", *joined, f"{pad}}}",
        ]  # fmt: skip
        return lines

    def _blocks(self, s: Loop, depth: int) -> list[str]:
        """Give threads whole blocks of a loop that is over lanes too."""
        block = BLOCK if not any(isinstance(b, Loop) for b in s.body) else 64
        at = Position(f"{s.axis}_block")
        first = Arith("*", at, Literal(block, "int64"))
        last = Arith("min", Arith("+", first, Literal(block, "int64")), s.end)
        inner = Loop(s.axis, last, s.body, first, vector=True, unroll=s.unroll)
        count = Arith("//", Arith("+", s.end, Literal(block - 1, "int64")), Literal(block, "int64"))
        outer = Loop(f"{s.axis}_block", count, (inner,), parallel=True)
        return self._parallel(outer, depth)

    def _lane_state(self, name: str, unroll: int, pad: str) -> tuple[list[str], list[str]]:
        """Declare lanes for an accumulator's state; print how they are joined and folded into the scalar one."""
        begin = self.monoids[name]
        monoid = MONOIDS[begin.monoid]
        declared, folds = [], []
        width = f"[{unroll}]" if unroll > 1 else ""
        for part, start in monoid.parts.items():
            kind = part_kind(part, begin.kind)
            text = Lanes._spread(literal(start, kind), kind)
            filled = f"{{{', '.join([text] * unroll)}}}" if unroll > 1 else text
            declared.append(f"{pad}  {VECTORS[kind]} {name}_{part}_lanes{width} = {filled};")
            spot = f"{name}_{part}_lanes{'[u]' if unroll > 1 else ''}"
            self.scope.parts[name, part] = spot
            self.scope.lanes[spot] = kind
        if begin.kind == "float64":
            if begin.monoid not in ("sum", "prod"):
                raise Unprintable("double precision lanes")
            for u in range(unroll):
                one = f"{name}_value_lanes" + (f"[{u}]" if unroll > 1 else "")
                function, sign = ("sum", "+") if begin.monoid == "sum" else ("product", "*")
                folds.append(f"{pad}  {name}_value {sign}= kw::{function}_lanes({one});")
            return declared, folds
        folds += self._join_lanes(name, begin, unroll, pad + "  ")
        return declared, folds

    def _join_lanes(self, name: str, begin: Begin, unroll: int, pad: str) -> list[str]:
        monoid = MONOIDS[begin.monoid]
        kinds = {part: part_kind(part, begin.kind) for part in monoid.parts}
        scope = Scope(self.program)
        for part, kind in kinds.items():
            for stem in ("a", "b"):
                scope.lanes[f"{stem}_{part}"] = kind
        scope.axis = "none"
        first = {p: Result("a", p, k) for p, k in kinds.items()}
        second = {p: Result("b", p, k) for p, k in kinds.items()}
        new = {p: bare(Lanes(scope).text(e)) for p, e in monoid.merge(first, second).items()}
        pick = "[0]" if unroll > 1 else ""
        lines = [f"{pad}{{"]
        lines += [f"{pad}  {VECTORS[k]} a_{p} = {name}_{p}_lanes{pick};" for p, k in kinds.items()]
        lines.append(
            f"{pad}  const auto join = [&]({', '.join(f'{VECTORS[k]} b_{p}' for p, k in kinds.items())}) {{"
        )
        lines += [f"{pad}    const {VECTORS[kinds[p]]} n_{p} = {text};" for p, text in new.items()]
        lines += [f"{pad}    a_{p} = n_{p};" for p in new]
        lines.append(f"{pad}  }};")
        for u in range(1, unroll):
            lines.append(f"{pad}  join({', '.join(f'{name}_{p}_lanes[{u}]' for p in kinds)});")
        turned = ", ".join(f"kw::turned(a_{p}, step)" for p in kinds)
        lines.append(f"{pad}  for (int step = kw::W / 2; step > 0; step /= 2) join({turned});")
        other = {p: f"(a_{p}[0] != 0)" if k == "bool" else f"a_{p}[0]" for p, k in kinds.items()}
        saved, self.scope.parts = self.scope.parts, {
            key: v for key, v in self.scope.parts.items() if key[0] != name
        }  # fmt: skip
        lines += self._merge(name, other, pad + "  ")
        self.scope.parts = saved
        return [*lines, f"{pad}}}"]


def _unparallel(s: Statement) -> Statement:
    if isinstance(s, Loop):
        from dataclasses import replace

        return replace(s, parallel=False, body=tuple(map(_unparallel, s.body)))
    return s


def _shown_size(s: Loop) -> Expression:
    """Return a loop's extent where it is known outside of it; a block's size otherwise."""
    if isinstance(s.end, Arith) and s.end.sign == "min":
        return Literal(BLOCK, "int64")
    return s.end


def _factor(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() or text.startswith("(") else f"({text})"


def _converted(value: str, kind: Kind, dtype: str) -> str:
    """Convert a value to what a buffer holds."""
    if dtype in ("float32", "float64") and kind in ("float32", "float64") and dtype == kind:
        return bare(value)
    if dtype in ("int64", "bool") and kind == dtype:
        return bare(value)
    if dtype in ("float16", "bfloat16"):
        return f"{STORED[dtype]}(static_cast<float>({bare(value)}))"
    return f"static_cast<{STORED[dtype]}>({bare(value)})"
