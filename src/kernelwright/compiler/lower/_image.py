"""A product of windows of an image → the image itself, which a convolution's loops copy and step over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..graph import Contract, Node, Pad, Reshape, Size, Window, same
from ..tile import Axis, Contraction, Expression, Image, Position
from ._index import joined
from ._product import Flat, NotContraction


@dataclass(frozen=True)
class Convolved:
    """What a convolution multiplies: the windows of an image, and weights."""

    window: Window
    weights: Node
    image: str
    """Labels of the windows: images, (groups,) channels, results, taps."""
    others: str
    """Labels of the weights: (groups,) results, channels, taps."""
    on_left: bool
    """Whether the windows are the left factor."""

    @property
    def rank(self) -> int:
        """Dimensions of the image."""
        return len(self.window.dims)

    @property
    def inside(self) -> tuple[Node, tuple[int, ...], float]:
        """The image, how far it is padded before its first element along each dimension, and with what."""
        source = self.window.source
        still = (0,) * self.rank
        if not isinstance(source, Pad) or any(source.low[:2]) or min(source.low) < 0:
            return source, still, 0.0
        kept = zip(source.shape[:2], source.source.shape[:2], strict=True)
        if not all(same(one, two) for one, two in kept):
            return source, still, 0.0
        return source.source, source.low[2:], float(source.value)

    @property
    def space(self) -> str:
        """Labels of the results' positions."""
        return self.image[-2 * self.rank : -self.rank]

    @property
    def taps(self) -> str:
        """Labels of the taps."""
        return self.image[-self.rank :]

    @property
    def group(self) -> str:
        """Label of the groups; none where there is one."""
        return self.image[1 : -2 * self.rank - 1]

    @property
    def channel(self) -> str:
        """Label of the channels of a group."""
        return self.image[-2 * self.rank - 1]


def convolved_by(product: Contract, *, fixed: bool = True) -> Convolved | None:
    """Return what a convolution of one to three dimensions multiplies; none where a product is no convolution.

    Args:
        product: Any product.
        fixed: Whether its weights must have sizes that are known.
    """
    one, two, out = product.labels
    sides = ((product.left, one, product.right, two, True), (product.right, two, product.left, one, False))
    for factor, labels, weights, others, on_left in sides:
        window = factor.source if isinstance(factor, Reshape) else factor
        if not isinstance(window, Window) or len(window.dims) > 3:
            continue
        found = Convolved(window, weights, labels, others, on_left)
        rank, lead = found.rank, labels[: -2 * found.rank]
        groups = len(found.group)
        fits = (
            len(lead) in (2, 3)
            and len(window.shape) == 2 + 2 * rank
            and len(factor.shape) == len(labels) == len(window.shape) + groups
            and window.dims == tuple(range(2, 2 + rank))
            and others[-rank - 1 :] == found.channel + found.taps
            and others[:groups] == found.group
            and len(others) == groups + 2 + rank
            and out == lead[0] + found.group + others[groups] + found.space
        )
        known = all(not isinstance(size, Size) for size in (*window.shape[-rank:], *weights.shape))
        if fits and (known or not fixed) and (groups or factor is window):
            return found
    return None


def image_behind(product: Contract, factor: Node) -> Node | None:
    """Return the image that a convolution steps over where a factor is its windows, which are never stored."""
    found = convolved_by(product)
    windows = factor.source if isinstance(factor, Reshape) else factor
    return found.inside[0] if found is not None and windows is found.window else None


def image_of(
    found: Contract, whole: Contraction, named: Mapping[str, Sequence[str]], index: Mapping[str, Expression],
    flat: Flat,
) -> Contraction:  # fmt: skip
    """Return the contraction of a convolution with its image: weights on the left, results in order on the right.

    Args:
        found: The product.
        whole: Its contraction.
        named: Label of the result → its loops.
        index: Label → position.
        flat: Evaluates its factors.

    Raises:
        NotContraction: it is no convolution, or what follows takes the axes of its results apart.
        NeedsStore: an operand must be stored before.
    """
    c = convolved_by(found)
    if c is None or whole.others or any(len(named[label]) != 1 for label in c.space):
        raise NotContraction("no convolution whose results lie as they do")
    rows, columns, left, right = whole.rows, whole.columns, whole.left, whole.right
    if c.on_left:
        rows, columns, left, right = columns, rows, right, left
    source, low, outside = c.inside
    at = tuple(Axis(f"{found.name}_at{d}", source.shape[2 + d]) for d in range(c.rank))
    flat.builder.axes |= {axis.name: axis.size for axis in at}
    sizes = dict(zip(c.image, (found.left if c.on_left else found.right).shape, strict=True))
    channel = joined([(index[label], sizes[label]) for label in (*c.group, c.channel)])
    inner = {label: axis for label, axis in zip(_summed(found), whole.inner, strict=True)}
    value = flat.operand(
        source, (index[c.image[0]], channel, *(Position(a.name) for a in at)), [inner[c.channel], *at]
    )
    image = Image(
        (inner[c.channel],), columns[: -c.rank], at, low, outside, c.window.strides, c.window.dilations, value
    )
    summed = tuple(inner[label] for label in (c.channel, *c.taps))
    return replace(whole, rows=rows, columns=columns, left=left, right=right, inner=summed, image=image)


def _summed(found: Contract) -> list[str]:
    one, two, out = found.labels
    return [label for label in dict.fromkeys(one + two) if label not in out]


__all__ = ["Convolved", "convolved_by", "image_of"]
