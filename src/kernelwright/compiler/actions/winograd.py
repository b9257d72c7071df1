"""Convolutions with windows of three by three by fewer multiplications, lanes along channels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Contract, Node, text_of
from ..lower import Convolved, convolved_by
from ..tile import Tiling
from ._spread import BACK, SPREAD, Rows, spread_both
from ._state import State
from .convolve import PANEL, in_panels, read_as_kept
from .product import plain_products

_NEAR, _FAR = math.sqrt(0.5), math.sqrt(2.0)
_POINTS: Rows = (
    (1, 0, 0), *((1, at, at * at) for at in (_NEAR, -_NEAR, _FAR, -_FAR)), (0, 0, 1)
)  # fmt: skip
"""Powers of the points of F(4x4, 3x3); its divisors are in the transform of the image (`winograd_panels.h`)."""
_FROM_POINTS: Rows = ((1, 0, 0, 0, 0, 0), (0, _NEAR, -_NEAR, 0, 0, 0), (0, 0, 0, 0, 0, 1))
"""The inverse."""
_TRANSFORMS = {2: (SPREAD, BACK), 4: (_POINTS, _FROM_POINTS)}
"""Of weights, and back, by the results of a tile along each dimension."""


@dataclass(frozen=True)
class WinogradPanels:
    """Convolve a square of results at a time, with lanes along channels and transformed weights in panels.

    Two by two results take 16 multiplications a channel instead of 36, four by four 36 instead of 144. What is fused
    before runs while the image is copied, what follows in the store. Its errors are a few times those of the plain sum,
    of the larger square ten times and more: contracts that do not allow that are not offered it (`offered`), and
    verification decides. Weights are transformed ahead, and again when they change.
    Legal in float32 for images and windows one apart, not dilated, whose weights are parameters and whose
    results fill panels.
    """

    results: int

    @property
    def name(self) -> str:
        """Name of the action, and of the form."""
        return f"winograd-{self.results}"

    @property
    def tiling(self) -> Tiling:
        """The form."""
        return Tiling("winograd-2" if self.results == 2 else "winograd-4")

    def sites(self, state: State) -> Iterator[str]:
        """Yield such convolutions whose loops are plain."""
        yield from (p.name for p in plain_products(state) if _fits(state, p))

    def apply(self, state: State, site: str) -> State:
        """Choose the form, and keep transformed weights in panels."""
        product = next(p for p in plain_products(state) if p.name == site)
        found = convolved_by(product)
        assert found is not None
        return read_as_kept(state, product, self._transformed(found, site), self.tiling)

    def _transformed(self, found: Convolved, name: str) -> tuple[Node, Node]:
        """Return the weights as they are kept, (groups, 1, panels, N, N, channels, panel), and as they were."""
        there, back = _TRANSFORMS[self.results]
        wide = spread_both(found.weights, there, f"{name}_spread", ("rows", "columns"))
        kept, seen = in_panels(replace(found, weights=wide), name, PANEL, taps_first=True)
        return kept, spread_both(seen, back, f"{name}_spread", ("up", "back"))


def _fits(state: State, product: Contract) -> bool:
    found = convolved_by(product)
    if found is None or found.rank != 2 or found.weights not in state.graph.lasting:
        return False
    rows = int(found.weights.shape[len(found.group)])
    if rows > PANEL and rows % PANEL:
        return False
    taps = [text_of(size) for size in found.window.shape[-2:]]
    one_apart = set(found.window.strides) == {1} == set(found.window.dilations)
    return taps == ["3", "3"] and one_apart and found.window.dtype == "float32" == found.weights.dtype
