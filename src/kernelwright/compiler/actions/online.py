"""Attention: scores, softmax and values in one pass over the keys."""

from dataclasses import dataclass

from ..graph import Contract, ordered
from ..lower import attended_by
from ..tile import Tiling
from ._state import State
from .product import Tiled, plain_products


@dataclass(frozen=True)
class Online(Tiled):
    """Multiply a softmax of scores by values without either in memory, rescaling as larger scores come.

    A tile of rows multiplies a block of keys, takes powers relative to the largest score so far, and multiplies the
    block of values, all in a thread's caches. What lies between the product and the softmax (a scale, a mask, a bias)
    is computed on the way, and tiles that a mask hides wholly are skipped. Legal where a softmax is of one product of
    floats.
    """

    name = "online"
    tiling = Tiling("online", block=512)

    def _found(self, state: State) -> dict[str, bool]:
        return {p.name: True for p in plain_products(state) if _is_attention(p)}


def _is_attention(product: Contract) -> bool:
    found = attended_by(product)
    return found is not None and any(isinstance(n, Contract) for n in ordered([found.scores]))
