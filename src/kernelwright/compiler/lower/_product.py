"""What builds a product: its sum as a variable of what follows, its factors as one expression each."""

from collections.abc import Collection, Sequence

from ..graph import Contract, Node, sources_of
from ..tile import Axis, Expression, Literal, Variable
from ._block import Block, NeedsStore
from ._builder import Builder
from ._index import Index, NeedsSplit


class NotContraction(Exception):
    """The root is not one product followed by elementwise operations."""


class NotAttention(Exception):
    """A product was to be an attention, and is none."""


class Epilogue(Builder):
    """A builder to which one product is a variable."""

    product_of: Contract
    at: Index | None = None
    members: dict[Index, str]
    """Where the product is read → the variable of its sum; the places differ in numbers alone."""
    weights: Node | None = None
    """A softmax that is a variable too: what the product multiplies."""
    weights_at: Index | None = None

    def _computed(self, node: Node, index: Index, block: Block) -> Expression:
        if node is self.weights:
            self.weights_at = index
            return Variable(node.name, "float32")
        if node is self.product_of:
            if self.at is not None and _but_numbers(self.at) != _but_numbers(index):
                raise NotContraction("the product is read in two orders")
            self.at = self.at or index
            place = f"{len(self.members)}" if self.members else ""
            return Variable(self.members.setdefault(index, f"{node.name}_sum{place}"), "float32")
        return super()._computed(node, index, block)


def _but_numbers(index: Index) -> list[Expression | None]:
    return [None if isinstance(at, Literal) else at for at in index]


def product_behind(root: Node, ends: Collection[Node]) -> Contract:
    """Return the one product that the root is computed from."""
    found = products_behind(root, ends)
    if len(found) != 1:
        raise NotContraction(f"{len(found)} products")
    return found[0]


def products_behind(root: Node, ends: Collection[Node]) -> list[Contract]:
    """Return the products that the root is computed from, but for what is behind one of them or behind an end."""
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
    return found


def summed_axes(found: Contract) -> dict[str, Axis]:
    """Return the axes that a product sums over, by their labels."""
    one, two, out = found.labels
    sizes = dict(zip(one, found.left.shape, strict=True)) | dict(zip(two, found.right.shape, strict=True))
    return {c: Axis(f"{found.name}_{c}", sizes[c]) for c in dict.fromkeys(one + two) if c not in out}


class Flat:
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
