"""Block expressions: the dimensions of each value, and the masks that loads need.

A block has up to two dimensions: of `points` one; of `rows` the rows and the lanes; of `single` the lanes. A value
has the dimensions of the positions that it depends on, and Triton broadcasts the rest.
"""

from dataclasses import dataclass, field

from ...graph import text_of
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
    Program,
    Result,
    Store,
    Variable,
    arith,
    offset,
    parts_of,
)
from .. import Unprintable
from ._dialect import OPERATORS, Blocks, bare

Dims = frozenset[int]
NONE: Dims = frozenset()


@dataclass
class Scope:
    """What names mean in a kernel, and prints expressions of them."""

    program: Program
    dialect: Blocks
    at: dict[str, tuple[str, Dims]] = field(default_factory=dict)
    """Axis → text of its position and the dimensions it has."""
    dims: dict[str, Dims] = field(default_factory=dict)
    """Variable or accumulator → dimensions."""
    masks: dict[int, str] = field(default_factory=dict)
    """Dimension → which of its positions exist."""
    whole: str = ""
    """Which elements of a block of two dimensions exist, by name."""
    guards: list[tuple[str, Dims]] = field(default_factory=list)
    """Conditions under which the current text applies."""
    alias: dict[str, str] = field(default_factory=dict)
    """Variable → an equal one."""
    scanned: dict[str, tuple[str, Dims]] = field(default_factory=dict)
    """Accumulator of a scan → its partial results and their dimensions."""

    def dims_of(self, e: Expression) -> Dims:
        """Return the dimensions that a value has."""
        match e:
            case Position(axis):
                return self.at[axis][1]
            case Variable(name):
                return self.dims.get(self.alias.get(name, name), NONE)
            case Result(name):
                return self.scanned[name][1] if name in self.scanned else self.dims.get(name, NONE)
            case _:
                return NONE.union(*map(self.dims_of, parts_of(e)))

    def mask(self, dims: Dims) -> str:
        """Print which elements of a block of these dimensions exist; empty if all do."""
        if len(dims) == 2 and self.whole:
            return self.whole
        return " & ".join(self.masks[d] for d in sorted(dims) if d in self.masks)

    def text(self, e: Expression) -> str:
        """Print an expression."""
        match e:
            case Literal(value, kind):
                return self.dialect.number(value, kind)
            case Extent(size):
                return text_of(size)
            case Position(axis):
                return self.at[axis][0]
            case Variable(name):
                return self.alias.get(name, name)
            case Result(name, part):
                return self.scanned[name][0] if name in self.scanned else f"{name}_{part}"
            case Arith(sign, left, right):
                return self._arith(sign, self.text(left), self.text(right))
            case Load():
                return self._load(e, "")
            case Guard():
                return self._guard(e)
            case Call():
                return self._call(e)

    def to(self, e: Expression, kind: Kind) -> str:
        """Print an expression in another kind."""
        if e.kind == kind:
            return self.text(e)
        return self._converted(self.text(e), e.kind, kind, self.dims_of(e))

    def _converted(self, text: str, kind: Kind, to: Kind, dims: Dims) -> str:
        d = self.dialect
        if not dims or to == "bool" or d.kind(kind) == d.kind(to):
            return d.cast(text, kind, to)
        return (
            f"{text}.to({d.type(to)})"
            if text.endswith(")") or text.isidentifier()
            else f"({text}).to({d.type(to)})"
        )

    @staticmethod
    def _arith(sign: str, a: str, b: str) -> str:
        if sign in ("min", "max"):
            return f"tl.{sign}imum({bare(a)}, {bare(b)})"
        return f"({a} {sign} {b})"

    def _call(self, e: Call) -> str:
        if e.op == "cast":
            (value,) = e.args
            assert value is not None
            return self.to(value, e.kind)
        rule = OPERATORS.get(e.op)
        if rule is None:
            raise Unprintable(f"Triton has no {e.op}")
        args = [None if a is None else self.text(a) for a in e.args]
        kinds = [self.dialect.kind(a.kind) for a in e.args if a is not None]
        return rule(self.dialect, args, dict(e.options), kinds[-1] if kinds else e.kind)

    # Memory --------------------------------------------------------------------------------------------

    def pointer(self, buffer: str, index: tuple[Expression, ...], wanted: Dims) -> tuple[str, Dims]:
        """Print an address that has at least the required dimensions."""
        place = _plain(offset(index, self.program.buffer(buffer).shape))
        have = self.dims_of(place)
        text = self.text(place)
        spread = [f"0 * {self.at[f'#{d}'][0]}" for d in sorted(wanted - have)]
        return " + ".join([buffer, *([] if text == "0" else [bare(text)]), *spread]), have | wanted

    def stored(self, s: Store, needs: Dims = NONE) -> tuple[str, str, str]:
        """Print the place, the value and the mask of a store; it has at least the dimensions needed."""
        dtype = self.program.buffer(s.buffer).dtype
        at, dims = self.pointer(s.buffer, s.index, self.dims_of(s.value) | needs)
        return at, bare(self.to(s.value, _computed(dtype))), bare(self.mask(dims))

    def _load(self, e: Load, other: str) -> str:
        needs = NONE.union(*(dims for _, dims in self.guards))
        at, dims = self.pointer(e.buffer, e.index, needs)
        mask = " & ".join(m for m in (self.mask(dims), *(g for g, _ in self.guards)) if m)
        dtype = self.program.buffer(e.buffer).dtype
        zero = other or ("0.0" if "float" in dtype else "0")
        text = f"tl.load({at}, mask={bare(mask)}, other={zero})" if mask else f"tl.load({at})"
        have = _computed(dtype)
        if dtype == "bool":
            text = f"({text} != 0)"
        elif dtype != have:
            text = f"{text}.to({self.dialect.type(have)})"
        return text if have == e.kind else self._converted(text, have, e.kind, dims)

    def _guard(self, e: Guard) -> str:
        """Print a choice; an element that is not chosen is not loaded."""
        condition, dims = self.text(e.condition), self.dims_of(e.condition)
        if isinstance(e.value, Load) and isinstance(e.other, Literal) and self._is_plain(e.value):
            self.guards.append((condition, dims))
            text = self._load(e.value, self.text(e.other))
            self.guards.pop()
            return text
        self.guards.append((condition, dims))
        value = self.text(e.value)
        self.guards[-1] = (f"({condition} == 0)", dims)
        other = self.text(e.other)
        self.guards.pop()
        return f"tl.where({bare(condition)}, {bare(value)}, {bare(other)})"

    def _is_plain(self, e: Load) -> bool:
        """Whether a load returns memory unchanged, so that it can also give the value outside."""
        return self.dialect.kind(e.kind) == self.program.buffer(e.buffer).dtype and not self.guards


def _computed(dtype: str) -> Kind:
    """Return what elements of a dtype compute in."""
    return dtype if dtype in ("float64", "bool") else "float32" if "float" in dtype else "int64"


def _plain(e: Expression) -> Expression:
    """Write sums of products without what adds nothing: `(a * n + b) * m` stays, constants move to the end."""
    match e:
        case Arith("-", left, Literal(value)) if isinstance(value, int) and value < 0:
            return arith("+", _plain(left), Literal(-value, "int64"))
        case Arith(sign, left, right):
            return arith(sign, _plain(left), _plain(right))
        case _:
            return e
