"""Attention: scores, softmax and values in one pass over the keys."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..graph import Contract, ordered
from ..lower import attended_by
from ..tile import Tiling
from ._state import State
from .product import plain_products, tiled


@dataclass(frozen=True)
class Online:
    """Multiply a softmax of scores by values without either in memory, rescaling as larger scores come.

    A tile of rows multiplies a block of keys, takes powers relative to the largest score so far, and multiplies the
    block of values, all in a thread's caches. What lies between the product and the softmax (a scale, a mask, a bias)
    is computed on the way, and tiles that a mask hides wholly are skipped. Legal in float32 sums, where scores are the
    elements of one product.
    """

    name = "online"
    tiling = Tiling("online", block=512)

    def sites(self, state: State) -> Iterator[str]:
        """Yield products of a softmax whose loops are plain."""
        yield from (p.name for p in plain_products(state) if self._is_attention(p))

    def apply(self, state: State, site: str) -> State:
        """Choose the form."""
        return tiled(state, {site: self.tiling})

    @staticmethod
    def _is_attention(product: Contract) -> bool:
        found = attended_by(product)
        return found is not None and any(isinstance(n, Contract) for n in ordered([found.scores]))
