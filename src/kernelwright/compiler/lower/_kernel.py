"""Roots → one kernel: the loop order is found by trial."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..graph import Node, Scatter
from ..tile import Call, Expression, Kernel, Kind, Statement, Store, arith, number
from ._block import Block, NeedsStore, Unlowered
from ._builder import Builder
from ._index import NeedsSplit, compare

_MOST_TRIES = 40


class _Order:
    """The order of the root loops, as constraints come in."""

    def __init__(self) -> None:
        self.first: list[frozenset[str]] = []
        self.last = ""
        self.ordered = ""

    def take(self, needs: NeedsStore) -> bool:
        """Add what an attempt requested; false if it conflicts with earlier requests."""
        if needs.last:
            if self.last or any(needs.last in s for s in self.first):
                return False
            self.last = needs.last
            return True
        new = needs.first
        if not new or new in self.first or self.last in new:
            return False
        if any(not (new < s or s < new) for s in self.first):
            return False
        self.first = sorted([*self.first, new], key=len)
        return True

    def sorted(self, axes: Sequence[str]) -> list[str]:
        """Order axes: those of the smallest set first, the last one last, others as they were."""

        def rank(axis: str) -> int:
            place = next((i for i, s in enumerate(self.first) if axis in s), len(self.first))
            return len(self.first) + 1 if axis == self.last else place

        return sorted(axes, key=rank)


def build_kernel(
    roots: Sequence[Node], stored: Mapping[Node, str], passing: Collection[Node], comment: str,
    accumulate: Mapping[str, Kind],
) -> tuple[Kernel, frozenset[Node]]:  # fmt: skip
    """Build one kernel that stores the roots, and on the way those of `passing` that it computes anyway.

    Args:
        roots: Nodes of one shape.
        stored: Node → buffer, of all stored nodes.
        passing: Stored nodes that are not computed yet and may be.
        comment: What the kernel is for.
        accumulate: Sum by its node's name → its accumulator type.

    Returns:
        The kernel, and the nodes that it stores.

    Raises:
        NeedsStore: a value must be stored before, by another kernel.
        Unlowered: something has no form in tiles.
    """
    splits: dict[str, list[int]] = {}
    order = _Order()
    again, yielding = set[Node](), set[Node]()
    for _ in range(_MOST_TRIES):
        try:
            builder = Builder(stored, splits, frozenset([*roots, *passing]), accumulate, again)
            kernel, done = _attempt(roots, builder, order)
            return replace(kernel, comment=comment), done
        except NeedsSplit as cut:
            if not cut.cuts(splits):
                raise NeedsStore(roots[0]) from None
        except NeedsStore as needs:
            if order.take(needs):
                yielding |= {needs.node} if needs.cheap else set()
            elif needs.cheap:
                again.add(needs.node)
            elif yielding:  # an order taken for what may be computed again gives way
                again |= yielding
                yielding, order = set(), _Order()
            else:
                raise
    raise NeedsStore(roots[0])


def _attempt(roots: Sequence[Node], builder: Builder, order: _Order) -> tuple[Kernel, frozenset[Node]]:
    stored, top = builder.stored, Block()
    index, block = _root_loops(builder, roots[0].shape, order, top)
    for root in roots:
        value = builder.element(root, index, block)
        if root not in builder.done:
            place = builder.home(index, block)
            place.body.append(Store(stored[root], index, value))
            builder.done.add(root)
    while block is not top:
        block.close()
        assert block.parent is not None
        block = block.parent
    return Kernel(f"{stored[roots[0]]}_kernel", tuple(top.body)), frozenset(builder.done)


def _root_loops(
    builder: Builder, shape: Sequence[int], order: _Order, top: Block
) -> tuple[tuple[Expression, ...], Block]:
    """Open the loops over a shape in the requested order."""
    parts: dict[str, int] = {}
    positions: list[Expression] = []
    for d, size in enumerate(shape):
        position, inner = builder.loops(f"i{d}", size, top)
        chain = [b for b in inner.chain() if b.axis]
        parts |= {b.axis: b.size for b in chain}
        positions.append(position)
    block = top
    for axis in order.sorted(list(parts)):
        block = Block(block, axis, parts[axis], ordered=axis in (order.last, order.ordered))
    return tuple(positions), block


def build_scatter(node: Scatter, stored: Mapping[Node, str]) -> tuple[Kernel, Kernel]:
    """Build the copy of the base and the loop over the updates, sequential along `dim`.

    Raises:
        NeedsStore: no order of loops over the scatter's axes fits the layout of what it reads.
        Unlowered: something has no form in tiles.
    """
    try:
        return _base(node, stored), _updates(node, stored)
    except NeedsSplit as cut:
        for read in (node.base, node.index, node.updates):
            if read not in stored:
                raise NeedsStore(read) from None
        raise Unlowered(f"{node.name} wants {cut.axis} in parts") from None


def _base(node: Scatter, stored: Mapping[Node, str]) -> Kernel:
    name, top = stored[node], Block()
    copy = Builder(stored, {}, frozenset())
    index, block = _root_loops(copy, node.shape, _Order(), top)
    value = copy.element(node.base, index, block)
    block.body.append(Store(name, index, value))
    return Kernel(f"{name}_copy", _closed(block, top), f"{name}: the base of the scatter")


def _updates(node: Scatter, stored: Mapping[Node, str]) -> Kernel:
    name, top = stored[node], Block()
    put = Builder(stored, {}, frozenset())
    index, block = _root_loops(put, node.updates.shape, _in_rows(node), top)
    where = index if node.aligned else (index[node.dim],)
    at = put.element(node.index, where, block)
    negative = compare("lt", at, number(0))
    size = number(node.shape[node.dim])
    into = list(index)
    into[node.dim] = Call("where", (negative, arith("+", at, size), at), (), "int64")
    value = put.element(node.updates, index, block)
    combine = "" if node.combine == "set" else node.combine
    block.body.append(Store(name, tuple(into), value, combine))
    return Kernel(f"{name}_put", _closed(block, top), f"{name}: updates at computed positions, in order")


def _in_rows(node: Scatter) -> _Order:
    """Order the loops of the updates: along `dim` in turn, and what lies side by side in memory innermost."""
    order, along, axes = _Order(), f"i{node.dim}", [f"i{d}" for d in range(len(node.updates.shape))]
    if along == axes[-1]:
        order.last = along
        return order
    before = frozenset(axes[:-1]) - {along}
    order.first, order.ordered = [s for s in (before, before | {along}) if s], along
    return order


def _closed(block: Block, top: Block) -> tuple[Statement, ...]:
    while block is not top:
        block.close()
        assert block.parent is not None
        block = block.parent
    return tuple(top.body)
