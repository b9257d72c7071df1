"""A product and the elementwise operations after it → one contraction with an epilogue."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..graph import Contract, Node, Size, ordered, product, same
from ..tile import (
    OF_IMAGES,
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
    Weights,
    lies_along,
    mapped,
    number,
    offset,
    positions,
    renamed,
    stride,
    walk,
)  # fmt: skip
from ._attention import attended_by, weights_of
from ._block import Block, NeedsStore, kind_of
from ._image import image_behind, image_of
from ._index import Index, NeedsSplit, counts, joined
from ._product import Epilogue, Flat, NotAttention, NotContraction, product_behind, summed_axes

_PHASES = 4
"""Most contiguous results along which lanes do not pay: those of the phases of a stride."""


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
        NotAttention: there is, but no softmax of scores is multiplied, and its form asks for one.
        NeedsStore: an operand must be stored before.
    """
    found = product_behind(root, {n for n in stored if n is not root and n not in passing})
    tiling = tilings.get(found.name, Tiling())
    try:
        return _settled(root, found, stored, comment, tiling)
    except NotContraction as error:
        if tiling.form == "online":
            raise NotAttention(f"{found.name} is no attention: {error}") from None
        raise


def _settled(
    root: Node, found: Contract, stored: Mapping[Node, str], comment: str, tiling: Tiling
) -> tuple[Contraction, frozenset[Node]]:
    """Build the contraction, cutting axes as views need it."""
    splits: dict[str, list[int]] = {}
    for _ in range(8):
        try:
            return _attempt(root, found, stored, splits, comment, tiling)
        except NeedsStore as needs:
            if needs.node is root:
                raise NotContraction("the root has loops of its own") from None
            if tiling.form in OF_IMAGES and (image := image_behind(found, needs.node)) is not None:
                raise NeedsStore(image) from None
            if found in ordered([needs.node]):
                raise NotContraction("a reduction of it follows, and it as well") from None
            raise
        except NeedsSplit as cut:
            if cut.axis in splits or not cut.cuts(splits):
                raise NotContraction("an axis is cut twice, or into too many parts") from None
    raise NotContraction("its axes do not settle")


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
    if sorted(a for g in groups for a in g) != sorted(set(sizes) - _dropped(groups, sizes)):
        raise NotContraction("the result is broadcast")
    return dict(zip(out, groups, strict=True))


def _dropped(groups: Iterable[Sequence[str]], sizes: Mapping[str, int]) -> set[str]:
    """Return the axes of one element that the product lacks: a view made them."""
    used = {a for group in groups for a in group}
    return {a for a, size in sizes.items() if a not in used and not isinstance(size, Size) and size == 1}


def _attempt(
    root: Node,
    found: Contract,
    stored: Mapping[Node, str],
    splits: Mapping[str, Sequence[int]],
    comment: str,
    tiling: Tiling,
) -> tuple[Contraction, frozenset[Node]]:
    builder = Epilogue(stored, splits, frozenset([root, found]))
    builder.product_of, builder.members = found, {}
    attended = attended_by(found) if tiling.form == "online" else None
    builder.weights = attended.weights if attended else None
    top = Block()
    positions, sizes = list[Expression](), dict[str, int]()
    for d, size in enumerate(root.shape):
        position, inner = builder.loops(f"i{d}", size, top)
        positions.append(position)
        sizes |= {b.axis: b.size for b in inner.chain() if b.axis}
    block = Block(top, "+".join(sizes), 1)
    flat = Flat(builder, block, frozenset(sizes))
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
    index = {c: joined([(Position(a), sizes[a]) for a in axes]) for c, axes in named.items()} | chosen
    summed = summed_axes(found)
    inner_axes = list(summed.values())
    builder.axes |= {axis.name: axis.size for axis in inner_axes}
    index |= {c: Position(axis.name) for c, axis in summed.items()}
    left = flat.operand(found.left, tuple(index[c] for c in one), inner_axes)
    rights = []
    for member in (first, *others):
        index |= {c: at for c, at in zip(out, member, strict=True) if c in chosen}
        rights.append(flat.operand(found.right, tuple(index[c] for c in two), inner_axes))
    role = {c: (c in one) + 2 * (c in two) for c in out}

    def picked(kind: int) -> tuple[Axis, ...]:
        return tuple(Axis(a, sizes[a]) for c in out if role[c] == kind for a in named[c])

    zero = dict.fromkeys(_dropped(named.values(), sizes), number(0))
    epilogue = tuple(s for s in block.body if isinstance(s, Let | Store))
    if len(epilogue) != len(block.body) or top.body:
        raise NotContraction("a reduction follows")
    whole = Contraction(
        name=f"{stored[root]}_kernel", batch=picked(3), rows=picked(1), columns=picked(2), inner=tuple(inner_axes),
        left=left, right=rights[0], accumulator=f"{found.name}_sum", epilogue=epilogue, comment=comment,
        tiling=tiling,
        others=tuple(Member(builder.members[at], r) for at, r in zip(others, rights[1:], strict=True)),
    )  # fmt: skip
    if attended is not None:
        weights = weights_of(attended, builder.weights_at, inner_axes, builder, flat)
        whole = _attending(whole, weights, attended.is_right)
    elif tiling.form == "online":
        raise NotContraction("no softmax is multiplied")
    elif tiling.form in OF_IMAGES:
        whole = image_of(found, whole, named, index, flat)
    else:
        whole = _along_results(
            whole, _lies_along(tuple(positions), root.shape, (*whole.rows, *whole.columns))
        )
    return _without(whole, zero), done


