"""Statements, kernels and programs of the tile form."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as Choice
from typing import TypeAlias

from ..graph import Node, product, text_of
from ._expression import ZERO, Expression, Kind, Load, Position, substitute, walk
from ._parts import Axis, Image, Member, Weights
from ._tiling import Tiling


@dataclass(frozen=True)
class Let:
    """Name a value for the statements that follow in the same block and within them."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Store:
    """Write an element, rounded to the buffer's dtype.

    `combine` folds it into what is there (`sum`, `prod`, `max`, `min`); no two iterations of a parallel or
    vector loop write the same element.
    """

    buffer: str
    index: tuple[Expression, ...]
    value: Expression
    combine: str = ""
    stream: int = 0
    """Non-temporal from this many bytes of the buffer on, if the language supports it; 0 for never."""


@dataclass(frozen=True)
class Begin:
    """Start an accumulator: its state has the initial values of its monoid."""

    name: str
    monoid: str
    kind: Kind = "float32"


@dataclass(frozen=True)
class Row:
    """Allocate a row of values that stays in a thread's cache; it lasts until the end of the block."""

    buffer: str
    """A buffer of the role `row`, stored and loaded as others are."""


@dataclass(frozen=True)
class Update:
    """Fold an element into an accumulator; `position` is the element's index, if the monoid needs it."""

    name: str
    value: Expression
    position: Expression = ZERO


@dataclass(frozen=True)
class Loop:
    """Run the body for `begin <= axis < end`.

    Iterations are independent, except for `Update` of accumulators begun outside: if the axis is `parallel`
    or `vector` those may be folded in any order (partial states merged by the monoid's `merge`).
    """

    axis: str
    end: Expression
    body: tuple["Statement", ...]
    begin: Expression = ZERO
    parallel: bool = False
    """Over threads, or over blocks and threads of a GPU; only outermost loops are."""
    vector: bool = False
    """Over lanes: the body may be computed for several iterations at once. At most one on each path."""
    unroll: int = 1
    """How many vectors (or iterations) are in flight."""
    expected_extent: int = 0
    """Expected iterations if the bounds are computed from data."""
    ordered: bool = False
    """A scan: iterations run sequentially, and results of accumulators are read within the loop."""


@dataclass(frozen=True)
class Contraction:
    """`accumulator[batch, rows, columns] = sum over inner of left * right`, then the epilogue, element by element.

    `left` is a function of batch, rows and inner positions, `right` of batch, columns and inner: what is fused
    before is in them, window and pad indices included, so that packing a panel is the im2col. Several axes of
    a role run as one, the last fastest. Columns are the contiguous axis of the result, if there is one.
    A step of a program, or a statement of a kernel that multiplies a strip of rows at a time.
    """

    name: str
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    left: Expression
    right: Expression
    accumulator: str
    """Variable that holds the sum in the epilogue."""
    epilogue: tuple[Let | Store, ...]
    comment: str = ""
    tiling: Tiling = field(default_factory=Tiling)
    others: tuple["Member", ...] = ()
    """Further products of the same left factor, multiplied at once: the epilogue reads the sums of all."""
    weights: Weights | None = None
    """What the left factor is, where that is a softmax of another product."""
    image: Image | None = None
    """What the right factor is cut from, where the form asks for it."""

    family = "contraction"


Statement: TypeAlias = Let | Store | Begin | Row | Update | Loop | Contraction


@dataclass(frozen=True)
class Buffer:
    """A contiguous, row-major tensor of the program."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Choice["argument", "temporary", "output", "row"]
    """A `row` belongs to one worker and one block (`Row`); the others are the call's."""
    position: int = -1
    """Place in the call of an argument or output: arguments, state, outputs."""

    @property
    def elements(self) -> int:
        """The number of elements, as a size."""
        return product(self.shape)


@dataclass(frozen=True)
class Gradients:
    """What the loops of a kernel are, where they are an attention and its gradients: one pass over rows of queries.

    Of an item, `weights[row, key]` are a softmax of scores along keys, and `change[row, key]` is the gradient of the
    scores; members are products of either.
    """

    axes: tuple[Axis, ...]
    """Of the weights: items, then rows, then keys."""
    scores: Contraction
    """Queries by keys, over depth; what they are stored in stays in a cache."""
    slopes: Contraction
    """Gradients of the output by values: the gradient of the weights."""
    score: Expression
    """A function of a sum of `scores`, and of positions on `axes`."""
    change: Expression
    """A function of a weight, of a sum of `slopes`, of their total, and of positions."""
    weight: str
    """Variable that holds a weight."""
    total: str
    """Variable that holds the sum of weights times `slopes` along a row; empty where it is not read."""
    safe: bool
    """Whether a row whose scores are all minus infinity has weights of zero; else they are not numbers."""
    members: tuple[tuple[str, Contraction], ...]
    """Products, each told what it is of: `of_out` and `of_value` multiply weights by values and by gradients of the
    output, `of_query` and `of_key` changes by keys and queries; the first of both sum over keys, others over rows."""


@dataclass(frozen=True)
class Kernel:
    """A traversal: loops over elements with accumulators; everything fused is in one body."""

    name: str
    body: tuple[Statement, ...]
    comment: str = ""
    """What is computed and what it reads and writes, for the reader of the source."""
    known: tuple[tuple[str, int], ...] = ()
    """Sizes, by symbol, for which an extra version is compiled; calls of other sizes use the general one."""
    whole: tuple[str, ...] = ()
    """Sizes, by symbol, that are multiples of `LANES` in that version: what runs over them in lanes has no tail."""
    gradients: Gradients | None = None
    """What the loops mean, where a language may print that instead of them."""

    family = "traversal"


