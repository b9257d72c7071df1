"""An attention and its gradients → one kernel: weights and what changes them are computed where they are read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..graph import Contract, Node, Permute, Point, Reduce, Reshape, ordered, same, sources_of
from ..tile import (
    Axis,
    Buffer,
    Contraction,
    Expression,
    Gradients,
    Kernel,
    Load,
    Position,
    Row,
    Statement,
    Store,
    Tiling,
    Variable,
    as_loops,
    offset,
)  # fmt: skip
from ._attention import Attended, softmax_at
from ._block import Block, NeedsStore
from ._contraction import build_contraction
from ._index import Index, NeedsSplit, counts
from ._kernel import build_kernel
from ._product import Epilogue, NotContraction, products_behind

_VIEWS = (Reshape, Permute)


@dataclass(frozen=True)
class Differentiated:
    """An attention whose scores' gradients are computed from its weights, and the products of both."""

    attended: Attended
    scores: Contract
    """What the scores are computed from."""
    change: Node
    """The gradient of the scores."""
    slopes: Contract
    """The gradient of the weights."""
    total: Reduce | None
    """The sum of weights times their gradient along a row, where that is read."""
    members: tuple[Contract, ...]
    """Products of weights or changes, in the order of the graph."""

    @property
    def kept(self) -> tuple[Node, ...]:
        """What stays in caches: scores, weights, their gradient, and the change."""
        return (self.scores, self.attended.weights, self.slopes, self.change)


def differentiated(nodes: Sequence[Node]) -> tuple[Differentiated, ...]:
    """Find the attentions of a graph that are differentiated in it."""
    products = [n for n in nodes if isinstance(n, Contract) and n.dtype == "float32"]
    found = [a for n in nodes if isinstance(n, Point) and (a := softmax_at(n, is_right=False))]
    guarded = {n for a in found if a.safe and isinstance(a.weights, Point) for n in a.weights.args}
    return tuple(d for a in found if a.weights not in guarded for d in _of(a, products))


def gradients_with(nodes: Sequence[Node], product: Contract) -> Differentiated:
    """Return the attention among whose products one is.

    Raises:
        NotContraction: there is none.
    """
    for found in differentiated(nodes):
        if product in found.members:
            return found
    raise NotContraction("a product of no attention that is differentiated")


def kept_in(nodes: Sequence[Node], tilings: Mapping[str, Tiling]) -> frozenset[Node]:
    """Return the products that stay in caches where those of an attention and its gradients run in one kernel."""
    if not any(t.form == "gradients" for t in tilings.values()):
        return frozenset()
    chosen = (d for d in differentiated(nodes) if any(p.name in tilings for p in d.members))
    return frozenset(p for d in chosen for p in (d.scores, d.slopes))


def member_of(root: Node, left: Sequence[Node], tilings: Mapping[str, Tiling]) -> Contract | None:
    """Return the product that a stored node is with what follows it, if it is to run with others of an attention.

    Raises:
        NeedsStore: several stored nodes follow that product.
    """
    found = member_behind(root, tilings)
    return found if found is not None and _root_of(found, left) is root else None


def member_behind(root: Node, tilings: Mapping[str, Tiling]) -> Contract | None:
    """Return the one product that a node is computed from element by element, if it is to run with others."""
    if not any(t.form == "gradients" for t in tilings.values()):
        return None
    found = _followed(root)
    chosen = [n for n in found if n.name in tilings and tilings[n.name].form == "gradients"]
    return chosen[0] if len(found) == len(chosen) == 1 else None


def _followed(root: Node) -> set[Contract]:
    """Return the products that a node is computed from element by element."""
    found, waiting, seen = set[Contract](), [root], set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Contract):
            found.add(node)
        elif id(node) not in seen and isinstance(node, Point | Reshape | Permute):
            seen.add(id(node))
            waiting.extend(sources_of(node))
    return found


def next_of(left: Sequence[Node], nodes: Sequence[Node], tilings: Mapping[str, Tiling]) -> Node:
    """Return the stored node to compute last: what reads a product of an attention comes after all its products."""
    product = member_behind(left[-1], tilings)
    if product is None:
        return left[-1]
    try:
        own = {_root_of(member, left) for member in gradients_with(nodes, product).members}
    except (NotContraction, NeedsStore):
        return left[-1]
    late = [n for n in left if n not in own and not own.isdisjoint(ordered([n]))]
    return late[-1] if late else left[-1]


def _of(attended: Attended, products: Sequence[Contract]) -> Iterable[Differentiated]:
    behind = products_behind(attended.scores, ())
    last = len(attended.weights.shape) - 1
    if len(behind) != 1 or attended.dim != last:
        return
    for change in dict.fromkeys(side for p in products for side in map(_bare, (p.left, p.right))):
        parts = _parts(change, attended.weights)
        if parts is None:
            continue
        slopes, total = parts
        before = set(ordered([change]))
        members = tuple(
            p for p in products
            if p not in before and {_bare(p.left), _bare(p.right)} & {attended.weights, change}
        )  # fmt: skip
        if any(change in (_bare(p.left), _bare(p.right)) for p in members):
            yield Differentiated(attended, behind[0], change, slopes, total, members)


