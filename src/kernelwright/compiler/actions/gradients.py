"""An attention and its gradients: one pass over rows of queries."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..lower import Differentiated, differentiated
from ..tile import Tiling
from ._state import State
from .product import plain_products, tiled


@dataclass(frozen=True)
class Backward:
    """Compute an attention's weights, what changes its scores, and all products of both in one kernel.

    A tile of rows keeps its weights and their gradients in a thread's caches: neither reaches memory, and both are
    computed once. The output is among the products unless the gradient is computed from it. Legal where a softmax of
    one product of floats is differentiated, and none of its products has a form yet.
    """

    name = "backward"
    tiling = Tiling("gradients")

    def sites(self, state: State) -> Iterator[str]:
        """Yield softmaxes that are differentiated; `all` where there are several."""
        found = self._found(state)
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Choose the form of all its products."""
        found = self._found(state)
        chosen = found.values() if site == "all" else [found[site]]
        return tiled(state, {p.name: self.tiling for one in chosen for p in one.members})

    @staticmethod
    def _found(state: State) -> dict[str, Differentiated]:
        plain = set(plain_products(state))
        return {
            found.attended.weights.name: found
            for found in differentiated(state.graph.nodes)
            if {*found.members, found.scores, found.slopes} <= plain
        }