@dataclass(frozen=True)
class NativeCall:
    """A region that torch computes: one captured operation, from buffers to a buffer."""

    name: str
    """Name of the captured operation."""
    reads: tuple[str, ...]
    """Buffers by the names of the captured operations that they represent."""
    writes: str
    node: Node
    op: str = ""
    """Full name of the operator."""
    fed: str = ""
    """A buffer that it reads whose rows are computed a panel at a time, right before they are multiplied."""
    panel_bytes: int = 0
    """Of a panel, at most."""


Step: TypeAlias = Kernel | Contraction | NativeCall


@dataclass(frozen=True)
class Program:
    """What a candidate does in one call: kernels in sequence over buffers."""

    name: str
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    symbols: Mapping[str, tuple[int, int]]
    """Name of a size → argument position and dimension that gives it."""
    scalars: tuple[tuple[int, object], ...] = ()
    """Scalar arguments that are compiled in; a call with others is unsupported."""
    names: Mapping[Node, str] = field(default_factory=dict)
    """Node of the graph → the buffer that holds it."""
    guards: tuple[str, ...] = ()
    """Conditions on the symbols, in Python's arithmetic; a call under which one fails is unsupported."""
    updates: tuple[tuple[str, str], ...] = ()
    """Arguments that are changed in place after all steps, each with the buffer of its new value."""
    weights: tuple[str, ...] = ()
    """The arguments that are parameters and buffers, in order."""
    ahead: frozenset[str] = frozenset()
    """Steps that read weights only: run once for the same weights, if the language can keep results."""

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return next(b for b in self.buffers if b.name == name)

    @property
    def weight_sizes(self) -> dict[str, tuple[str, int]]:
        """The symbols that weights give, each with the weight and the dimension."""
        found: dict[str, tuple[str, int]] = {}
        for name in self.weights:
            for d, size in enumerate(self.buffer(name).shape):
                if text_of(size) in self.symbols:
                    found.setdefault(text_of(size), (name, d))
        return found

    @property
    def natives(self) -> tuple[NativeCall, ...]:
        """The regions that torch computes."""
        return tuple(s for s in self.steps if isinstance(s, NativeCall))


def written(step: Step) -> frozenset[str]:
    """Name the buffers that a step writes."""
    if isinstance(step, NativeCall):
        return frozenset([step.writes])
    body = (step,) if isinstance(step, Contraction) else step.body
    return frozenset(s.buffer for s in statements(body) if isinstance(s, Store))


def read_by(step: Step) -> frozenset[str]:
    """Name the buffers that a step reads."""
    if isinstance(step, NativeCall):
        return frozenset(step.reads)
    body = (step,) if isinstance(step, Contraction) else step.body
    every = (e for s in statements(body) for x in expressions(s) for e in walk(x))
    return frozenset(e.buffer for e in every if isinstance(e, Load))


def products(steps: Iterable[Step]) -> Iterator[Contraction]:
    """Yield every product of a program's steps, those within kernels included."""
    for step in steps:
        if not isinstance(step, NativeCall):
            body = (step,) if isinstance(step, Contraction) else step.body
            yield from (s for s in statements(body) if isinstance(s, Contraction))


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yield every statement, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)
        elif isinstance(statement, Contraction):
            yield from statement.epilogue


def mapped(s: Statement, change: Callable[[Expression], Expression]) -> Statement:
    """Change every expression of a statement, and of those within it."""
    match s:
        case Let():
            return replace(s, value=change(s.value))
        case Store():
            return replace(s, index=tuple(map(change, s.index)), value=change(s.value))
        case Update():
            return replace(s, value=change(s.value), position=change(s.position))
        case Loop():
            body = tuple(mapped(inner, change) for inner in s.body)
            return replace(s, body=body, begin=change(s.begin), end=change(s.end))
        case Contraction():
            epilogue = tuple(mapped(inner, change) for inner in s.epilogue)
            new = factors_mapped(s, change)
            return replace(new, epilogue=epilogue)  # type: ignore[arg-type]  # the kinds stay
        case _:
            return s


def expressions(statement: Statement) -> Iterator[Expression]:
    """Yield the expressions of one statement, without those of its body."""
    match statement:
        case Let(_, value):
            yield value
        case Store(_, index, value):
            yield from (*index, value)
        case Update(_, value, position):
            yield from (value, position)
        case Loop(_, end, _, begin):
            yield from (begin, end)
        case Contraction():
            yield from factors(statement)


def rights(contraction: Contraction) -> tuple[Expression, ...]:
    """Return the right factors of a contraction: its own and those of the other members."""
    return (contraction.right, *(other.right for other in contraction.others))


def factors(contraction: Contraction) -> tuple[Expression, ...]:
    """Return all that a contraction computes before its epilogue."""
    w = contraction.weights
    scores = (w.query, w.key, w.score) if w else ()
    image = (contraction.image.value,) if contraction.image else ()
    return (contraction.left, *scores, *rights(contraction), *image)


def factors_mapped(c: Contraction, change: Callable[[Expression], Expression]) -> Contraction:
    """Change the factors of a contraction."""
    others = tuple(replace(other, right=change(other.right)) for other in c.others)
    w = c.weights and replace(
        c.weights,
        query=change(c.weights.query),
        key=change(c.weights.key),
        score=change(c.weights.score),
    )
    image = c.image and replace(c.image, value=change(c.image.value))
    return replace(c, left=change(c.left), right=change(c.right), others=others, weights=w, image=image)


def renamed(expression: Expression, axes: Mapping[str, Expression]) -> Expression:
    """Substitute positions for axes."""
    return substitute(expression, lambda e: axes.get(e.axis) if isinstance(e, Position) else None)
