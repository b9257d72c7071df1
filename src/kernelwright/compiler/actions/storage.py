"""Store values in memory, or compute them where they are used."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import (
    Cat,
    Constant,
    Contract,
    Graph,
    Input,
    Node,
    Pad,
    Permute,
    Point,
    Reduce,
    Reshape,
    Window,
    sources_of,
)
from ._state import State
from .product import plain_products

_COSTLY = frozenset({
    "exp", "log", "sigmoid", "tanh", "erf", "gelu", "silu", "mish", "softplus", "pow", "sin", "cos", "expm1", "log1p",
})  # fmt: skip
_MANY = 3
"""Tensors that are read again for a value, from which on storing it moves less: it is written once and read."""


@dataclass(frozen=True)
class Store:
    """Store a value that is read more than once, instead of computing it at every reading: traffic for operations.

    `all` stores what several kernels would compute from ever more tensors, by kernels of their own: the sums that
    residual connections pass on; and what the plain loops of products read.
    """

    name = "store"

    def sites(self, state: State) -> Iterator[str]:
        """Yield values not stored yet: factors of plain products; reductions and costly values with several users."""
        factors = _factors(state)
        if factors or _passed_on(state):
            yield "all"
        for node in state.graph.nodes:
            known = node.name in state.decisions.store or isinstance(node, Input | Constant)
            costly = isinstance(node, Reduce) or (isinstance(node, Point) and node.op in _COSTLY)
            if node.name in factors or (not known and costly and len(state.graph.users[node]) > 1):
                yield node.name

    def apply(self, state: State, site: str) -> State:
        """Store the value."""
        made, factors = state.decisions, _factors(state)
        # By kernels of their own: what stores it on the way may be the last to read it.
        before = factors | _passed_on(state) if site == "all" else factors & {site}
        if before:
            return replace(state, decisions=replace(made, before=made.before | before))
        return replace(state, decisions=replace(made, store=made.store | {site}))


def _factors(state: State) -> frozenset[str]:
    """Name values that are computed at every step of a product's plain loops, and not stored yet."""
    found = set[str]()
    for product in plain_products(state):
        for factor in map(_whole, sources_of(product)):
            if isinstance(factor, Cat) or (isinstance(factor, Point) and factor.op != "cast"):
                found.add(factor.name)
    return frozenset(found - state.decisions.store - state.decisions.before)


def _whole(node: Node) -> Node:
    """Return what a node is a view of."""
    while isinstance(node, Reshape | Permute | Pad | Window):
        (node,) = sources_of(node)
    return node


def _passed_on(state: State) -> frozenset[str]:
    """Name values that several kernels would each compute from `_MANY` tensors of their size or more."""
    graph, native = state.graph, state.decisions.native
    stored = state.decisions.store | state.decisions.before
    made = {graph.values[name]: name for name in native if name in graph.values}
    reads = {op.name: [graph.values[r] for r in op.refs() if r in graph.values] for op in graph.operations}
    ends = {*graph.roots, *(node for name in made.values() for node in reads[name])}
    held = {*made, *ends, *graph.inputs, *(n for n in graph.nodes if n.name in stored)}
    into: dict[Node, frozenset[Node]] = {}
    for node in reversed(graph.nodes):
        users = [user for user in graph.users[node] if user not in made]
        into[node] = frozenset().union(*({user} if user in ends else into[user] for user in users))
    found, behind = set[str](), dict[Node, frozenset[Node]]()
    for node in graph.nodes:
        behind[node] = frozenset().union(*({s} if s in held else behind[s] for s in sources_of(node)))
        many = sum(s.elements == node.elements for s in behind[node]) >= _MANY
        if many and len(into[node]) > 1 and isinstance(node, Point) and node not in held:
            found.add(node.name)
            held.add(node)
    return frozenset(found)


@dataclass(frozen=True)
class Narrow:
    """Store an intermediate in the dtype of the results: half its bytes. Sums stay in float32.

    Legal if every result is of one half precision, so that the contract's tolerance is that dtype's, for float32
    values that are in memory between two kernels.
    """

    name = "narrow"

    def sites(self, state: State) -> Iterator[str]:
        """Yield float32 intermediates in memory."""
        if state.program is None or _half(state.graph) is None:
            return
        temporary = {b.name for b in state.program.buffers if b.role == "temporary" and b.dtype == "float32"}
        native = {name for step in state.program.natives for name in (*step.reads, step.writes)}
        named = {name: node for node, name in state.program.names.items()}
        own = set(state.graph.nodes)
        yield from (named[b].name for b in sorted(temporary - native) if b in named and named[b] in own)

    def apply(self, state: State, site: str) -> State:
        """Store what the value is rounded to; its users read that. A product's tiles round it themselves."""
        dtype = _half(state.graph)
        assert dtype is not None
        node = next(n for n in state.graph.nodes if n.name == site)
        narrow = Point(name=f"{site}_{dtype}", shape=node.shape, dtype=dtype, op="cast", args=(node,))
        back = Point(name=f"{site}_back", shape=node.shape, dtype=node.dtype, op="cast", args=(narrow,))
        store, before = state.decisions.store - {site}, state.decisions.before
        if isinstance(node, Contract):
            before |= {narrow.name}
        else:
            store |= {narrow.name}
        graph = state.graph.rewritten({node: back})
        return replace(state, graph=graph, decisions=replace(state.decisions, store=store, before=before))


def _half(graph: Graph) -> str | None:
    """Return the half precision that all results have."""
    (dtype, *others) = {node.dtype for node in graph.roots} or {""}
    return dtype if dtype in ("bfloat16", "float16") and not others else None


@dataclass(frozen=True)
class Fuse:
    """Compute a stored value where it is used: the inverse of `store`."""

    name = "fuse"

    def sites(self, state: State) -> Iterator[str]:
        """Yield what `store` stored."""
        yield from sorted(state.decisions.store)

    def apply(self, state: State, site: str) -> State:
        """No longer store the value."""
        return replace(state, decisions=replace(state.decisions, store=state.decisions.store - {site}))
