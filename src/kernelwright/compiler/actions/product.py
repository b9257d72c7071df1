"""Products: by the library that torch calls, or by loops of our own in one of several forms."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...tasks.capture import Node as Captured
from ...tasks.capture import Ref
from ..graph import (
    Contract,
    Expand,
    Graph,
    Node,
    Permute,
    Point,
    Reshape,
    Window,
    ordered,
    sources_of,
    text_of,
)
from ..lower import attended_by, differentiated
from ..tile import Tiling
from ._spread import spread_weights
from ._state import State

PRODUCTS = frozenset({
    "convolution", "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
})  # fmt: skip
"""Operators that end in a library's product."""
SEVERAL = ("all", "dense")
"""Sites that stand for several products: all, or those that are no convolution with one filter a channel."""
_FLOATS = ("float32", "bfloat16", "float16")
_SPLIT = ("loops", "panels", "direct", "dots")
"""Forms that sum shares of the inner axis."""
_SHARED = 1024
"""Inner elements that are worth summing in shares, at least."""


def is_depthwise(product: Contract) -> bool:
    """Tell whether a product is a convolution with one filter a channel: its weights have no axis of their own."""
    one, two, out = product.labels
    sizes = dict(zip(out, map(text_of, product.shape), strict=True))
    for image, labels, others in ((product.left, one, two), (product.right, two, one)):
        cut = image.source if isinstance(image, Reshape) else image  # groups of channels are a view
        if isinstance(cut, Window) and all(sizes.get(c) in (None, "1") for c in set(others) - set(labels)):
            return True
    return False


def sites_of(found: Mapping[str, bool]) -> Iterator[str]:
    """Yield products, each told whether it is dense, and the `SEVERAL` of them."""
    yield from found
    if len(found) > 1:
        yield "all"
    if any(found.values()) and not all(found.values()):
        yield "dense"


def chosen(found: Mapping[str, bool], site: str) -> frozenset[str]:
    """Return the products that a site stands for."""
    if site not in SEVERAL:
        return frozenset([site])
    return frozenset(name for name, dense in found.items() if dense or site == "all")


@dataclass(frozen=True)
class Library:
    """Let the library multiply. What is fused around the product then reads and writes memory in between.

    With `bias_apart` the bias of a convolution is added by what follows: torch adds it in a kernel of its own on a GPU.
    """

    bias_apart: bool = False
    name = "library"

    def sites(self, state: State) -> Iterator[str]:
        """Yield captured products that run as plain loops, and the `SEVERAL` of them."""
        yield from sites_of(self._found(state))

    def apply(self, state: State, site: str) -> State:
        """Make the operation native."""
        names, graph = set(chosen(self._found(state), site)), state.graph
        for op in [op for op in graph.operations if self.bias_apart and op.name in names]:
            new = _without_bias(op, graph)
            if new is not None:
                names = names - {op.name} | {new[0].name}
                values = {**graph.values, new[0].name: new[1]}
                graph = replace(graph, operations=(*graph.operations, new[0]), values=values)
        native = state.decisions.native | names
        return replace(state, graph=graph, decisions=replace(state.decisions, native=native))

    @staticmethod
    def _found(state: State) -> dict[str, bool]:
        alive, values = set(state.graph.nodes), state.graph.values
        names = [
            op.name for op in state.graph.operations
            if op.name not in state.decisions.native and values.get(op.name) in alive and _multiplies(op, state.graph)
        ]  # fmt: skip
        products = {name: nearest_products(values[name]) for name in names}
        return {
            name: not any(map(is_depthwise, found)) for name, found in products.items()
            if any(p.name not in state.decisions.tilings for p in found)
        }  # fmt: skip


def _without_bias(op: Captured, graph: Graph) -> tuple[Captured, Node] | None:
    """Return a convolution without its bias, and its value; None if it has none."""
    value = graph.values[op.name]
    is_sum = isinstance(value, Point) and value.op == "add" and isinstance(value.args[0], Node)
    if not op.op.startswith("aten.convolution.") or op.args[2] is None or not is_sum:
        return None
    assert isinstance(value, Point) and isinstance(value.args[0], Node)
    return replace(op, name=f"{op.name}_unbiased", args=(*op.args[:2], None, *op.args[3:])), value.args[0]


