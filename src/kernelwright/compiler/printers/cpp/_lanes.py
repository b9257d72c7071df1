"""Expressions of a vector loop as C++ over the vectors of `vector.h`."""

from dataclasses import dataclass, replace

from ....languages.vectors import Term, print_pointwise
from ....languages.vectors import Unprintable as NoVector
from ...graph import Size
from ...tile import (
    Arith,
    Call,
    Expression,
    Extent,
    Guard,
    Kind,
    Literal,
    Load,
    Position,
    Result,
    Variable,
    number,
    offset,
    positions,
    stride,
    substitute,
    walk,
)  # fmt: skip
from .. import Unprintable
from ._bounds import MOST, bound
from ._scalar import Scalar, Scope, bare, literal, size_text

VECTORS = {"float32": "kw::F", "float64": "kw::Wide", "int64": "kw::M", "bool": "kw::M"}
"""Vector types by kind; integers are lanes of 32 bits."""
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LOGIC = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}


@dataclass
class Lanes:
    """Prints expressions as vectors; raises `Unprintable` if there is no vector form."""

    scope: Scope

    @property
    def one(self) -> Scalar:
        """Prints one lane, `k`."""
        return Scalar(self.scope, lane=True)

    def varies(self, e: Expression) -> bool:
        """Whether an expression differs between lanes."""
        for part in walk(e):
            if isinstance(part, Position) and part.axis == self.scope.axis:
                return True
            if isinstance(part, Variable) and part.name in self.scope.lanes:
                return True
            if isinstance(part, Result):
                name = self.scope.parts.get((part.accumulator, part.part), f"{part.accumulator}_{part.part}")
                if name in self.scope.lanes:
                    return True
        return False

    def text(self, e: Expression) -> str:
        """Print an expression as a vector of its kind."""
        if not self.varies(e):
            return self._spread(Scalar(self.scope).text(e), e.kind)
        if e.kind == "float64" and not (isinstance(e, Result | Variable)):
            raise Unprintable("double precision lanes")
        match e:
            case Variable(name):
                return name
            case Result(name, part):
                return self.scope.parts.get((name, part), f"{name}_{part}")
            case Position():
                return f"(kw::splat_integer({e.axis}) + kw::iota())"
            case Arith(sign, left, right):
                return self._arith(sign, left, right)
            case Load():
                return self.scope.turned.get(e) or self._load(e)
            case Guard():
                return self._guard(e)
            case Call():
                return self._call(e)
            case Literal() | Extent():
                raise AssertionError("a constant does not vary")

    @staticmethod
    def _spread(text: str, kind: Kind) -> str:
        return {
            "float32": f"kw::splat({text})", "float64": f"kw::splat_wide({text})",
            "int64": f"kw::splat_integer({text})", "bool": f"kw::mask({text})",
        }[kind]  # fmt: skip

    def _arith(self, sign: str, left: Expression, right: Expression) -> str:
        if sign in ("min", "max"):
            raise Unprintable(sign)
        return f"({self.text(left)} {sign.replace('//', '/')} {self.text(right)})"

    def _load(self, e: Load) -> str:
        buffer = self.scope.program.buffer(e.buffer)
        place = offset(e.index, buffer.shape)
        step = self.step(place)
        if step is None:
            return self._load_at(e) or self._each(e)
        if step == number(1) and e.kind != "float64":
            at = self._address(e, place)
            if e.kind == "int64":
                return f"kw::load_integers({at}, lanes)"
            loaded = f"kw::load({at}, lanes)"
            return f"kw::to_mask({loaded})" if e.kind == "bool" else loaded
        if step == number(-1) and buffer.dtype == "float32":
            return f"kw::load_backwards({self._address(e, place)}, lanes)"
        if step == number(2) and buffer.dtype == "float32":
            return f"kw::load_evens({self._address(e, place)}, kw::mask(true), lanes)"
        return self._each(e)

    def _load_at(self, e: Load) -> str:
        """Print a load at a computed place of the row that lanes share; nothing where 32 bits may not hold it."""
        *before, last = e.index
        if e.kind != "float32" or self.scope.program.buffer(e.buffer).dtype != "float32":
            return ""
        if any(map(self.varies, before)) or not self._small(last):
            return ""
        try:
            place = self.text(last)
        except Unprintable:
            return ""
        row = replace(e, index=(*before, number(0)))
        start = offset(row.index, self.scope.program.buffer(e.buffer).shape)
        return f"kw::load_at({self._address(row, start)}, {self._places(place)}, lanes)"

    def _places(self, place: str) -> str:
        """Name how far apart computed places lie, which all loads at them share, or print it where nothing names it."""
        found = f"kw::places({place}, lanes)"
        if self.scope.fresh is None:
            return found
        if place not in self.scope.places:
            name = self.scope.places[place] = f"kw_places{len(self.scope.places)}"
            self.scope.fresh.append(f"const kw::LanePlaces {name} = {found};")
        return self.scope.places[place]

    def _address(self, e: Load, place: Expression) -> str:
        return f"{self.scope.local.get(e.buffer, e.buffer)} + {Scalar(self.scope).text(place)}"

    def read_ahead(self, e: Expression) -> str:
        """Print the prefetch of what is read a little after a load of neighbours; nothing for others."""
        line = self.line(e)
        if not isinstance(e, Load) or not line:
            return ""
        return f"kw::read_ahead({line}, {bare(size_text(self.scope.program.buffer(e.buffer).elements))});"

    def line(self, e: Expression) -> str:
        """Print where neighbours are loaded from; nothing for what is no load of neighbours."""
        if not isinstance(e, Load):
            return ""
        place = offset(e.index, self.scope.program.buffer(e.buffer).shape)
        return self._address(e, place) if self.step(place) == number(1) else ""

    def step(self, place: Expression) -> Expression | None:
        """Return by how much an offset grows from lane to lane; None if that is not constant."""
        if self._names_vary(place):
            return None

        def steady(e: Expression) -> Expression | None:
            same = isinstance(e, Variable | Result) or (isinstance(e, Load) and not self.varies(e))
            return number(0) if same else None

        return stride(substitute(place, steady), self.scope.axis)

    def _names_vary(self, e: Expression) -> bool:
        return any(isinstance(p, Variable) and p.name in self.scope.lanes for p in walk(e))

    def _each(self, e: Expression) -> str:
        """Compute lane by lane."""
        function = {"float32": "each", "int64": "each_integer", "bool": "each_mask"}.get(e.kind)
        if function is None:
            raise Unprintable("double precision lanes")
        return f"kw::{function}(lanes, [&](int k) {{ return {self.one.text(e)}; }})"

    def _guard(self, e: Guard) -> str:
        if not self.varies(e.condition):
            condition = Scalar(self.scope).text(e.condition)
            return f"({condition} ? {self.text(e.value)} : {self.text(e.other)})"
        within = self._load_where(_load_first(e))
        if within:
            return within
        apart = self._each(e)
        if self._parts(e.condition):
            return self._pick(e, apart)
        affine = all(
            self.step(offset(p.index, self.scope.program.buffer(p.buffer).shape)) == number(1)
            for p in walk(e.value)
            if isinstance(p, Load) and self.varies(p)
        )
        if affine and self.scope.axis in positions(e.value):
            condition = self.text(e.condition)
            return f"(kw::all({condition}, lanes) ? {self.text(e.value)} : {apart})"
        return apart

    def _pick(self, e: Guard, apart: str) -> str:
        """Print a chain of guards, as a concatenation has, as the vector of the one part in which all lanes lie."""
        tests: list[str] = []
        values: list[Expression] = []
        last: Expression = e
        while isinstance(last, Guard) and self._parts(last.condition):
            tests.append(f"[&](int k) {{ return {bare(self.one.text(last.condition))}; }}")
            values.append(last.value)
            last = last.other
        texts = [self._vector_or_each(value) for value in (*values, last)]
        if all(text.startswith("kw::each") for text in texts):
            return apart
        chain = [f"{test}, [&] {{ return {text}; }}" for test, text in zip(tests, texts, strict=False)]
        return (
            f"kw::pick(lanes, [&] {{ return {apart}; }}, {', '.join(chain)}, [&] {{ return {texts[-1]}; }})"
        )

    def _vector_or_each(self, e: Expression) -> str:
        try:
            return self.text(e)
        except Unprintable:
            return self._each(e)

    def _load_where(self, e: Guard) -> str:
        """Print a guarded load of neighbours, or of every other one, as a load under a mask; nothing for others."""
        if not (isinstance(e.value, Load) and isinstance(e.other, Literal) and e.kind == "float32"):
            return ""
        buffer = self.scope.program.buffer(e.value.buffer)
        place = offset(e.value.index, buffer.shape)
        load = {number(1): "load_where", number(2): "load_evens"}.get(self.step(place) or number(0))
        if buffer.dtype != "float32" or load is None:
            return ""
        mask = self.text(e.condition)
        if self._between(e.condition):
            inside, masked = self.one.text(e.condition), f"[&] {{ return {mask}; }}"
            other = literal(e.other.value, "float32")
            function = f"{load.removesuffix('_where')}_between"
            return (
                f"kw::{function}({self._address(e.value, place)}, [&](int k) {{ return {bare(inside)}; }}, {masked}, "
                f"{other}, lanes)"
            )
        loaded = f"kw::{load}({self._address(e.value, place)}, {mask}, lanes)"
        return loaded if e.other.value == 0 else f"kw::select({mask}, {loaded}, {self._full(e.other)})"

    def _between(self, e: Expression) -> bool:
        """Whether a condition that holds for the first and the last lane holds for all of them."""
        if not self.varies(e):
            return True
        if isinstance(e, Call) and e.op == "logical_and":
            return all(a is not None and self._between(a) for a in e.args)
        return self._parts(e)

    def _parts(self, e: Expression) -> bool:
        """Whether a condition parts the lanes at one place at most: it holds for those before it or behind it."""
        return (
            isinstance(e, Call)
            and e.op in ("lt", "le", "gt", "ge")
            and self.varies(e)
            and all(a is not None and self.step(a) is not None for a in e.args)
        )

    def _call(self, e: Call) -> str:
        if e.op == "cast":
            return self._cast(e)
        kinds = [a.kind for a in e.args if a is not None]
        if "float64" in kinds:
            raise Unprintable("double precision lanes")
        if e.op in _LOGIC:
            a, b = (self._mask(x) for x in e.args)
            return f"({a} {_LOGIC[e.op]} {b})"
        if e.op == "logical_not":
            return f"(~{self._mask(e.args[0])})"
        if e.op in _COMPARE:
            a, b = (self._full(x) for x in e.args)
            return f"({a} {_COMPARE[e.op]} {b})"
        if e.op == "where":
            condition = self._mask(e.args[0])
            return f"kw::select({condition}, {self._full(e.args[1])}, {self._full(e.args[2])})"
        if e.kind in ("int64", "bool") or "int64" in kinds:
            if e.op == "isnan":
                return f"({self._full(e.args[0])} != {self._full(e.args[0])})"
            if e.op == "isinf" and kinds == ["float32"]:
                return f"(kw::abs({self._full(e.args[0])}) == kw::kInf)"
            if e.kind == "int64" and self._small(e) and (text := self._integers(e)):
                return text
            raise Unprintable(f"{e.op} on integers in lanes")
        return self._float(e)

    def _integers(self, e: Call) -> str:
        """Print arithmetic of small integers; nothing for other operations."""
        args = [None if a is None else self.text(a) for a in e.args]
        match e.op, args:
            case "add" | "sub" | "mul", [a, b] if not e.options:
                return f"({a} {({'add': '+', 'sub': '-', 'mul': '*'})[e.op]} {b})"
            case "minimum" | "maximum", [str(a), str(b)]:
                return f"kw::{e.op[:3]}_integers({a}, {b})"
            case "clamp", [str(a), low, high]:
                above = a if low is None else f"kw::max_integers({a}, {low})"
                return above if high is None else f"kw::min_integers({above}, {high})"
            case _:
                return ""

    def _small(self, e: Expression) -> bool:
        """Whether 32 bits hold an integer: it is made of positions and constants, or is known to be small."""
        plain = not any(isinstance(p, Load | Variable | Result) for p in walk(e))
        return plain or all(self._is_small(p) for p in walk(e))

    def _is_small(self, e: Expression) -> bool:
        if isinstance(e, Load | Result) or (isinstance(e, Call) and e.op == "cast" and not self._holds(e)):
            return False
        return not isinstance(e, Variable) or e.kind == "bool" or self._holds(e)

    def _holds(self, e: Expression) -> bool:
        return bound(e, self.scope.bounds) < MOST

    def _float(self, e: Call) -> str:
        args: list[Term | float | int | bool | None] = []
        for a in e.args:
            if a is None:
                args.append(None)
            elif isinstance(a, Literal) and not isinstance(a.value, Size):
                args.append(_whole(a.value))
            else:
                args.append(Term(self.text(a)))
        try:
            return print_pointwise(e.op, args, dict(e.options)).as_float()
        except NoVector:
            return self._each(e)

    def _cast(self, e: Call) -> str:
        (value,) = e.args
        assert value is not None
        match value.kind, e.kind:
            case "bool", "float32":
                return f"kw::to_float({self.text(value)})"
            case "float32", "bool":
                return f"kw::to_mask({self.text(value)})"
            case "int64", "float32" if self._small(value):
                return f"kw::from_integers({self.text(value)})"
            case "float32", "int64" if self._holds(value):
                return f"kw::to_integers({self.text(value)})"
            case "float64", "float32":
                return f"kw::narrow({self.text(value)})"
            case _:
                return self._each(e)

    def _full(self, e: Expression | None) -> str:
        assert e is not None
        return self.text(e)

    def _mask(self, e: Expression | None) -> str:
        assert e is not None
        text = self.text(e)
        return text if e.kind == "bool" else f"({text} != 0)"


def _load_first(e: Guard) -> Guard:
    """Rewrite a guard that loads where a comparison fails as one that loads where the opposite comparison holds."""
    opposite = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
    turned = isinstance(e.value, Literal) and isinstance(e.other, Load) and isinstance(e.condition, Call)
    if not turned or not isinstance(e.condition, Call) or e.condition.op not in opposite:
        return e
    args = e.condition.args
    if any(a is None or a.kind != "int64" for a in args):
        return e
    return Guard(Call(opposite[e.condition.op], args, (), "bool"), e.other, e.value, e.kind)


def _whole(value: float) -> float | int:
    """Return 2.0 as 2: exponents and factors are recognised as integers."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e9 else value
