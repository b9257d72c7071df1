"""A product and the elementwise operations after it → one contraction with an epilogue."""

from collections.abc import Collection, Mapping, Sequence

from ..graph import Contract, Node, Size, product, same, sources_of
from ..tile import (
    Axis,
    Contraction,
    Expression,
    Let,
    Literal,
    Member,
    Position,
    Store,
    Tiling,
    Variable,
    lies_along,
    number,
    offset,
    stride,
    walk,
)  # fmt: skip
from ._block import Block, NeedsStore, kind_of
from ._builder import Builder
from ._index import Index, NeedsSplit, joined

_PHASES = 4
"""Most contiguous results along which lanes do not pay: those of the phases of a stride."""


class NotContraction(Exception):
    """The root is not one product followed by elementwise operations."""


class _Epilogue(Builder):
    """A builder to which one product is a variable."""

    product_of: Contract
    at: Index | None = None
    members: dict[Index, str]
    """Where the product is read → the variable of its sum; the places differ in numbers alone."""

    def _computed(self, node: Node, index: Index, block: Block) -> Expression:
        if node is self.product_of:
            if self.at is not None and _but_numbers(self.at) != _but_numbers(index):
                raise NotContraction("the product is read in two orders")
            self.at = self.at or index
            place = f"{len(self.members)}" if self.members else ""
            return Variable(self.members.setdefault(index, f"{node.name}_sum{place}"), "float32")
        return super()._computed(node, index, block)


def _but_numbers(index: Index) -> list[Expression | None]:
    return [None if isinstance(at, Literal) else at for at in index]


def build_contraction(
    root: Node, stored: Mapping[Node, str], passing: Collection[Node], comment: str,
    tilings: Mapping[str, Tiling],
) -> tuple[Contraction, frozenset[Node]]:  # fmt: skip
    """Build the contraction that stores a root.

    Args:
        root: What is stored.
        stored: Node → buffer, of all stored nodes.
        passing: Stored nodes that are not computed yet.
        comment: What the kernel is for.
        tilings: Product by name → its tiling, if decided.

    Raises:
        NotContraction: there is no product behind the root's elementwise operations, or more than one.
        NeedsStore: an operand must be stored before.
    """
    found = _product(root, {n for n in stored if n is not root and n not in passing})
    splits: dict[str, list[int]] = {}
    for _ in range(8):
        try:
            return _attempt(root, found, stored, splits, comment, tilings.get(found.name, Tiling()))
        except NeedsStore as needs:
            if needs.node is root:
                raise NotContraction("the root has loops of its own") from None
            raise
        except NeedsSplit as cut:
            if cut.axis in splits or cut.axis[-2:-1] == "_":
                raise NotContraction("an axis is cut twice") from None
            splits[cut.axis] = [cut.outer, cut.inner]
    raise NotContraction("its axes do not settle")


def _product(root: Node, ends: Collection[Node]) -> Contract:
    """Return the one product that the root is computed from."""
    found: list[Contract] = []
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or (node in ends and node is not root):
            continue
        seen.add(id(node))
        if isinstance(node, Contract):
            found.append(node)
            continue
        waiting.extend(sources_of(node))
    if len(found) != 1:
        raise NotContraction(f"{len(found)} products")
    return found[0]


def _axes_by_label(
    found: Contract, first: Sequence[Expression], chosen: Mapping[str, Expression], sizes: Mapping[str, int]
) -> dict[str, list[str]]:
    """Return the loop axes that each label of the result runs over; none for a label fixed to one member."""
    one, _, out = found.labels
    if any(c in one for c in chosen):
        raise NotContraction("members of another left factor")
    groups = [
        [] if c in chosen else _axes(at, size, sizes)
        for c, at, size in zip(out, first, found.shape, strict=True)
    ]  # fmt: skip
    if sorted(a for g in groups for a in g) != sorted(sizes):
        raise NotContraction("the result is broadcast")
    return dict(zip(out, groups, strict=True))


