"""Convolutions as they are defined: windows stepped over a copy of the image, weights in panels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Contract, Node, Pad, Permute, Reshape, Slice, text_of
from ..lower import Convolved, convolved_by
from ..tile import Tiling
from ._state import State
from .product import chosen, is_depthwise, plain_products, sites_of, tiled
from .weights import ahead

PANEL = 16
"""Results of a panel where lanes run along them: whole vectors of every machine."""
_PANEL = 8
"""Results of a panel: with three vectors of a row most of 32 registers, and half of them of 16."""


@dataclass(frozen=True)
class Convolve:
    """Convolve directly: lanes along a row of results, weights from memory, sums in registers.

    A thread copies what a block of results reads into its second cache, padding included and each phase of the stride
    by itself, so that any stride, dilation, group and number of dimensions runs the same loops. Weights that are
    parameters are laid out in panels ahead. Legal in float32 for convolutions of one to three dimensions
    whose windows hold several elements or lie apart; others are plain products.
    """

    name = "convolve"
    tiling = Tiling("convolve")

    def sites(self, state: State) -> Iterator[str]:
        """Yield such convolutions whose loops are plain, and the `SEVERAL` of them."""
        yield from sites_of(self._found(state))

    def apply(self, state: State, site: str) -> State:
        """Choose the form, and keep weights in panels."""
        for name in sorted(chosen(self._found(state), site)):
            product = next(p for p in plain_products(state) if p.name == name)
            state = convolved(state, product)
        return state

    @staticmethod
    def _found(state: State) -> dict[str, bool]:
        found = (p for p in plain_products(state) if p.dtype == "float32")
        return {p.name: not is_depthwise(p) for p in found if is_direct(p)}


def is_direct(product: Contract) -> bool:
    """Tell whether a product is a convolution of float32, and its windows more than elements side by side."""
    found = convolved_by(product)
    if found is None or not found.window.dtype == "float32" == found.weights.dtype:
        return False
    taps = [text_of(size) for size in found.window.shape[-found.rank :]]
    return set(taps) != {"1"} or set(found.window.strides) != {1}


def convolved(state: State, product: Contract, phases: tuple[tuple[tuple[int, int], ...], ...] = ()) -> State:
    """Return the state in which a product runs in this form.

    Args:
        state: What to change.
        product: A convolution.
        phases: Ranges of the taps that each phase of its results reads, if there are several.
    """
    found = convolved_by(product)
    assert found is not None
    count = len(phases) or 1
    rows = int(found.weights.shape[found.others.index(_result(found))]) // count
    tiling = replace(Convolve.tiling, rows=panel_of(rows), phases=phases)
    if found.weights not in state.graph.lasting:
        return tiled(state, {product.name: tiling})
    return read_as_kept(state, product, in_panels(found, product.name, tiling.rows, count), tiling)


def read_as_kept(state: State, product: Contract, weights: tuple[Node, Node], tiling: Tiling) -> State:
    """Return the state in which a convolution reads weights that were laid out ahead.

    Args:
        state: What to change.
        product: A convolution.
        weights: As they are kept, and what they were, read from those.
        tiling: The form that reads them.
    """
    found = convolved_by(product)
    assert found is not None
    kept, seen = weights
    new = replace(product, right=seen) if found.on_left else replace(product, left=seen)
    rewritten = replace(state, graph=state.graph.rewritten({product: new}))
    return ahead(tiled(rewritten, {product.name: replace(tiling, is_spread=True)}), kept.name)


def panel_of(rows: int) -> int:
    """Return the results of a panel that leave the fewest of its rows empty."""
    if rows <= _PANEL:
        return max(1, rows)
    return min(range(_PANEL, _PANEL // 2, -1), key=lambda panel: -(-rows // panel) * panel)


def _result(found: Convolved) -> str:
    return found.others[len(found.group)]


def in_panels(
    found: Convolved, name: str, panel: int, phases: int = 1, *, taps_first: bool = False
) -> tuple[Node, Node]:  # fmt: skip
    """Return weights as (groups, phases, panels, channels, *taps, panel), and what they were, read from those.

    Args:
        found: The convolution.
        name: Of the product.
        panel: Results of a panel; the last one is filled with zeros.
        phases: Of a transposed convolution.
        taps_first: Whether channels are behind the taps.
    """
    weights, at = found.weights, len(found.group)
    lead, rows, inner = weights.shape[:at], weights.shape[at] // phases, weights.shape[at + 1 :]
    whole = -(-rows // panel) * panel
    node = view(Reshape, f"{name}_phases", (*lead, phases, rows, *inner), weights)
    if whole != rows:
        wide = (*lead, phases, whole, *inner)
        node = Pad(
            name=f"{name}_whole",
            shape=wide,
            dtype=weights.dtype,
            source=node,
            low=(0,) * len(wide),
            value=0.0,
        )
    node = view(Reshape, f"{name}_cut", (*lead, phases, whole // panel, panel, *inner), node)
    rank, last = len(node.shape), at + 2
    order = (*(d for d in range(rank) if d != last), last)
    if taps_first:
        order = (*order[:last], *order[last + 1 : -1], order[last], last)
    kept = view(Permute, f"{name}_panels", tuple(node.shape[d] for d in order), node, order=order)
    back = tuple(order.index(d) for d in range(rank))
    seen = view(Permute, f"{name}_seen", node.shape, kept, order=back)
    seen = view(Reshape, f"{name}_rows", (*lead, phases, whole, *inner), seen)
    if whole != rows:
        shape = (*lead, phases, rows, *inner)
        seen = view(Slice, f"{name}_own", shape, seen, starts=(0,) * len(shape), steps=(1,) * len(shape))
    return kept, view(Reshape, f"{name}_weights", weights.shape, seen)


def view(kind: type, name: str, shape: tuple[int, ...], source: Node, **more: object) -> Node:
    """Return a view of a node, of its dtype."""
    found: Node = kind(name=name, shape=tuple(shape), dtype=source.dtype, source=source, **more)
    return found