def _along_results(c: Contraction, along: Axis | None) -> Contraction:
    """Return the contraction with lanes along the axis along which its results lie side by side."""
    if not (along in c.rows and not _is_short(along, c.columns, c.right)) and not (
        along in c.columns and _is_short(along, c.rows, c.left)
    ):
        return c
    if c.others:
        raise NotContraction("members along the rows")
    return replace(c, rows=c.columns, columns=c.rows, left=c.right, right=c.left)


def _without(c: Contraction, zero: Mapping[str, Expression]) -> Contraction:
    """Return the contraction at element zero of some axes."""
    found = mapped(c, lambda e: renamed(e, zero)) if zero else c
    assert isinstance(found, Contraction)
    return found


def _attending(c: Contraction, weights: Weights, turned: bool) -> Contraction:
    """Return the contraction whose left factor are these weights; items that share keys and values are rows of one."""
    if c.others:
        raise NotContraction("several products of one softmax")
    if turned:
        c = replace(c, rows=c.columns, columns=c.rows, left=c.right, right=c.left)
    if c.left != Variable(weights.name, "float32"):
        raise NotContraction("something is done to the weights")
    shared = positions(weights.key) | positions(c.right)
    rows = {a.name for a in (*c.rows, *c.batch)} - shared
    if (
        positions(weights.key) & {a.name for a in (*c.rows, *c.columns)}
        or not {a.name for a in c.rows} <= rows
    ):
        raise NotContraction("keys that differ between rows")
    apart = tuple(a for a in c.batch if a.name in rows)
    batch = tuple(a for a in c.batch if a.name not in rows)
    return replace(c, batch=batch, rows=(*apart, *c.rows), weights=weights)


def _lies_along(index: Index, shape: Sequence[int], axes: Sequence[Axis]) -> Axis | None:
    """Return the axis along which the result is contiguous."""
    place = offset(index, shape)
    return next((a for a in axes if stride(place, a.name) == number(1)), None)


def _is_short(along: Axis, others: Sequence[Axis], factor: Expression) -> bool:
    """Whether an axis is a few phases, and lanes find neighbours along the others."""
    few = not isinstance(along.size, Size) and along.size <= _PHASES
    return few and bool(others) and int(others[-1].size) > _PHASES and lies_along(factor, others[-1].name)


def _axes(at: Expression, size: int, sizes: Mapping[str, int]) -> list[str]:
    """Name the loops that an index is put together from; all of them whole."""
    axes = [e.axis for e in walk(at) if isinstance(e, Position)]
    if not sizes.keys() >= set(axes):
        raise NotContraction("a reduction follows")
    if not (counts(at, [(a, sizes[a]) for a in axes]) and same(product([sizes[a] for a in axes]), size)):
        raise NotContraction("the result is read in part")
    return axes
