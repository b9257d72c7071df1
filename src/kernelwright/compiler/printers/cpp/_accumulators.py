"""Accumulators as C++: their state, how elements enter it, how states of lanes and threads are merged."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ...tile import (
    MONOIDS,
    Begin,
    Call,
    Expression,
    Kind,
    Literal,
    Loop,
    Program,
    Result,
    Statement,
    Update,
    Variable,
    expressions,
    mapped,
    part_kind,
    statements,
    substitute,
    walk,
)  # fmt: skip
from .. import Unprintable
from ._lanes import VECTORS, Lanes
from ._scalar import TYPES, Scalar, Scope, bare, literal

_SCANS = {"sum": ("kw::Plus", "0.0f"), "prod": ("kw::Times", "1.0f")}
"""Monoid → how two states merge, and its identity."""
_TERMS, _MOST_TERMS = 4, 16
"""Vectors of float32 that are added before a sum in float64 takes them in: for each in flight, and at most."""


@dataclass
class Accumulators:
    """Prints how accumulators begin, fold and are merged: scalars, lanes, and the states of threads."""

    program: Program
    scope: Scope = field(init=False)
    monoids: dict[str, Begin] = field(default_factory=dict)
    scanned: frozenset[str] = frozenset()
    """Accumulators of which every state along the lanes is needed, not only the last."""
    narrowed: frozenset[str] = frozenset()
    """Scans in float64 whose states are float32."""
    paired: frozenset[str] = frozenset()
    """Sums in float64 that take in vectors several at a time, added in pairs before they are widened."""

    def __post_init__(self) -> None:
        self.scope = Scope(self.program, fresh=[])

    @property
    def _in_lanes(self) -> bool:
        return bool(self.scope.axis)

    def _value(self, e: Expression) -> str:
        return Lanes(self.scope).text(e) if self._in_lanes else Scalar(self.scope).text(e)

    def _type(self, kind: Kind) -> str:
        return VECTORS[kind] if self._in_lanes else TYPES[kind]

    def _declare(self, name: str, kind: Kind) -> None:
        if self._in_lanes:
            self.scope.lanes[name] = kind

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
        if s.name in self.scanned:
            return self._scan(s, begin)
        monoid = MONOIDS[begin.monoid]
        names = {part: self.scope.parts.get((s.name, part), f"{s.name}_{part}") for part in monoid.parts}
        lanes = self._in_lanes and names[next(iter(names))] in self.scope.lanes
        if self._in_lanes and not lanes:
            raise Unprintable("an accumulator begun outside of the lanes")
        if begin.kind == "float64" and lanes:
            return self._wide(s, begin.monoid, names["value"])
        state = {part: Result(s.name, part, part_kind(part, begin.kind)) for part in monoid.parts}
        value = s.value
        lines = []
        if not isinstance(value, Literal):
            self._declare(f"{s.name}_x", value.kind)
            lines.append(f"const {self._type(value.kind)} {s.name}_x = {bare(self._value(value))};")
            value = Variable(f"{s.name}_x", value.kind)
        new = monoid.update(state, value, s.position)
        if len(new) == 1:
            ((part, e),) = new.items()
            return [
                "{",
                *("  " + x for x in lines),
                f"  {names[part]} = {self._kept(s, self._value(e), names[part])};",
                "}",
            ]
        for part, e in new.items():
            kind = part_kind(part, begin.kind)
            lines.append(f"const {self._type(kind)} {s.name}_{part}_new = {bare(self._value(e))};")
        for part in new:
            lines.append(f"{names[part]} = {self._kept(s, f'{s.name}_{part}_new', names[part])};")
        return ["{", *("  " + x for x in lines), "}"]

    def _kept(self, s: Update, fresh: str, old: str) -> str:
        return f"kw::keep(lanes, {bare(fresh)}, {old})" if self._joins(s) else bare(fresh)

    def _joins(self, s: Update) -> bool:
        """Whether lanes are merged in the end, so that those beyond a tail must not count."""
        return any(name == s.name for name, _ in self.scope.parts)

    def _scan(self, s: Update, begin: Begin) -> list[str]:
        """Fold lanes sequentially: each lane's state is named, the last is carried over."""
        value = s.value.args[0] if isinstance(s.value, Call) and s.value.op == "cast" else s.value
        if begin.monoid not in _SCANS or value is None or value.kind != "float32":
            raise Unprintable(f"a scan of {begin.monoid} in lanes")
        join, start = _SCANS[begin.monoid]
        found, name = self._value(value), f"{s.name}_run"
        kind: Kind = "float32" if s.name in self.narrowed else begin.kind
        self.scope.parts[s.name, "value"] = name
        self._declare(name, kind)
        given = f"kw::keep(lanes, {found}, kw::splat({start}))"
        given = f"kw::widen({given})" if kind == "float64" else given
        return [f"const {VECTORS[kind]} {name} = kw::scan<{join}>({given}, {s.name}_value);"]

    def _narrowed(self, body: Sequence[Statement], folded: Collection[str]) -> Sequence[Statement]:
        """Scan sums within a vector in float32 where each state is rounded to that; what is carried is float64."""

        def by(e: Expression) -> Expression | None:
            match e:
                case Call("cast", (Result(name, part, "float64"),), _, "float32") if name in sums:
                    return Result(name, part, "float32")
                case _:
                    return None

        sums = {n for n in folded if self.monoids[n].monoid == "sum" and self.monoids[n].kind == "float64"}
        new = [mapped(s, lambda e: substitute(e, by)) for s in body]
        read = {e for s in new for x in expressions(s) for e in walk(x) if isinstance(e, Result)}
        if any(e.accumulator in sums and e.kind == "float64" for e in read):
            return body
        self.narrowed = frozenset(sums)
        return new

    def _wide(self, s: Update, monoid: str, name: str) -> list[str]:
        """Fold float lanes into double ones."""
        value = s.value
        if monoid not in ("sum", "prod"):
            raise Unprintable("double precision lanes")
        inner = value.args[0] if isinstance(value, Call) and value.op == "cast" else value
        assert inner is not None
        text = self._value(inner)
        if inner.kind != "float32":
            raise Unprintable("double precision lanes")
        start = "kw::splat(0.0f)" if monoid == "sum" else "kw::splat(1.0f)"
        given = f"kw::keep(lanes, {text}, {start})" if self._joins(s) else text
        if s.name in self.paired:
            return [f"{s.name}_terms[u] = {given};"]
        return [f"{name} {'+' if monoid == 'sum' else '*'}= kw::widen({given});"]

    def _vectors_in_flight(self, s: Loop, folded: Sequence[str]) -> int:
        """Return how many vectors a loop takes at a time, and note which sums take them in pairs."""
        if not folded or any(isinstance(b, Loop) for b in s.body):
            return 1
        paired = self._sums_in_pairs(s, folded)
        unroll = min(_MOST_TERMS, _TERMS * s.unroll) if len(paired) == len(folded) else s.unroll
        self.paired = paired if unroll > 1 else frozenset()
        return unroll

    def _sums_in_pairs(self, s: Loop, folded: Sequence[str]) -> frozenset[str]:
        """Name the sums in float64 of a loop over lanes that wait for nothing but their own terms.

        Terms are added in pairs, in float32: the few roundings that follow one another are within what any contract
        allows, and widening each vector would take longer than everything else.
        """
        times = Counter(b.name for b in s.body if isinstance(b, Update))
        read = {
            e.accumulator for b in s.body for x in expressions(b) for e in walk(x) if isinstance(e, Result)
        }
        sums = (n for n in folded if self.monoids[n].monoid == "sum" and self.monoids[n].kind == "float64")
        return frozenset(n for n in sums if times[n] == 1 and n not in read)

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

    def _lane_state(self, name: str, unroll: int, pad: str) -> tuple[list[str], list[str]]:
        """Declare lanes for an accumulator's state; print how they are merged and folded into the scalar one."""
        begin = self.monoids[name]
        monoid = MONOIDS[begin.monoid]
        declared, folds = [], []
        if name in self.paired:
            declared.append(f"{pad}  kw::F {name}_terms[{unroll}];")
            unroll = 1
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

    def _folded(self, body: Sequence[Statement]) -> list[str]:
        """Name the accumulators that statements fold into and that were begun outside of them."""
        own = {s.name for s in statements(tuple(body)) if isinstance(s, Begin)}
        found = [s.name for s in statements(tuple(body)) if isinstance(s, Update) and s.name not in own]
        return list(dict.fromkeys(found))