def _bare(node: Node) -> Node:
    """Return what a view shows."""
    while isinstance(node, _VIEWS):
        node = node.source
    return node


def _parts(change: Node, weights: Node) -> tuple[Contract, Reduce | None] | None:
    """Return the product that a change is made of, together with weights, and the sum of both along a row."""
    products, totals, seen, waiting, weighed = set[Contract](), set[Reduce](), set[int](), [change], False
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node is weights:
            weighed = True
        elif isinstance(node, Contract):
            products.add(node)
        elif isinstance(node, Reduce):
            totals |= {node} if _is_total(node, weights) else set()
        else:
            waiting.extend(sources_of(node))
    if not weighed or len(products) != 1 or len(totals) > 1:
        return None
    (slopes,) = products
    total = next(iter(totals), None)
    if total is None:
        return slopes, None
    assert isinstance(total.source, Point)
    weighed_by = [_bare(a) for a in total.source.args if isinstance(a, Node)]
    return (slopes, total) if slopes in weighed_by else None


def _is_total(node: Reduce, weights: Node) -> bool:
    """Tell whether a reduction sums weights times something along their rows."""
    source, last = node.source, len(weights.shape) - 1
    times = isinstance(source, Point) and source.op == "mul" and weights in source.args
    return times and node.monoid == "sum" and node.dims == (last,) and len(source.shape) == last + 1


# One kernel -----------------------------------------------------------------------------------------------


class _Inside(Epilogue):
    """A builder to which the product, the weights and their sum with it are variables."""

    total: Node | None = None
    total_at: Index | None = None

    def _computed(self, node: Node, index: Index, block: Block) -> Expression:
        if node is self.total:
            self.total_at = index
            return Variable(node.name, "float32")
        if isinstance(node, Reduce):
            raise NeedsStore(node)
        return super()._computed(node, index, block)


def build_gradients(
    found: Differentiated, left: Sequence[Node], stored: Mapping[Node, str]
) -> tuple[Kernel, frozenset[Node], dict[Node, Buffer]]:
    """Build the kernel that computes the products of an attention's weights and changes.

    Args:
        found: The attention.
        left: Stored nodes that are not computed yet.
        stored: Node → buffer, of all stored nodes.

    Returns:
        The kernel, the nodes that it stores, and rooms for what it keeps in caches.

    Raises:
        NotContraction: it has no such form.
        NeedsStore: a value must be stored before.
    """
    weights, rooms = found.attended.weights, _rooms(found, stored)
    others = {node: name for node, name in stored.items() if node not in rooms}
    inside = others | {node: room.name for node, room in rooms.items() if node in (weights, found.change)}
    members, done = [], set[Node]()
    for product in found.members:
        root = _root_of(product, left)
        made, stores = build_contraction(root, inside, (), "", {})
        done |= stores
        members.append(_member(made, rooms[weights], rooms[found.change]))
    if len({role for role, _ in members}) != len(members):
        raise NotContraction("several products of one kind")
    scores, slopes = (_plain(p, others, rooms[p].name) for p in (found.scores, found.slopes))
    axes = tuple(Axis(f"i{d}", size) for d, size in enumerate(weights.shape))
    score = _expression(found.attended.scores, found.scores, None, None, others, axes)
    change = _expression(found.change, found.slopes, weights, found.total, others, axes)
    form = Gradients(
        axes=axes, scores=scores, slopes=slopes, score=score, change=change, weight=weights.name,
        total=found.total.name if found.total else "", safe=found.attended.safe, members=tuple(members),
    )  # fmt: skip
    _check_sizes(form)
    body = (
        *(Row(room.name) for room in rooms.values()),
        *as_loops(scores).body, *_loops(weights, others, rooms, found.scores),
        *as_loops(slopes).body, *_loops(found.change, others, rooms, weights, found.slopes),
        *(s for _, member in members for s in as_loops(member).body),
    )  # fmt: skip
    comment = f"{weights.name}: an attention, and gradients through it"
    return Kernel(members[-1][1].name, body, comment, gradients=form), frozenset(done), rooms


def _rooms(found: Differentiated, stored: Mapping[Node, str]) -> dict[Node, Buffer]:
    nodes = found.kept
    if len(set(nodes)) != len(nodes):
        raise NotContraction("scores without a gradient of their own")
    taken = set(stored.values())
    names = [f"{n.name}_room" for n in nodes]
    if taken & {*names} or any(n.dtype != "float32" for n in nodes):
        raise NotContraction("weights in another dtype, or names that are taken")
    return {n: Buffer(name, n.dtype, n.shape, "row") for n, name in zip(nodes, names, strict=True)}