def _attempt(
    root: Node,
    found: Contract,
    stored: Mapping[Node, str],
    splits: Mapping[str, Sequence[int]],
    comment: str,
    tiling: Tiling,
) -> tuple[Contraction, frozenset[Node]]:
    builder = _Epilogue(stored, splits, frozenset([root, found]))
    builder.product_of, builder.members = found, {}
    top = Block()
    positions, sizes = list[Expression](), dict[str, int]()
    for d, size in enumerate(root.shape):
        position, inner = builder.loops(f"i{d}", size, top)
        positions.append(position)
        sizes |= {b.axis: b.size for b in inner.chain() if b.axis}
    block = Block(top, "+".join(sizes), 1)
    flat = _Flat(builder, block, frozenset(sizes))
    value = flat.value(root, tuple(positions))
    if builder.at is None or kind_of(found.dtype) != "float32":
        raise NotContraction("the product is not read")
    if root not in builder.done:
        block.body.append(Store(stored[root], tuple(positions), value))
    done = frozenset(n for n in (root, found) if n is root or n in builder.done)
    one, two, out = found.labels
    first, *others = builder.members
    chosen = {c: at for c, at in zip(out, first, strict=True) if others and isinstance(at, Literal)}
    named = _axes_by_label(found, first, chosen, sizes)
    summed = [c for c in dict.fromkeys(one + two) if c not in out]
    index = {c: joined([(Position(a), sizes[a]) for a in axes]) for c, axes in named.items()} | chosen
    shape = dict(zip(one, found.left.shape, strict=True)) | dict(zip(two, found.right.shape, strict=True))
    inner_axes = []
    for c in summed:
        axis = f"{found.name}_{c}"
        builder.axes[axis] = shape[c]
        index[c] = Position(axis)
        inner_axes.append(Axis(axis, shape[c]))
    left = flat.operand(found.left, tuple(index[c] for c in one), inner_axes)
    rights = []
    for member in (first, *others):
        index |= {c: at for c, at in zip(out, member, strict=True) if c in chosen}
        rights.append(flat.operand(found.right, tuple(index[c] for c in two), inner_axes))
    right = rights[0]
    role = {c: (c in one) + 2 * (c in two) for c in out}

    def picked(kind: int) -> tuple[Axis, ...]:
        return tuple(Axis(a, sizes[a]) for c in out if role[c] == kind for a in named[c])

    epilogue = tuple(s for s in block.body if isinstance(s, Let | Store))
    if len(epilogue) != len(block.body) or top.body:
        raise NotContraction("a reduction follows")
    rows, columns = picked(1), picked(2)
    along = _lies_along(tuple(positions), root.shape, (*rows, *columns))
    if (along in rows and not _is_short(along, columns, right)) or (
        along in columns and _is_short(along, rows, left)
    ):
        if others:
            raise NotContraction("members along the rows")
        rows, columns, left, right = columns, rows, right, left
    return Contraction(
        name=f"{stored[root]}_kernel", batch=picked(3), rows=rows, columns=columns, inner=tuple(inner_axes),
        left=left, right=right, accumulator=f"{found.name}_sum", epilogue=epilogue, comment=comment, tiling=tiling,
        others=tuple(Member(builder.members[at], r) for at, r in zip(others, rights[1:], strict=True)),
    ), done  # fmt: skip


def _lies_along(index: Index, shape: Sequence[int], axes: Sequence[Axis]) -> Axis | None:
    """Return the axis along which the result is contiguous."""
    place = offset(index, shape)
    return next((a for a in axes if stride(place, a.name) == number(1)), None)


def _is_short(along: Axis, others: Sequence[Axis], factor: Expression) -> bool:
    """Whether an axis is a few phases, and lanes find neighbours along the others."""
    few = not isinstance(along.size, Size) and along.size <= _PHASES
    return few and bool(others) and int(others[-1].size) > _PHASES and lies_along(factor, others[-1].name)


class _Flat:
    """Evaluates everything in one block: no hoisting, no loops."""

    def __init__(self, builder: Builder, block: Block, axes: frozenset[str]) -> None:
        self.builder, self.block, self.axes = builder, block, axes

    def value(self, node: Node, index: Index) -> Expression:
        self.block.guard = True
        return self.builder.element(node, index, self.block)

    def operand(self, node: Node, index: Index, inner: Sequence[Axis]) -> Expression:
        """Return an operand as one expression; it must be stored first if it needs loops, or cuts the inner axis."""
        shadow = Block(self.block)
        for axis in inner:
            shadow = Block(shadow, axis.name, axis.size)
        shadow = Block(shadow)
        try:
            return self.builder.lazily(node, index, shadow)
        except NeedsSplit as cut:
            if cut.axis in {axis.name for axis in inner}:
                raise NeedsStore(node) from None
            raise


def _axes(at: Expression, size: int, sizes: Mapping[str, int]) -> list[str]:
    """Name the loops that an index is put together from; all of them whole."""
    axes = [e.axis for e in walk(at) if isinstance(e, Position)]
    if not sizes.keys() >= set(axes):
        raise NotContraction("a reduction follows")
    if at != joined([(Position(a), sizes[a]) for a in axes]) or not same(
        product([sizes[a] for a in axes]), size
    ):
        raise NotContraction("the result is read in part")
    return axes
