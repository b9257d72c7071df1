"""Graph → the operations of products by the best ways known here: reordered, by fast convolution, unmasked."""

from collections.abc import Iterator
from math import inf, prod

from ..tasks.capture import Graph, Node
from ._algebra import CONVOLUTION, MATRIX, Algebra, operand
from ._layers import attention, is_attention, is_recurrent, recurrent
from ._masks import Masks

_TAPS = 3
_SQUARES = {2: (16, 32, 24), 4: (36, 72, 40)}
"""Of a tile of so many results along two axes: multiplications for a pair of channels, operations to transform it for
a channel, and those back. Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2016),
section 4; of the larger one addition an element and axis."""
_ROW = (3, 5, 5, 3)
"""The same of three results along one axis, which come first."""
_FACTORS = {2: 4.0, 4: 16.0}
"""The `error_factor` of contracts that let a kernel use such tiles."""


def products(graph: Graph, algebra: Algebra, masks: Masks, error_factor: float = 1.0) -> dict[str, float]:
    """Count the operations of products by unit.

    Covers: products of matrices, convolutions, attention, recurrent layers; chains in the cheapest order; what sums,
    masks and parts that are not read leave of them; Winograd's convolutions where the contract allows their rounding.
    Does not cover: fast products of matrices (Strassen), and transforms of other windows, which no kernel here uses.
    """
    counts: dict[str, float] = {}
    for node in graph.ops:
        if algebra.is_product(node):
            dtype = node.dtype
            flop = (
                0.0
                if _is_taken_over(algebra, node)
                else _chained(algebra, node, error_factor) * masks.seen(node)
            )
        elif is_attention(node):
            dtype, flop = graph.node(operand(node, 0)).dtype, attention(graph, node)
        elif is_recurrent(node):
            dtype, flop = graph.node(operand(node, 0)).dtype, recurrent(graph, node)
        else:
            continue
        flop *= algebra.share(node)
        if flop:
            counts[f"tensor-{dtype}"] = counts.get(f"tensor-{dtype}", 0.0) + flop
    return counts


def direct(algebra: Algebra, node: Node) -> float:
    """Count a product as it is written."""
    left, right = algebra.factors(node)
    if node.op in MATRIX:
        return 2.0 * node.elements * left.shape[-1]
    base = left if node.arguments()["transposed"] else node
    return 2.0 * base.elements * prod(right.shape[1:])


def _is_taken_over(algebra: Algebra, node: Node) -> bool:
    """Whether the work of a product is done on sums, or counted with the product that its result is a factor of."""
    if not algebra.ends_in_sum(node):
        return False
    ends = [u for u in algebra.users_through(node) if algebra.is_product(u)]
    return not ends or (len(ends) == 1 and node in _near(algebra, ends[0]))


def _near(algebra: Algebra, node: Node) -> list[Node]:
    """Return products whose results, whole and in one piece, are factors of this one."""
    found = []
    for factor in algebra.factors(node):
        for one in algebra.behind(factor):
            alone = [u for u in algebra.users_through(one) if u.op != "getitem"] == [node]
            if alone and _sizes(one.shape) in (_sizes(factor.shape), _sizes(factor.shape, turned=True)):
                found.append(one)
    return [one for one in found if algebra.ends_in_sum(one)]


def _sizes(shape: tuple[int, ...], *, turned: bool = False) -> tuple[int, ...]:
    last = shape[-2:][::-1] if turned else shape[-2:]
    return (prod(shape[:-2]), *last)


def _chained(algebra: Algebra, node: Node, error_factor: float) -> float:
    """Count a product with those that are its factors, in the cheapest order."""
    near = _near(algebra, node)
    whole = _alone(algebra, node, error_factor)
    whole += sum(_chained(algebra, one, error_factor) for one in near)
    if not near:
        return whole
    if node.op == CONVOLUTION:
        return min(whole, *(_merged(algebra, node, one) for one in near if one.op == CONVOLUTION), inf)
    if any(one.op == CONVOLUTION for one in near) or len(node.shape) < 2:
        return whole
    sizes, lasting = _chain(algebra, node)
    return min(whole, 2.0 * prod(node.shape[:-2]) * _cheapest(sizes, lasting))


