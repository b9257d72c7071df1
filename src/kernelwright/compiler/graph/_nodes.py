"""The graph form: a small closed set of nodes that state what is computed, never how.

A node holds the nodes it reads. Results of several tensors are several nodes. Nothing is implicit except the
broadcasting of `Point`: a dimension of size one, or a missing leading one, stretches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal, TypeAlias, cast

Number: TypeAlias = bool | int | float
Shape: TypeAlias = tuple[int, ...]
Monoid = Literal[
    "sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "variance", "logsumexp", "sumexp"
]
"""How elements are combined. `argmax` and `argmin` give the position along the reduced axes, the first of
equals; NaN wins in `max`, `min` and their positions. `variance` is the mean square distance from the mean
(Welford), divided by `count - correction`; `logsumexp` keeps the largest apart; `sumexp` is the sum of powers
relative to the largest."""
Layer = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]

RESERVED = frozenset({
    *(f"i{d}" for d in range(12)),
    "k", "u", "t", "at", "end", "step", "lanes", "team", "used", "join", "stored", "args", "kw", "std",
    "kernels", "torch", "aten", "auto", "bool", "break", "case", "char", "class", "const", "continue",
    "default", "delete", "do", "double", "else", "enum", "extern", "float", "for", "goto", "if", "inline",
    "int", "long", "namespace", "new", "operator", "private", "public", "register", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "try", "typename",
    "union", "unsigned", "using", "void", "volatile", "while", "and", "or", "not", "xor", "true", "false",
    "def", "lambda", "in", "is", "pass", "raise", "with", "yield", "kernel", "global", "local", "half",
    "fn", "let", "var", "tl", "pid", "item", "row", "column", "inner", "left", "right", "finish", "sizes",
    "sums", "Tiles", "query", "key", "value", "score", "masked", "first", "last", "rows_at_once", "weights",
    "packed", "prepare", "slope", "through", "value_rows", "key_rows", "query_rows", "slope_rows", "of_out", "of_query",
    "of_key", "of_value",
})  # fmt: skip
"""Names that printed sources use themselves; no value, buffer or size is called so."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """A tensor, and how it is computed."""

    name: str
    """A Python and C identifier, unique in its graph; an input has the argument's name."""
    shape: Shape
    """Sizes; those that differ between workloads are `Size`."""
    dtype: str
    """Torch's name without the prefix."""

    @property
    def elements(self) -> int:
        """Count the elements on the first workload."""
        count = 1
        for size in self.shape:
            count *= int(size)
        return count

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor on the first workload."""
        import torch

        return self.elements * cast(int, getattr(torch, self.dtype).itemsize)

    @cached_property
    def _sources(self) -> tuple["Node", ...]:
        """The nodes that this one reads, in order."""
        found: list[Node] = []
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, tuple):
                found.extend(v for v in value if isinstance(v, Node))
        return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Input(Node):
    """An argument or a state tensor."""

    position: int
    """Its place in the call: arguments, then state."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Weight(Input):
    """A parameter or buffer: the same in every call until it is written to."""


MOST_TABLE = 16
"""Numbers of a constant that are chosen from by position; larger ones are tensors."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Constant(Node):
    """The same number everywhere, or a small table of numbers."""

    values: tuple[Number, ...]
    """One number, or as many as there are elements, in row-major order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ramp(Node):
    """`start + step * i` along one dimension; what `arange` gives."""

    dim: int
    start: Number
    step: Number


@dataclass(frozen=True, eq=False, kw_only=True)
class Point(Node):
    """One elementwise operation on broadcast operands."""

    op: str
    """ATen's bare name: `add`, `mul`, `exp`, `where` ... (see `pointwise.py`); `cast` converts to the dtype."""
    args: tuple["Node | Number | None", ...]
    """Operands; numbers stay numbers."""
    options: tuple[tuple[str, "Number | str | None"], ...] = ()
    """Keyword arguments: `alpha`, `approximate`, `rounding_mode` ..."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Reshape(Node):
    """The same elements in row-major order under another shape."""

    source: Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Permute(Node):
    """Dimensions in another order."""

    source: Node
    order: tuple[int, ...]
    """Dimension `d` of the result is `order[d]` of the source."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Expand(Node):
    """Broadcast to the shape: dimensions of size one stretch, leading ones appear."""

    source: Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(Node):
    """`source[start + step * i]` in every dimension; steps may be negative (flip)."""

    source: Node
    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(Node):
    """The source surrounded by a constant; its element zero is at `low`. Negative `low` crops."""

    source: Node
    low: tuple[int, ...]
    value: Number


