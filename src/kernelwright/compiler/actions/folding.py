"""Fold scales, biases and running statistics after a product into its weights and one bias, when weights change."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...tasks.capture import Node as Captured
from ...tasks.capture import Ref
from ..graph import (
    Contract,
    Graph,
    Input,
    Node,
    Number,
    Point,
    Reshape,
    broadcast,
    product,
    same,
    sources_of,
    text_of,
)
from ._state import State
from .weights import ahead

Term = Node | float


@dataclass(frozen=True)
class Fold:
    """Scale the weights of a product instead of its result: `(x @ w + b) * s + t` becomes `x @ (w * s) + (b * s + t)`.

    Batch norm in evaluation mode is such a chain, its statistics buffers. What remains is a product and one bias, which
    generated kernels or the library's product (`library`, on the folded operation) compute.

    Legal in float32, if everything but the other factor depends on weights only, nothing else reads what is
    between, no form is chosen for the product yet, and the scale varies along axes of the weights only. Half
    precision would round the scaled weights once more.
    """

    name = "fold"

    def sites(self, state: State) -> Iterator[str]:
        """Yield the last operations of such chains."""
        for node in state.graph.nodes:
            users = state.graph.users[node]
            last = not (len(users) == 1 and _Chain(state).follow(users[0]))
            if isinstance(node, Point) and last and _folded(state, node) is not None:
                yield node.name

    def apply(self, state: State, site: str) -> State:
        """Put the scale into the weights."""
        node = next(n for n in state.graph.nodes if n.name == site)
        found = _folded(state, node)
        assert found is not None
        graph = state.graph.rewritten({node: found.result})
        made = [n for n in (found.weights, found.shift) if isinstance(n, Node) and not isinstance(n, Input)]
        if (op := _operation(state.graph, node, found)) is not None:
            graph = _captured(graph, op, found)
        return ahead(replace(state, graph=graph), *(n.name for n in made))


@dataclass(frozen=True)
class _Affine:
    """`base * scale + shift`."""

    base: Node
    """A product, or a view of one."""
    scale: Term = 1.0
    shift: Term = 0.0


@dataclass(frozen=True)
class _Folded:
    before: Node
    """The weights as they are read."""
    weights: Node
    shift: Term
    result: Node


class _Chain:
    """Follows operations from the last one down to a product."""

    def __init__(self, state: State) -> None:
        self.graph = state.graph
        values, decisions = state.graph.values, state.decisions
        self.decided = {values[n].name for n in decisions.native if n in values} | set(decisions.tilings)

    def follow(self, node: Node) -> _Affine | None:
        """Return what a node is of a product; None if it is anything else."""
        if node.dtype != "float32" or {node.name, *(s.name for s in sources_of(node))} & self.decided:
            return None
        if isinstance(node, Contract) or (isinstance(node, Reshape) and isinstance(node.source, Contract)):
            return _Affine(node)
        if not isinstance(node, Point) or node.options or node.op not in ("add", "sub", "mul", "div", "neg"):
            return None
        varying = [a for a in node.args if isinstance(a, Node) and a not in self.graph.lasting]
        if len(varying) != 1:  # `x + x` has two
            return None
        inner = varying[0]
        if not self.graph.read_once(inner) or list(map(text_of, inner.shape)) != list(
            map(text_of, node.shape)
        ):
            return None
        found = self.follow(inner)
        others = [a for a in node.args if a is not inner]
        if found is None or not all(
            a in self.graph.lasting if isinstance(a, Node) else _real(a) for a in others
        ):
            return None
        return self._then(found, node, others[0] if others else 0.0, first=node.args[0] is inner)  # type: ignore[arg-type]  # none but nodes and numbers came by `_real`

    @staticmethod
    def _then(found: _Affine, node: Point, other: Term, *, first: bool) -> _Affine | None:
        """Return the form after one more operation."""
        scale, shift, s, t = found.scale, found.shift, f"{node.name}_scale", f"{node.name}_shift"
        match node.op:
            case "add":
                return replace(found, shift=_sum(shift, other, t))
            case "sub" if first:
                return replace(found, shift=_sum(shift, _negative(other, f"{t}_away"), t))
            case "sub":
                return replace(
                    found, scale=_negative(scale, s), shift=_sum(other, _negative(shift, f"{t}_away"), t)
                )
            case "neg":
                return replace(found, scale=_negative(scale, s), shift=_negative(shift, t))
            case "mul":
                return replace(found, scale=_times(scale, other, s), shift=_times(shift, other, t))
            case _ if first and other != 0.0:
                return replace(found, scale=_over(scale, other, s), shift=_over(shift, other, t))
        return None


def _folded(state: State, node: Node) -> _Folded | None:
    """Return the folded chain that ends in a node; None if there is no scale, or it fits no axis of the weights."""
    graph, found = state.graph, _Chain(state).follow(node)
    if found is None or (isinstance(found.scale, float) and found.scale == 1.0):
        return None
    base = found.base.source if isinstance(found.base, Reshape) else found.base
    assert isinstance(base, Contract)
    if (base.left in graph.lasting) == (base.right in graph.lasting):
        return None
    on_left = base.left in graph.lasting
    before, labels = (base.left, base.labels[0]) if on_left else (base.right, base.labels[1])
    scale = _along(found, base, labels)
    if scale is None:
        return None
    weights = Point(
        name=f"{base.name}_scaled", shape=before.shape, dtype="float32", op="mul", args=(before, scale)
    )
    last = isinstance(found.shift, float) and found.shift == 0.0
    new: Node = replace(
        base, name=node.name if last and found.base is base else f"{base.name}_folded",
        left=weights if on_left else base.left, right=base.right if on_left else weights,
    )  # fmt: skip
    if found.base is not base:
        new = replace(found.base, name=node.name if last else f"{found.base.name}_folded", source=new)  # type: ignore[call-arg]  # a view has it
    if not last:
        new = Point(name=node.name, shape=node.shape, dtype="float32", op="add", args=(new, found.shift))
    return _Folded(before, weights, found.shift, new)


def _along(found: _Affine, base: Contract, labels: str) -> Term | None:
    """Return the scale as it is broadcast over the weights; None if it varies along other axes."""
    if not isinstance(found.scale, Node):
        return found.scale
    dims = [d for d, size in enumerate(found.scale.shape) if text_of(size) != "1"]
    if len(dims) > 1:
        return None
    axes = (
        _labels_of(found.base, base, dims[0] + len(found.base.shape) - len(found.scale.shape)) if dims else ""
    )
    if axes is None or [c for c in labels if c in axes] != list(axes):
        return None
    sizes = dict(zip(base.labels[2], base.shape, strict=True))
    shape = tuple(sizes[c] if c in axes else 1 for c in labels)
    return Reshape(name=f"{found.scale.name}_along", shape=shape, dtype="float32", source=found.scale)


def _labels_of(view: Node, base: Contract, dim: int) -> str | None:
    """Return the axes of a product that are one dimension of a view of it."""
    if view is base:
        return base.labels[2][dim]
    for first in reversed(range(len(base.shape))):
        for end in range(first + 1, len(base.shape) + 1):
            before = same(product(base.shape[:first]), product(view.shape[:dim]))
            if before and same(product(base.shape[first:end]), view.shape[dim]):
                return base.labels[2][first:end]
    return None


# The library's product over folded weights ----------------------------------------------------------------


def _operation(graph: Graph, node: Node, found: _Folded) -> Captured | None:
    """Return the captured product of a chain, if its weights are the folded ones."""
    behind, waiting = set[Node](), [node]
    while waiting:
        one = waiting.pop()
        behind.add(one)
        waiting += [a for a in sources_of(one) if a not in graph.lasting and not isinstance(one, Contract)]
    for op in graph.operations:
        kind = op.op.removeprefix("aten.").split(".")[0]
        place = {"convolution": 1, "mm": 1, "addmm": 2}.get(kind)
        if place is None or op.kwargs or graph.values.get(op.name) not in behind:
            continue
        weights = op.args[place]
        known = graph.values.get(weights.name) if isinstance(weights, Ref) else None
        if (
            known is not None
            and known in (found.before, *sources_of(found.before))
            and _plain_bias(found.shift)
        ):
            return op
    return None


def _plain_bias(shift: Term) -> bool:
    """Whether a bias is none, or a vector of channels."""
    if not isinstance(shift, Node):
        return shift == 0.0
    return sum(text_of(size) != "1" for size in shift.shape) == 1


def _captured(graph: Graph, op: Captured, found: _Folded) -> Graph:
    """Return the graph with the product as an operation that torch can compute, over the folded weights."""
    kind, place = ("convolution", 1) if op.op.startswith("aten.convolution") else ("mm", len(op.args) - 1)
    old = op.args[place]
    assert isinstance(old, Ref)
    shape = graph.values[old.name].shape
    weights, bias = f"{op.name}_weights", f"{op.name}_bias"
    values: dict[str, Node] = {
        weights: _shaped(found.weights, shape, weights),
        f"{op.name}_folded": found.result,
    }
    given = Ref(bias) if isinstance(found.shift, Node) else None
    if isinstance(found.shift, Node):
        values[bias] = _shaped(found.shift, (product(found.shift.shape),), bias)
    if kind == "convolution":
        new = replace(op, args=(op.args[0], Ref(weights), given, *op.args[3:]))
    elif given is None:
        new = replace(op, op="aten.mm.default", args=(op.args[place - 1], Ref(weights)))
    else:
        new = replace(op, op="aten.addmm.default", args=(given, op.args[place - 1], Ref(weights)))
    new = replace(new, name=f"{op.name}_folded")
    return replace(graph, operations=(*graph.operations, new), values={**graph.values, **values})


def _shaped(node: Node, shape: tuple[int, ...], name: str) -> Node:
    if list(map(text_of, shape)) == list(map(text_of, node.shape)):
        return node
    return Reshape(name=name, shape=shape, dtype=node.dtype, source=node)


# Terms ------------------------------------------------------------------------------------------------------


def _real(value: Number | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _made(name: str, op: str, *args: Term) -> Node:
    """Make an operation on terms, broadcast."""
    shapes = [a.shape for a in args if isinstance(a, Node)]
    return Point(name=name, shape=broadcast(shapes), dtype="float32", op=op, args=args)


def _sum(a: Term, b: Term, name: str) -> Term:
    if not isinstance(a, Node) and not isinstance(b, Node):
        return float(a + b)
    if 0.0 in (a, b):
        return b if a == 0.0 else a
    return _made(name, "add", *((a, b) if isinstance(a, Node) else (b, a)))


def _times(a: Term, b: Term, name: str) -> Term:
    if not isinstance(a, Node) and not isinstance(b, Node):
        return float(a * b)
    if 0.0 in (a, b):
        return 0.0
    if 1.0 in (a, b):
        return b if a == 1.0 else a
    return _made(name, "mul", *((a, b) if isinstance(a, Node) else (b, a)))


def _over(a: Term, b: Term, name: str) -> Term:
    if not isinstance(b, Node):
        return _times(a, 1.0 / b, name)
    return (
        _made(name, "div", a, b)
        if isinstance(a, Node)
        else _times(a, _made(f"{name}_part", "reciprocal", b), name)
    )


def _negative(a: Term, name: str) -> Term:
    return _made(name, "neg", a) if isinstance(a, Node) else -a