def _multiplies(op: Captured, graph: Graph) -> bool:
    """Tell whether an operation, or the one whose first result it takes, ends in a library's product."""
    if op.op == "getitem" and isinstance(op.args[0], Ref) and op.args[1] == 0:
        source = op.args[0].name
        return any(_multiplies(other, graph) for other in graph.operations if other.name == source)
    return op.op.startswith("aten.") and op.op.split(".")[1] in PRODUCTS


def nearest_products(value: Node) -> list[Contract]:
    """Return the products that a value is computed from, but none behind another product."""
    found: dict[int, Contract] = {}
    waiting, seen = [value], set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Contract):
            found[id(node)] = node
        elif id(node) not in seen:
            seen.add(id(node))
            waiting.extend(sources_of(node))
    return list(found.values())


class Tiled:
    """An action that chooses the form in which products are multiplied."""

    tiling: Tiling

    def sites(self, state: State) -> Iterator[str]:
        """Yield products of floats whose loops are plain, and the `SEVERAL` of them."""
        yield from sites_of(self._found(state))

    def apply(self, state: State, site: str) -> State:
        """Choose the form."""
        return tiled(state, dict.fromkeys(sorted(chosen(self._found(state), site)), self.tiling))

    def _found(self, state: State) -> dict[str, bool]:
        found = (n for n in plain_products(state) if self.tiling.form != "dots" or _lies_along_the_sum(n))
        return {n.name: not is_depthwise(n) for n in found}


@dataclass(frozen=True)
class Panels(Tiled):
    """Multiply in register tiles, both factors packed as the caches want them: the own micro-kernel.

    What is elementwise before the product is computed while packing, what is elementwise after it in
    registers. A factor that is packed is written and read once more, so it wants many rows to serve.
    """

    name = "panels"
    tiling = Tiling("panels")


@dataclass(frozen=True)
class Direct(Tiled):
    """Multiply in register tiles, the right factor read where it lies: for few rows, or windows of an image.

    Saves the packing of a factor that few rows would share.
    """

    name = "direct"
    tiling = Tiling("direct")


@dataclass(frozen=True)
class Dots(Tiled):
    """Multiply rows by columns along the summed axis, lanes on it: for few rows and weights stored by output.

    Legal where both factors lie side by side along that axis. Every weight is read once, in order.
    """

    name = "dots"
    tiling = Tiling("dots", depth=2048, block=16)


@dataclass(frozen=True)
class Winograd:
    """Convolve two by two results at a time: 16 multiplications instead of 36, for windows of 3 by 3 of images.

    F(2x2, 3x3): image and results are transformed in registers; weights once a call, ahead of it where they are
    parameters. Its errors are a few times those of the plain sum, and an infinity or not-a-number spreads over its
    tile; verification decides. Legal in float32 for windows one apart, not dilated, whose product has no form yet.
    """

    name = "winograd"
    tiling = Tiling("winograd", block=48)

    def sites(self, state: State) -> Iterator[str]:
        """Yield such convolutions whose loops are plain."""
        yield from (p.name for p in plain_products(state) if p.dtype == "float32" and _is_three_by_three(p))

    def apply(self, state: State, site: str) -> State:
        """Choose the form, and keep what weights alone decide transformed."""
        found = next(p for p in plain_products(state) if p.name == site)
        new = spread_weights(state.graph, found)
        if new is None:
            return tiled(state, {site: self.tiling})
        kept, product = new
        decisions = replace(state.decisions, ahead=state.decisions.ahead | {kept.name})
        rewritten = replace(state, graph=state.graph.rewritten({found: product}), decisions=decisions)
        return tiled(rewritten, {site: replace(self.tiling, is_spread=True)})


def _is_three_by_three(product: Contract) -> bool:
    """Tell whether a product is a convolution of images with windows of 3 by 3, one apart."""
    one, two, out = product.labels
    sides = ((product.left, one, product.right, two), (product.right, two, product.left, one))
    for image, labels, weights, others in sides:
        cut = image.source if isinstance(image, Reshape) else image  # groups of channels are a view
        if not isinstance(cut, Window) or cut.strides != (1, 1) or cut.dilations != (1, 1):
            continue
        space, inside = labels[-4:-2], labels[-2:]
        summed = [c for c in labels if c not in out]
        fits = len(summed) == 3 and summed[1:] == list(inside) and others[-3:] == "".join(summed)
        if fits and out[-2:] == space and cut.dtype == "float32" == weights.dtype:
            return [text_of(size) for size in cut.shape[-2:]] == ["3", "3"]
    return False


