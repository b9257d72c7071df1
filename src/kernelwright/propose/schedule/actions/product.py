"""Products: by the library that torch calls, with kernels of our own before and after."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Contract, ordered
from ._state import State

PRODUCTS = frozenset({
    "convolution", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
})  # fmt: skip
"""Operators that end in a library's product."""


@dataclass(frozen=True)
class Library:
    """Let the library multiply. What is fused around the product then reads and writes memory in between."""

    name = "library"

    def sites(self, state: State) -> Iterator[str]:
        """Yield captured products that are computed by loops of our own, and `all` where there are several."""
        found = [
            op.name for op in state.origin.operations
            if op.op.startswith("aten.") and op.op.split(".")[1] in PRODUCTS
            and op.name in state.graph.values and op.name not in state.decisions.native
            and any(isinstance(n, Contract) for n in ordered([state.graph.values[op.name]]))
        ]  # fmt: skip
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Make the operation native."""
        chosen = frozenset(s for s in self.sites(state) if s != "all") if site == "all" else {site}
        return replace(state, decisions=replace(state.decisions, native=state.decisions.native | chosen))