def _root_of(product: Contract, left: Sequence[Node]) -> Node:
    """Return the stored node that is one product and what follows it.

    Raises:
        NeedsStore: several are, or none.
    """
    found = [product] if product in left else [node for node in left if _followed(node) == {product}]
    if len(found) != 1:
        raise NeedsStore(product)
    return found[0]


def _member(c: Contraction, weights: Buffer, change: Buffer) -> tuple[str, Contraction]:
    """Tell which product of weights or changes a contraction is."""
    if isinstance(c.right, Load) and c.right.buffer in (weights.name, change.name):
        c = replace(c, rows=c.columns, columns=c.rows, left=c.right, right=c.left)
    load = c.left
    if not isinstance(load, Load) or load.buffer not in (weights.name, change.name):
        raise NotContraction("something is done to the weights")
    room = weights if load.buffer == weights.name else change
    if [len(axes) for axes in (c.rows, c.columns, c.inner)] != [1, 1, 1] or c.others:
        raise NotContraction("queries, keys or depth along several axes")
    (row,), (inner,) = c.rows, c.inner
    *items, one, two = load.index
    if not _is_item(items, room.shape[:-2], c.batch):
        raise NotContraction("weights of other items")
    if (one, two) == (Position(row.name), Position(inner.name)):
        return ("of_out" if room is weights else "of_query"), c
    if (one, two) == (Position(inner.name), Position(row.name)):
        return ("of_value" if room is weights else "of_key"), c
    raise NotContraction("weights in another order")


def _plain(product: Contract, stored: Mapping[Node, str], room: str) -> Contraction:
    """Return a product of items, rows and keys, in this order."""
    made, _ = build_contraction(product, {**stored, product: room}, (), "", {})
    (store,) = (s for s in made.epilogue if isinstance(s, Store))
    if [len(axes) for axes in (made.rows, made.columns, made.inner)] != [1, 1, 1]:
        raise NotContraction("scores of several axes")
    *items, row, key = store.index
    ends = (Position(made.rows[0].name), Position(made.columns[0].name))
    if (row, key) != ends or not _is_item(items, product.shape[:-2], made.batch):
        raise NotContraction("scores in another order")
    return made


def _expression(
    node: Node, product: Contract, weights: Node | None, total: Node | None, stored: Mapping[Node, str],
    axes: Sequence[Axis],
) -> Expression:  # fmt: skip
    """Return an element as a function of the product's sum, weights, their total, and positions."""
    own = {n: name for n, name in stored.items() if n not in (node, product, weights)}
    roots = frozenset(n for n in (node, product, weights) if n is not None)
    builder = _Inside(own, {}, roots, axes={a.name: a.size for a in axes})
    builder.product_of, builder.members = product, {}
    builder.weights, builder.total = weights, total
    at = tuple(Position(a.name) for a in axes)
    try:
        made = builder.lazily(node, at, Block())
    except NeedsSplit:
        raise NotContraction("scores along a part of an axis") from None
    read = builder.at
    if read is None or len(builder.members) != 1 or read[-2:] != at[-2:]:
        raise NotContraction("scores of several elements of a product")
    if not _is_item(read[:-2], product.shape[:-2], axes[:-2]):
        raise NotContraction("scores of other items")
    if builder.weights_at not in (None, at) or builder.total_at not in (None, at[:-1]):
        raise NotContraction("weights of another place")
    return made


def _is_item(index: Sequence[Expression], shape: Sequence[int], axes: Sequence[Axis]) -> bool:
    """Tell whether an index counts through these axes, the last fastest; one of a single element tells nothing."""
    return counts(offset(tuple(index), tuple(shape)), [(a.name, a.size) for a in axes])


def _loops(
    node: Node, stored: Mapping[Node, str], rooms: Mapping[Node, Buffer], *read: Node
) -> tuple[Statement, ...]:
    """Return the loops that compute a node of what is kept."""
    known = {n: name for n, name in stored.items() if n is not node}
    known |= {n: rooms[n].name for n in (*read, node)}
    kernel, _ = build_kernel([node], known, (), "", {})
    return kernel.body


def _check_sizes(form: Gradients) -> None:
    """Check that all products have the sizes of the attention."""
    rows, keys = form.axes[-2].size, form.axes[-1].size
    inner, columns = form.scores.inner[0].size, form.slopes.inner[0].size
    wanted = {
        "of_out": (rows, keys, columns), "of_query": (rows, keys, inner),
        "of_value": (keys, rows, columns), "of_key": (keys, rows, inner),
    }  # fmt: skip
    for role, c in form.members:
        if not all(map(same, wanted[role], (c.rows[0].size, c.inner[0].size, c.columns[0].size))):
            raise NotContraction("products of other sizes")


__all__ = [
    "Differentiated", "build_gradients", "differentiated", "gradients_with", "kept_in", "member_behind", "member_of",
    "next_of",
]  # fmt: skip