@dataclass(frozen=True, eq=False, kw_only=True)
class Cat(Node):
    """Tensors concatenated along a dimension."""

    sources: tuple[Node, ...]
    dim: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Window(Node):
    """Sliding windows: the last dimensions run within a window, one for each dimension of `dims`.

    `result[..., i, ..., w] = source[..., stride * i + dilation * w, ...]`
    """

    source: Node
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Gather(Node):
    """Elements at computed positions along `dim`.

    With `aligned`, index and result have the same shape (`torch.gather`). Without, the index's shape replaces
    `dim` (`index_select`, `embedding`, one index tensor in brackets). Negative positions count
    from the end.
    """

    source: Node
    index: Node
    dim: int
    aligned: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Scatter(Node):
    """A copy of `base` into which updates are put, or combined, at computed positions along `dim`.

    With `aligned`, index and updates have the same shape; without, the index is one-dimensional and counts
    the updates along `dim` (`index_add`: a reduction by segment).
    """

    base: Node
    index: Node
    updates: Node
    dim: int
    aligned: bool
    combine: Literal["set", "sum", "prod", "max", "min"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Order(Node):
    """Positions sorted by the segment that they belong to, those of a segment in their order."""

    keys: Node
    """Position → segment."""
    offsets: Node
    """Segment → where it begins in the order; one more, the end of the last."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Segment(Node):
    """Each row of `base` combined with the updates of its segment: `updates[order[offsets[i]:offsets[i + 1]]]`."""

    base: Node
    updates: Node
    order: Node
    offsets: Node
    combine: Literal["sum", "prod", "max", "min"]


@dataclass(frozen=True, eq=False, kw_only=True)
class TypedLinear(Node):
    """Rows times the matrix of their type: `result[i] = source[i] @ weights[t]` for `i` of segment `t`."""

    source: Node
    """(rows, inner)."""
    weights: Node
    """(types, inner, columns)."""
    order: Node
    """Rows sorted by type."""
    offsets: Node
    """Type → where its rows begin in the order; one more, the end of the last."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduce(Node):
    """Combine all elements along dimensions, which disappear."""

    source: Node
    dims: tuple[int, ...]
    monoid: Monoid
    correction: float = 0.0
    """Of `variance` only."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scan(Node):
    """Combine all elements up to each one along a dimension."""

    source: Node
    dim: int
    monoid: Monoid


@dataclass(frozen=True, eq=False, kw_only=True)
class Contract(Node):
    """Multiply two tensors and sum over the labels that the result lacks, as `einsum` does.

    Convolutions arrive as `Pad`, `Window` and this.
    """

    left: Node
    right: Node
    labels: tuple[str, str, str]
    """One letter a dimension: of the left, of the right and of the result."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Random(Node):
    """Random numbers; always native."""

    sources: tuple[Node, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Native(Node):
    """An operation outside this form; torch computes it."""

    sources: tuple[Node, ...]
    op: str
    """The operator's full name, for the report."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Recurrent(Native):
    """A result of a recurrent layer over whole padded sequences; torch computes it.

    Its sources are the sequences, the first state (of an `lstm` hidden and cell), and the weights, layer by layer
    and within a layer forwards first.
    """

    layer: Layer
    biased: bool
    layers: int
    both_ways: bool
    batch_first: bool
    result: int
    """0 for the state after every step, 1 for the last one, 2 for the last cell."""


def sources_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node reads, in order."""
    return node._sources


def with_sources(node: Node, new: Sequence[Node]) -> Node:
    """Return the node reading other nodes, in the order of `sources_of`; the node itself if none changed."""
    if all(a is b for a, b in zip(sources_of(node), new, strict=True)):
        return node
    rest = iter(new)
    changes: dict[str, object] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, Node):
            changes[f.name] = next(rest)
        elif isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
            changes[f.name] = tuple(next(rest) if isinstance(v, Node) else v for v in value)
    return replace(node, **changes)  # type: ignore[arg-type]  # each value is of its field's own type


def ordered(roots: Sequence[Node], reads: Callable[[Node], Sequence[Node]] = sources_of) -> Iterator[Node]:
    """Yield every node behind the roots once, what a node reads before it."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((s, False) for s in reversed(reads(node)))