def _alone(algebra: Algebra, node: Node, error_factor: float) -> float:
    plain = direct(algebra, node)
    return min([plain, *_fast(algebra, node, plain, error_factor)]) if node.op == CONVOLUTION else plain


def _merged(algebra: Algebra, outer: Node, inner: Node) -> float:
    """Count two convolutions as one, whose weights are their product: the windows of the larger, at the least."""
    image, first = algebra.factors(inner)
    _, second = algebra.factors(outer)
    if not {first.name, second.name} <= algebra.lasting:
        return inf
    groups, own = (int(str(n.arguments()["groups"])) for n in (outer, inner))
    channels = first.shape[1] if groups == own else image.shape[1] // groups
    return 2.0 * outer.elements * channels * max(prod(first.shape[2:]), prod(second.shape[2:]))


def _chain(algebra: Algebra, node: Node) -> tuple[list[int], list[bool]]:
    """Return the sizes of the matrices of a chain, and which of them are parameters."""
    near = {one.name: one for one in _near(algebra, node)}
    sizes: list[int] = []
    lasting: list[bool] = []
    rows, columns = node.shape[-2:]
    left, right = algebra.factors(node)
    for factor, size in ((left, (rows, left.shape[-1])), (right, (left.shape[-1], columns))):
        inner = next((one for one in algebra.behind(factor) if one.name in near), None)
        if inner is None or inner.op == CONVOLUTION:
            part, known = list(size), [factor.name in algebra.lasting]
        else:
            part, known = _chain(algebra, inner)
            if (part[0], part[-1]) != size:
                part, known = part[::-1], known[::-1]
        sizes += part[1:] if sizes else part
        lasting += known
    return sizes, lasting


def _cheapest(sizes: list[int], lasting: list[bool]) -> float:
    """Return the least multiplications of a chain of matrices in any order; those of parameters are done ahead."""
    count = len(lasting)
    costs = {(i, i): 0.0 for i in range(count)}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            costs[first, last] = 0.0 if all(lasting[first : last + 1]) else min(
                costs[first, cut] + costs[cut + 1, last] + float(sizes[first] * sizes[cut + 1] * sizes[last + 1])
                for cut in range(first, last)
            )  # fmt: skip
    return costs[0, count - 1]


def _fast(algebra: Algebra, node: Node, plain: float, error_factor: float) -> Iterator[float]:
    """Yield what a convolution takes in transformed tiles, additions as multiply-adds."""
    given = node.arguments()
    image, weight = algebra.factors(node)
    kernel = weight.shape[2:]
    strides, dilations = (_ints(given[name], len(kernel)) for name in ("stride", "dilation"))
    if node.dtype != "float32" or set(dilations) != {1}:
        return
    channels, planes = image.shape[1], node.shape[1]
    if given["transposed"]:
        if set(strides) == {2} and set(kernel) == {4} and error_factor >= _FACTORS[2]:
            yield plain * (4 / 6) ** min(len(kernel), 2)
        return
    if set(strides) != {1}:
        return
    places = node.elements / planes
    if len(kernel) == 1 and kernel[0] % _TAPS == 0 and error_factor >= _FACTORS[2]:
        results, products_, there, back = _ROW
        pairs = channels * planes / int(str(given["groups"])) * kernel[0] / _TAPS
        yield 2.0 * places / results * (products_ * pairs + there * channels + back * planes)
    if len(kernel) > 1 and kernel[-2:] == (_TAPS, _TAPS):
        pairs = channels * planes / int(str(given["groups"])) * prod(kernel[:-2])
        for results, (products_, there, back) in _SQUARES.items():
            if error_factor >= _FACTORS[results]:
                yield 2.0 * places / results**2 * (products_ * pairs + there * channels + back * planes)


def _ints(value: object, count: int) -> tuple[int, ...]:
    found = tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()
    return found * count if len(found) == 1 else found
