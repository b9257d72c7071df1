"""Graph: outputs, the inputs they come from, and how sizes follow from the arguments."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from ...tasks.capture import Node as Captured
from ._nodes import (
    Constant,
    Input,
    Native,
    Node,
    Point,
    Ramp,
    Random,
    Weight,
    ordered,
    sources_of,
    with_sources,
)
from ._real import Real
from ._size import Size, text_of


@dataclass(frozen=True, eq=False)
class Graph:
    """What a reference computes, on every workload that has these ranks and dtypes.

    The printed form is one node per line:

        x: float32[rows, dim] = Input(position=0)
        exp: float32[rows, dim] = Point(x, op='exp')
        return exp
    """

    inputs: tuple[Input, ...]
    """Argument and state tensors in the order of the call, used or not."""
    outputs: tuple[Node, ...]
    """The flattened results."""
    symbols: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name of a size → position of the argument and dimension that gives it."""
    scalars: tuple[tuple[int, object], ...] = ()
    """Scalar arguments that are built in: position in the call, value."""
    operations: tuple[Captured, ...] = ()
    """The captured operations, sizes put in: what runs natively."""
    values: Mapping[str, Node] = field(default_factory=dict)
    """What each captured operation became, by its name: what a native call of another reads."""
    guards: tuple[str, ...] = ()
    """Conditions on the symbols under which the sizes' rules hold."""
    mutations: tuple[tuple[Node, Node], ...] = ()
    """Inputs that the reference changes in place, each with its new value; changed after all is computed."""
    error_floor: float = 8.0
    """Error that the contract allows in any case, in units of the results' epsilon."""

    @property
    def roots(self) -> tuple[Node, ...]:
        """What must be computed: the outputs, then new values of inputs."""
        return *self.outputs, *(new for _, new in self.mutations)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node that a root needs, sources first."""
        return tuple(ordered(self.roots))

    @cached_property
    def users(self) -> dict[Node, tuple[Node, ...]]:
        """Who reads each node."""
        found: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for source in dict.fromkeys(sources_of(node)):
                found[source].append(node)
        return {node: tuple(users) for node, users in found.items()}

    def read_once(self, node: Node) -> bool:
        """Whether one other node reads a node, and it is no result itself."""
        return len(self.users.get(node, ())) == 1 and all(node is not root for root in self.roots)

    @cached_property
    def lasting(self) -> frozenset[Node]:
        """Values that depend on weights only, or on nothing but constants: the same in every call.

        Weights that the reference itself changes (running statistics) do not last. Empty if no weight does.
        """
        changed = {old for old, _ in self.mutations}
        weights = {n for n in self.inputs if isinstance(n, Weight)} - changed
        if not weights:
            return frozenset()
        known = {text_of(size) for node in weights for size in node.shape}
        found: dict[Node, bool] = {}
        for node in ordered([*self.roots, *self.values.values()]):
            read = [found.get(source) for source in sources_of(node)]
            fixed = isinstance(node, Constant | Ramp) or (isinstance(node, Native) and node.op == "constant")
            fits = fixed or node in weights or (bool(read) and None not in read)
            if fits and not isinstance(node, Random) and _symbols_in(node) <= known:
                found[node] = node in weights or any(read) or isinstance(node, Point | Native)
        return frozenset(node for node, weighs in found.items() if weighs)

    @property
    def natives(self) -> tuple[Node, ...]:
        """The nodes that only torch can compute."""
        return tuple(n for n in self.nodes if isinstance(n, Native | Random))

    def rewritten(self, new: Mapping[Node, Node]) -> "Graph":
        """Return the graph with nodes replaced; replacements may read nodes of this graph.

        Source order and names are kept; a replaced node's users read the replacement.
        """
        made: dict[int, Node] = {}

        def follow(root: Node) -> Node:
            for node in ordered([root]):
                if id(node) in made:
                    continue
                other = new.get(node)
                if other is not None and other is not node:
                    made[id(node)] = _rebuilt(other, made, new)
                else:
                    made[id(node)] = with_sources(node, [made[id(s)] for s in sources_of(node)])
            return made[id(root)]

        outputs = tuple(map(follow, self.outputs))
        mutations = tuple((old, follow(value)) for old, value in self.mutations)
        values = {name: made.get(id(node), node) for name, node in self.values.items()}
        return replace(self, outputs=outputs, values=values, mutations=mutations)

    def __str__(self) -> str:
        changed = [f"{old.name} <- {new.name}" for old, new in self.mutations]
        return "\n".join([*_lines(self.nodes), *changed, "return " + ", ".join(o.name for o in self.outputs)])


def _symbols_in(node: Node) -> set[str]:
    """Name the sizes that a node is made with."""
    texts = [text for f in fields(node) for text in _size_texts(getattr(node, f.name))]
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))


def _size_texts(value: object) -> Iterator[str]:
    if isinstance(value, Size):
        yield value.text
    elif isinstance(value, Real):
        yield value.size
    elif isinstance(value, tuple):
        for part in value:
            yield from _size_texts(part)


def _rebuilt(other: Node, made: dict[int, Node], new: Mapping[Node, Node]) -> Node:
    """Rebuild a replacement over what its sources became."""
    for node in ordered([other]):
        if id(node) in made:
            continue
        known = new.get(node)
        if known is None or known is other or known is node:
            made[id(node)] = with_sources(node, [made[id(s)] for s in sources_of(node)])
        else:
            made[id(node)] = _rebuilt(known, made, new)
    return made[id(other)]


def _lines(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        sources = [s.name for s in sources_of(node)]
        shown = []
        for f in fields(node):
            value = getattr(node, f.name)
            own = not isinstance(value, Node) and not (
                isinstance(value, tuple) and any(isinstance(v, Node) for v in value)
            )
            if f.name not in ("name", "shape", "dtype") and own and value != ():
                shown.append(f"{f.name}={value!r}")
        sizes = ", ".join(map(str, node.shape))
        call = ", ".join([*sources, *shown])
        yield f"{node.name}: {node.dtype}[{sizes}] = {type(node).__name__}({call})"
