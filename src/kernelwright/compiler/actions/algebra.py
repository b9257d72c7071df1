"""Algebraic rewrites: the same value from less work, up to rounding."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Constant, Contract, Node, Permute, Point, Ramp, Reshape
from ._state import State
from .product import plain_products


@dataclass(frozen=True)
class Diagonal:
    """Scale the rows, or the columns, instead of multiplying by a matrix that is zero but on its diagonal.

    What the zeros would multiply is not read, so a NaN or infinity there does not propagate.
    """

    name = "diagonal"

    def sites(self, state: State) -> Iterator[str]:
        """Yield products with such a matrix that sum nothing else."""
        yield from (p.name for p in plain_products(state) if _picked(p) is not None)

    def apply(self, state: State, site: str) -> State:
        """Multiply element by element."""
        product = next(p for p in plain_products(state) if p.name == site)
        found = _picked(product)
        assert found is not None
        values, place, other, order = found
        wide = tuple(size if d == place else 1 for d, size in enumerate(product.shape))
        scale = Reshape(name=f"{site}_diagonal", shape=wide, dtype=product.dtype, source=values)
        if order != tuple(range(len(order))):
            other = Permute(
                name=f"{site}_turned", shape=product.shape, dtype=other.dtype, source=other, order=order
            )
        new = Point(name=site, shape=product.shape, dtype=product.dtype, op="mul", args=(scale, other))
        return replace(state, graph=state.graph.rewritten({product: new}))


def _picked(product: Contract) -> tuple[Node, int, Node, tuple[int, ...]] | None:
    """Return the diagonal, the result's dimension that it runs along, the other factor, and its order of dimensions."""
    one, two, out = product.labels
    sides = ((product.left, one, product.right, two), (product.right, two, product.left, one))
    for matrix, labels, other, rest in sides:
        values = _diagonal(matrix)
        summed = [c for c in labels if c not in out]
        if values is None or len(summed) != 1 or summed[0] not in rest:
            continue
        kept = labels.replace(summed[0], "")
        renamed = rest.replace(summed[0], kept)
        if kept not in rest and sorted(renamed) == sorted(out):
            return values, out.index(kept), other, tuple(renamed.index(c) for c in out)
    return None


def _diagonal(matrix: Node) -> Node | None:
    """Return the elements on the diagonal of a square matrix that is zero elsewhere by its making."""
    if not (isinstance(matrix, Point) and matrix.op == "where" and len(matrix.shape) == 2):
        return None
    chosen, values, zero = matrix.args
    if not (isinstance(chosen, Point) and chosen.op == "eq" and isinstance(values, Node)):
        return None
    along = {_index_of(a) for a in chosen.args if isinstance(a, Node)}
    lies = [size for size in values.shape if size != 1]
    is_zero = zero == 0 if not isinstance(zero, Node) else isinstance(zero, Constant) and zero.values == (0,)
    return values if along == {0, 1} and len(lies) == 1 and is_zero and values.dtype == matrix.dtype else None


def _index_of(node: Node) -> int | None:
    """Return the dimension of a matrix along which the node, broadcast to it, is the index itself."""
    source = node.source if isinstance(node, Reshape) else node
    wide = [d for d, size in enumerate(node.shape) if size != 1]
    if not isinstance(source, Ramp) or (source.start, source.step) != (0, 1) or len(wide) != 1:
        return None
    return wide[0] - len(node.shape) + 2
