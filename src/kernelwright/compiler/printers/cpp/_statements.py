"""Statements as C++: stores, loops, lanes, threads."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...tile import (
    LANES,
    MONOIDS,
    Arith,
    Begin,
    Contraction,
    Expression,
    Kind,
    Let,
    Literal,
    Loop,
    Position,
    Program,
    Row,
    Statement,
    Store,
    Update,
    Variable,
    factors_of,
    number,
    offset,
    part_kind,
)  # fmt: skip
from .. import Unprintable
from ._accumulators import Accumulators
from ._ahead import Ahead
from ._bounds import bound
from ._jam import jammed, vector_offset, vectors, with_rows_jammed
from ._lanes import Lanes
from ._loops import factor, is_scan, shown_size, unparallel
from ._scalar import STORED, TYPES, Scalar, bare, converted, literal, size_text
from ._turned import copies

BLOCK = 4096
"""Elements that a thread takes at a time from a loop that is both over threads and over lanes."""
_SERIAL = 1 << 14
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Body(Accumulators):
    """Prints the body of one kernel.

    A vector loop without a vector form is printed element by element: equivalent, but slower.
    """

    contraction: Callable[[Contraction, Program, bool], list[str]] = field(kw_only=True)
    """Prints a contraction inside the kernel."""
    vector: bool = True
    """Whether vector loops are printed with lanes."""
    serial_below: int = _SERIAL
    ahead: Mapping[str, tuple[Ahead, ...]] = field(default_factory=dict)
    """Prefetches of loops over lanes and those inside them, by axis."""
    whole: tuple[str, ...] = ()
    """Sizes that are whole numbers of vectors in one version of the kernel."""
    wide: int = 1
    """How many vectors are side by side in what is printed."""
    own: Sequence[str] = ()
    """Names of which each thread has a copy: compilers keep those in registers, whatever a loop stores."""

    def print(self, body: Sequence[Statement], depth: int = 1) -> list[str]:
        """Print statements, indented."""
        lines: list[str] = []
        places = dict(self.scope.places)
        for s in body:
            printed = self._statement(s, depth)
            lines += ["  " * depth + line for line in self.scope.fresh or ()]
            self.scope.fresh = []
            lines += printed
        self.scope.places = places
        return lines

    def _statement(self, s: Statement, depth: int) -> list[str]:
        pad = "  " * depth
        if isinstance(s, Let):
            self.scope.bounds[s.name] = bound(s.value, self.scope.bounds)
        match s:
            case Let(name, value) if self._in_lanes and not Lanes(self.scope).varies(value):
                text = bare(Scalar(self.scope).text(value))
                return [f"{pad}const {TYPES[value.kind]} {name} = {text};"]
            case Let(name, value):
                line = f"{pad}const {self._type(value.kind)} {name} = {bare(self._value(value))};"
                self._declare(name, value.kind)
                return [line]
            case Store():
                return [pad + line for line in self._store(s)]
            case Row(buffer):
                size = bare(size_text(self.program.buffer(buffer).elements))
                kind = STORED[self.program.buffer(buffer).dtype]
                room = f"const kw::Room<{kind}> {buffer}_room({size});"
                return [f"{pad}{room}", f"{pad}{kind}* const {buffer} = {buffer}_room.data;"]
            case Begin():
                return self._begin(s, pad)
            case Update():
                return [pad + line for line in self._update(s)]
            case Loop():
                return self._loop(s, depth)
            case Contraction():
                return self._product(s, pad)

    def _product(self, s: Contraction, pad: str) -> list[str]:
        """Print a product within a kernel; the threads are those of the loops around it."""
        if self._in_lanes:
            raise Unprintable("a product in lanes")
        return [
            f"{pad}{{",
            *(pad + line for line in self.contraction(s, self.program, self.vector)),
            f"{pad}}}",
        ]

    # Stores --------------------------------------------------------------------------------------------

    def _store(self, s: Store) -> list[str]:
        buffer = self.program.buffer(s.buffer)
        place = offset(s.index, buffer.shape)
        kind = STORED[buffer.dtype]
        if not self._in_lanes:
            at, value = Scalar(self.scope).text(place), Scalar(self.scope).text(s.value)
            if s.combine:
                return [self._combined(f"{s.buffer}[{at}]", s.combine, value, kind)]
            return [f"{s.buffer}[{at}] = {converted(value, s.value.kind, buffer.dtype)};"]
        lanes = Lanes(self.scope)
        if s.combine:
            return [self._joined(s, lanes, place)]
        if not lanes.varies(place):
            raise Unprintable("lanes that store one element")
        text = lanes.text(s.value)
        if lanes.step(place) == number(1):
            at = Scalar(self.scope).text(place)
            if s.value.kind == "int64":
                if buffer.dtype != "int64":
                    raise Unprintable("stores of narrow integers in lanes")
                return [f"kw::store_integers({s.buffer} + {at}, {text}, lanes);"]
            past = f", {s.buffer}_past" if s.stream else ""
            return [f"kw::{'stream' if s.stream else 'store'}({s.buffer} + {at}, {bare(text)}, lanes{past});"]
        if lanes.step(place) == number(2) and buffer.dtype == "float32" and s.value.kind == "float32":
            return [f"kw::store_evens({s.buffer} + {Scalar(self.scope).text(place)}, {bare(text)}, lanes);"]
        at = lanes.one.text(place)
        element = "stored[k] != 0" if s.value.kind == "bool" else "stored[k]"
        element = converted(element, s.value.kind, buffer.dtype)
        each = f"for (int k = 0; k < lanes.count; ++k) {s.buffer}[{at}] = {element};"
        return [f"{{ const auto stored = {bare(text)};", f"  {each} }}"]

    def _joined(self, s: Store, lanes: Lanes, place: Expression) -> str:
        """Fold lanes into contiguous elements; no two lanes share one."""
        if lanes.step(place) != number(1) or s.value.kind != "float32":
            raise Unprintable("combining stores in lanes")
        at = f"{s.buffer} + {Scalar(self.scope).text(place)}"
        old, new = f"kw::load({at}, lanes)", lanes.text(s.value)
        sign = {"sum": "+", "prod": "*"}.get(s.combine)
        function = {"max": "maximum", "min": "minimum"}.get(s.combine)
        joined = f"{old} {sign} {new}" if sign else f"kw::{function}({old}, {new})"
        return f"kw::store({at}, {joined}, lanes);"

    @staticmethod
    def _combined(place: str, combine: str, value: str, kind: str) -> str:
        joined = {
            "sum": f"{place} + {value}", "prod": f"{place} * {value}",
            "max": f"kw::larger<double>({place}, {value})", "min": f"kw::smaller<double>({place}, {value})",
        }[combine]  # fmt: skip
        return f"{place} = static_cast<{kind}>({joined});"

    # Loops ---------------------------------------------------------------------------------------------

    def _loop(self, s: Loop, depth: int) -> list[str]:
        if self._in_lanes and any(map(Lanes(self.scope).varies, (s.begin, s.end))):
            raise Unprintable("lanes whose loops end apart")
        if s.vector and self.vector and not self._in_lanes:
            snapshot = self._snapshot()
            try:
                return self._vector_loop(s, depth)
            except Unprintable:
                self._restore(snapshot)
        if s.parallel:
            return self._parallel(s, depth)
        if s.ordered and self.vector and not self._in_lanes:
            snapshot, scanned = self._snapshot(), self.scanned
            try:
                return self._scan_loop(s, depth)
            except Unprintable:
                self._restore(snapshot)
            finally:
                self.scanned, self.narrowed = scanned, frozenset()
        return self._serial(s, depth)

    def _snapshot(self) -> tuple[dict[str, Kind], str, dict[tuple[str, str], str], dict[str, Begin]]:
        return dict(self.scope.lanes), self.scope.axis, dict(self.scope.parts), dict(self.monoids)

    def _restore(self, s: tuple[dict[str, Kind], str, dict[tuple[str, str], str], dict[str, Begin]]) -> None:
        self.scope.lanes, self.scope.axis, self.scope.parts, self.monoids = s
        self.paired, self.scope.fresh = frozenset(), []

    def _head(self, s: Loop) -> str:
        begin, end = (bare(Scalar(self.scope).text(e)) for e in (s.begin, s.end))
        return f"for (int64_t {s.axis} = {begin}; {s.axis} < {end}; ++{s.axis}) {{"

    def _serial(self, s: Loop, depth: int) -> list[str]:
        pad = "  " * depth
        if s.unroll > 1 and self.vector and not self._in_lanes:
            return self._rows(s, depth) or self._serial(replace(s, unroll=1), depth)
        asked = self.ahead.get(s.axis, ()) if self._in_lanes else ()
        turned = copies(self.scope, s) if self.vector and not self._in_lanes else []
        lines = [*(pad + line for line in turned), pad + self._head(s)]
        lines += [f"{pad}  {self._asked_down(a, s)}" for a in asked]
        return [*lines, *self.print(s.body, depth + 1), pad + "}"]

    def _rows(self, s: Loop, depth: int) -> list[str]:
        """Print a loop around lanes several iterations at a time, then the rest; nothing if that has no form."""
        pad, count, before = "  " * depth, s.unroll, self._snapshot()
        try:
            inner = self.print(jammed(s.body, s.axis, count), depth + 2)
        except Unprintable:
            return []
        finally:
            self._restore(before)
        begin, end = (bare(Scalar(self.scope).text(e)) for e in (s.begin, s.end))
        rest = self._serial(replace(s, begin=Variable(f"{s.axis}_row", "int64"), unroll=1), depth + 1)
        places = [f"{vector_offset(s.axis, k)} = {k}" for k in range(1, count)]
        return [
            f"{pad}{{", f"{pad}  int64_t {s.axis}_row = {begin};",
            f"{pad}  for (; {s.axis}_row + {count} <= {end}; {s.axis}_row += {count}) {{",
            f"{pad}    const int64_t {s.axis} = {s.axis}_row;", f"{pad}    constexpr int64_t {', '.join(places)};",
            *inner, f"{pad}  }}", *rest, f"{pad}}}",
        ]  # fmt: skip

    def _parallel(self, s: Loop, depth: int) -> list[str]:
        pad = "  " * depth
        nest, inner = [s], s
        while len(inner.body) == 1 and isinstance(inner.body[0], Loop) and inner.body[0].parallel:
            inner = inner.body[0]
            if inner.vector:
                break
            nest.append(inner)
        nest = with_rows_jammed(nest) if self.vector else nest
        last = nest[-1]
        plain = [Loop(n.axis, n.end, n.body, n.begin) for n in nest]
        folded = self._folded(s.body)
        collapse = f" collapse({len(nest)})" if len(nest) > 1 else ""
        factors = self._work(s)
        if not any(c.isalpha() for c in factors[0]):
            factors = [f"int64_t({bare(factors[0])})", *factors[1:]]
        work = " * ".join(map(factor, factors))
        condition = f"({work}) >= kSerialBelow"
        loop = [*(f"{pad}  {'  ' * i}{self._head(n)}" for i, n in enumerate(plain))]
        within = self.print(tuple(unparallel(b) for b in last.body), depth + 1 + len(nest))
        closing = [f"{pad}  {'  ' * i}}}" for i in reversed(range(len(plain)))]
        names = set(_NAME.findall(" ".join([*loop, *within])))
        own = f" firstprivate({', '.join(n for n in self.own if n in names)})" if names & {*self.own} else ""
        if not folded:
            pragma = f"#pragma omp parallel for schedule(static){collapse}{own} if ({condition})"
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
            f"{pad}#pragma omp parallel num_threads(team){own}", f"{pad}{{",
            f"{pad}  #pragma omp single", f"{pad}  used = omp_get_num_threads();", *local,
            f"{pad}  #pragma omp for schedule(static){collapse}", *loop, *within, *closing, *after, f"{pad}}}",
            f"{pad}for (int t = 0; t < used; ++t) {{", *merged, f"{pad}}}", f"{pad}}}",
        ]  # fmt: skip

    def _work(self, s: Loop) -> list[str]:
        """Print the sizes of the longest path of loops."""
        inner = [self._work(b) for b in s.body if isinstance(b, Loop)]
        here = Scalar(self.scope).text(shown_size(s))
        best = max(inner, key=len, default=[])
        return [here, *best]

    # Lanes ---------------------------------------------------------------------------------------------

    def _vector_loop(self, s: Loop, depth: int) -> list[str]:
        """Print whole vectors, then the tail; accumulators begun outside get lanes of their own."""
        pad = "  " * depth
        if s.parallel:
            return self._blocks(s, depth)
        folded = self._folded(s.body)
        unroll = self._vectors_in_flight(s, folded)
        begin, end = (bare(Scalar(self.scope).text(e)) for e in (s.begin, s.end))
        declared, joined = [], []
        before = self._snapshot()
        for name in folded:
            one, two = self._lane_state(name, unroll, pad)
            declared += one
            joined += two
        self.scope.axis = s.axis
        inner = [f"{pad}    {self._asked(a)}" for a in self.ahead.get(s.axis, ())]
        inner += self.print(s.body, depth + 2)
        sums = sorted(self.paired)
        self._restore((before[0], before[1], before[2], {**self.monoids}))
        u, zero, run = (", int u", ", 0", ", u") if unroll > 1 else ("", "", "")
        taken = "".join(f" {n}_value_lanes += kw::widen({n}_terms[0]);" for n in sums)
        several = [] if folded else self._several(s, depth)
        lines = [
            f"{pad}{{", *declared,
            f"{pad}  const auto step = [&](int64_t {s.axis}, auto lanes{u}) __attribute__((always_inline)) {{", *inner,
            f"{pad}  }};", f"{pad}  int64_t at = {begin};", f"{pad}  const int64_t end = {end};", *several,
        ]  # fmt: skip
        if unroll > 1:
            lines += [
                f"{pad}  for (; at + {unroll} * kw::W <= end; at += {unroll} * kw::W) {{",
                f"{pad}    #pragma GCC unroll {unroll}",
                f"{pad}    for (int u = 0; u < {unroll}; ++u) step(at + u * kw::W, kw::Full{{}}{run});",
                *(f"{pad}    {n}_value_lanes += kw::widen(kw::added<{unroll}>({n}_terms));" for n in sums),
                f"{pad}  }}",
            ]  # fmt: skip
        lines += [
            f"{pad}  for (; at + kw::W <= end; at += kw::W) {{ step(at, kw::Full{{}}{zero});{taken} }}",
            f"{pad}  if ({self._tail(s)}) {{ step(at, kw::Part{{static_cast<int>(end - at)}}{zero});{taken} }}",
            *joined, f"{pad}}}",
        ]  # fmt: skip
        return lines

    def _tail(self, s: Loop) -> str:
        """Print whether a loop over lanes ends in a part of a vector."""
        whole = [f"!whole_{name}" for name in self.whole if name in factors_of(s)]
        return " && ".join([*whole, "at < end"])

    def _asked(self, ahead: Ahead) -> str:
        place = f"{ahead.buffer} + {Scalar(self.scope).text(ahead.place)}"
        if ahead.further is None:
            elements = size_text(self.program.buffer(ahead.buffer).elements)
            return f"kw::{'write' if ahead.writes else 'read'}_ahead({place}, {bare(elements)});"
        return f"kw::prefetch({place} + kw::near({bare(Scalar(self.scope).text(ahead.further))}));"

    def _asked_down(self, ahead: Ahead, s: Loop) -> str:
        assert ahead.further is not None
        rows, row, place = (bare(Scalar(self.scope).text(e)) for e in (s.end, ahead.further, ahead.place))
        elements = bare(size_text(self.program.buffer(ahead.buffer).elements))
        return f"kw::columns_ahead<{self.wide}>({ahead.buffer} + ({place}), {elements}, {s.axis}, {rows}, {row});"

    def _scan_loop(self, s: Loop, depth: int) -> list[str]:
        """Print a scan over lanes: what it folds joins the lanes before it, and the vectors before it by one value."""
        folded, before = frozenset(self._folded(s.body)), self._snapshot()
        if not folded or not is_scan(s.body, folded):
            raise Unprintable("iterations that wait for each other in another way than by what they fold")
        self.scanned, self.scope.axis, pad = folded, s.axis, "  " * depth
        body = self.print(self._narrowed(s.body, folded), depth + 2)
        self._restore(before)
        begin, end = (bare(Scalar(self.scope).text(e)) for e in (s.begin, s.end))
        return [
            f"{pad}{{",
            f"{pad}  const auto step = [&](int64_t {s.axis}, auto lanes) __attribute__((always_inline)) {{", *body,
            f"{pad}  }};", f"{pad}  int64_t at = {begin};", f"{pad}  const int64_t end = {end};",
            f"{pad}  for (; at + kw::W <= end; at += kw::W) step(at, kw::Full{{}});",
            f"{pad}  if (at < end) step(at, kw::Part{{static_cast<int>(end - at)}});", f"{pad}}}",
        ]  # fmt: skip

    def _several(self, s: Loop, depth: int) -> list[str]:
        """Print a loop over several vectors side by side, around the loops within; nothing if there are none."""
        pad, before, count = "  " * depth, self._snapshot(), vectors(s)
        if count == 1:
            return []
        try:
            self.wide = count
            body = jammed(s.body, s.axis, count)
            self.scope.axis = s.axis
            inner = self.print(body, depth + 2)
        except Unprintable:
            return []
        finally:
            self._restore(before)
            self.wide = 1
        places = [f"{vector_offset(s.axis, k)} = {k} * kw::W" for k in range(1, count)]
        return [
            f"{pad}  for (; at + {count} * kw::W <= end; at += {count} * kw::W) {{",
            f"{pad}    const int64_t {s.axis} = at;", f"{pad}    constexpr int64_t {', '.join(places)};",
            f"{pad}    constexpr kw::Full lanes{{}};", *inner, f"{pad}  }}",
        ]  # fmt: skip

    def _blocks(self, s: Loop, depth: int) -> list[str]:
        """Give threads whole blocks of a loop that is over lanes too."""
        block = BLOCK if not any(isinstance(b, Loop) for b in s.body) else max(64, LANES * s.unroll)
        at = Position(f"{s.axis}_block")
        first = Arith("*", at, Literal(block, "int64"))
        last = Arith("min", Arith("+", first, Literal(block, "int64")), s.end)
        inner = Loop(s.axis, last, s.body, first, vector=True, unroll=s.unroll)
        count = Arith("//", Arith("+", s.end, Literal(block - 1, "int64")), Literal(block, "int64"))
        outer = Loop(f"{s.axis}_block", count, (inner,), parallel=True)
        return self._parallel(outer, depth)