@dataclass(frozen=True)
class Split:
    """Sum the inner axis in shares, a thread each, and add them: for few results of long sums."""

    name = "split"
    shares = 4

    def sites(self, state: State) -> Iterator[str]:
        """Yield products in a form of their own whose sums are long."""
        for node in _alive(state):
            tiling = state.decisions.tilings.get(node.name)
            if (
                tiling is not None
                and tiling.split == 1
                and tiling.form in _SPLIT
                and isinstance(node, Contract)
                and _inner(node) >= _SHARED
            ):
                yield node.name

    def apply(self, state: State, site: str) -> State:
        """Share the sum."""
        return tiled(state, {site: replace(state.decisions.tilings[site], split=self.shares)})


def tiled(state: State, new: dict[str, Tiling]) -> State:
    """Return the state in which products, by name, run in these forms."""
    return replace(state, decisions=replace(state.decisions, tilings={**state.decisions.tilings, **new}))


def _alive(state: State) -> list[Node]:
    """Return what kernels of our own compute: nothing that only a native operation stands for."""
    values = state.graph.values
    native = {id(values[n]): n for n in state.decisions.native if n in values}
    refs = {op.name: op.refs() for op in state.graph.operations}
    found: dict[int, Node] = {}
    waiting = [*state.graph.outputs]
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        reads = [values[r] for r in refs[native[id(node)]] if r in values] if id(node) in native else None
        waiting.extend(sources_of(node) if reads is None else reads)
    return [n for n in state.graph.nodes if id(n) in found and id(n) not in native]


def plain_products(state: State) -> list[Contract]:
    """Return the products of floats whose loops are plain."""
    inside = attended(state)
    return [
        n for n in _alive(state)
        if isinstance(n, Contract) and n.dtype in _FLOATS and n.name not in state.decisions.tilings
        and n not in inside
    ]  # fmt: skip


def attended(state: State) -> frozenset[Node]:
    """Return what an attention computes on the way: its scores, and their softmax."""
    forms = state.decisions.tilings
    products = [n for n in state.graph.nodes if n.name in forms and forms[n.name].form == "online"]
    found = [attended_by(n) for n in products if isinstance(n, Contract)]
    scores = (product for a in found if a for product in nearest_products(a.scores))
    ends = frozenset(scores)
    inside = [ordered([a.weights], lambda n: () if n in ends else sources_of(n)) for a in found if a]
    return frozenset(n for nodes in inside for n in nodes) | _differentiated(state)


def _differentiated(state: State) -> frozenset[Node]:
    """Return what an attention and its gradients compute on the way in one kernel."""
    names = {name for name, tiling in state.decisions.tilings.items() if tiling.form == "gradients"}
    found = differentiated(state.graph.nodes) if names else ()
    return frozenset(n for one in found if names & {p.name for p in one.members} for n in one.kept)


def _inner(product: Contract) -> int:
    one, two, out = product.labels
    sizes = dict(zip(one, product.left.shape, strict=True)) | dict(zip(two, product.right.shape, strict=True))
    count = 1
    for label in set(one + two) - set(out):
        count *= int(sizes[label])
    return count


def _lies_along_the_sum(product: Contract) -> bool:
    """Tell whether both factors lie side by side along the same summed axis."""
    one, two, out = product.labels
    left, right = _last_label(product.left, one), _last_label(product.right, two)
    return left == right and left not in out


def _last_label(node: Node, labels: str) -> str:
    """Return the label along which a factor lies side by side, under the views that put its axes in order."""
    dims = list(range(len(labels)))
    while isinstance(node, Permute | Expand):
        if isinstance(node, Permute):
            dims = [node.order[d] for d in dims]
            node = node.source
        elif isinstance(node, Expand) and len(node.source.shape) == len(node.shape):
            node = node.source
        else:
            break
    return labels[dims.index(len(node.shape) - 1)] if len(node.shape) - 1 in dims else ""
