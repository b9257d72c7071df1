"""Convolutions by fewer multiplications (Winograd, Toom and Cook), lanes along channels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Cat, Node, Reshape, Slice
from ..lower import Convolved, convolved_by
from ..tile import Form, Tiling
from ._spread import BACK, SPREAD, Rows, spread_last
from ._state import State
from .convolve import PANEL, in_panels, read_as_kept, view
from .phases import by_phases, transposed
from .product import plain_products

_NEAR, _FAR = math.sqrt(0.5), math.sqrt(2.0)


def _powers(*points: float) -> Rows:
    """Powers of points; the divisors are in the transform of the image (`winograd_panels.h`)."""
    return ((1, 0, 0), *((1, at, at * at) for at in points), (0, 0, 1))


_TRANSFORMS: dict[int, tuple[Rows, Rows]] = {
    2: (SPREAD, BACK),
    3: (_powers(_NEAR, -_NEAR, _FAR), ((1, 0, 0, 0, 0), (0, _NEAR, -_NEAR, 0, 0), (0, 0, 0, 0, 1))),
    4: (
        _powers(_NEAR, -_NEAR, _FAR, -_FAR),
        ((1, 0, 0, 0, 0, 0), (0, _NEAR, -_NEAR, 0, 0, 0), (0, 0, 0, 0, 0, 1)),
    ),
}
"""Of three taps, and back, by the results of a tile along each dimension."""
_OF_PHASES: Rows = ((1, 0), (0.5, 0.5), (0.5, -0.5), (0, 1))
"""Of two taps, three results; the taps are at both ends."""
_TAPS, _MOST_TAPS = 3, 15
_FORMS: dict[int, Form] = {2: "winograd-2", 3: "winograd-3", 4: "winograd-4"}
_PARTS = (("rows", "columns"), ("up", "back"))


@dataclass(frozen=True)
class WinogradPanels:
    """Convolve a tile of results at a time, with lanes along channels and transformed weights in panels.

    Two by two results take 16 multiplications a channel instead of 36, four by four 36 instead of 144, three along a
    row 5 instead of 9. Taps of further slices, and along a row every three further ones, are summed with the products.
    What is fused before runs while the image is copied, what follows in the store. Errors are a few times those of the
    plain sum, of the larger square ten times and more: contracts that do not allow that are not offered it (`offered`),
    and verification decides. Weights are transformed ahead, and again when they change.
    Legal in float32 for images and windows one apart, not dilated, whose weights are parameters and whose results fill
    panels: windows of three by three, of any number of slices, and for three results those of rows.
    """

    results: int

    @property
    def name(self) -> str:
        """Name of the action, and of the form."""
        return f"winograd-{self.results}"

    @property
    def tiling(self) -> Tiling:
        """The form."""
        return Tiling(_FORMS[self.results])

    def sites(self, state: State) -> Iterator[str]:
        """Yield such convolutions whose loops are plain."""
        for product in plain_products(state):
            found = convolved_by(product)
            if found is not None and self._fits(state, found):
                yield product.name

    def apply(self, state: State, site: str) -> State:
        """Choose the form, and keep transformed weights in panels."""
        product = next(p for p in plain_products(state) if p.name == site)
        found = convolved_by(product)
        assert found is not None
        return read_as_kept(state, product, self._transformed(found, site), self.tiling)

    def _fits(self, state: State, found: Convolved) -> bool:
        rows = int(found.weights.shape[len(found.group)])
        return _is_plain(state, found) and fills_panels(rows) and self._is_tiled(found)

    def _is_tiled(self, found: Convolved) -> bool:
        """Tell whether windows are those that tiles have."""
        taps = [int(size) for size in found.weights.shape[-found.rank :]]
        if self.results == 3:
            return found.rank == 1 and taps[0] % _TAPS == 0 and taps[0] <= _MOST_TAPS
        return found.rank > 1 and taps[-2:] == [_TAPS, _TAPS]

    def _transformed(self, found: Convolved, name: str) -> tuple[Node, Node]:
        """Return the weights as they are kept, (groups, 1, panels, *taps, N, N, channels, panel), and as they were."""
        there, back = _TRANSFORMS[self.results]
        weights, dims = found.weights, min(found.rank, 2)
        if found.rank == 1:
            lead = weights.shape[:-1]
            weights = view(
                Reshape, f"{name}_triples", (*lead, int(weights.shape[-1]) // _TAPS, _TAPS), weights
            )
        wide = spread_last(weights, there, f"{name}_spread", _PARTS[0][-dims:])
        kept, seen = in_panels(replace(found, weights=wide), name, PANEL, taps_first=True)
        seen = spread_last(seen, back, f"{name}_spread", _PARTS[1][-dims:])
        return kept, seen if found.rank > 1 else _in_a_row(seen, name)


def _in_a_row(node: Node, name: str) -> Node:
    """Return taps by threes as taps one after another."""
    lead, count = node.shape[:-2], int(node.shape[-2])
    parts = []
    for at in range(count):
        starts = (*(0 for _ in lead), at, 0)
        part = view(
            Slice, f"{name}_three{at}", (*lead, 1, _TAPS), node, starts=starts, steps=(1,) * len(starts)
        )
        parts.append(view(Reshape, f"{name}_taps{at}", (*lead, _TAPS), part))
    shape = (*lead, count * _TAPS)
    return Cat(name=f"{name}_taps", shape=shape, dtype=node.dtype, sources=tuple(parts), dim=len(lead))


@dataclass(frozen=True)
class WinogradPhases:
    """Compute every phase of a transposed convolution by tiles of three by three results: 16 multiplications, not 36.

    As `phases`, with the weights of each phase transformed ahead. Legal where that is, for rows and images with
    windows of four and strides of two, whose phases have two taps along each dimension, and whose results fill panels.
    """

    name = "winograd-phases"
    tiling = Tiling("winograd-3")

    def sites(self, state: State) -> Iterator[str]:
        """Yield such products whose loops are plain."""
        for site, found in transposed(state).items():
            lasts = found.weights in state.graph.lasting
            if (
                lasts
                and found.is_even
                and len(found.strides) < 3
                and fills_panels(int(found.weights.shape[1]))
            ):
                yield site

    def apply(self, state: State, site: str) -> State:
        """Multiply all phases, and put the results in order."""
        given = transposed(state)[site]
        state, product = by_phases(state, given)
        found = convolved_by(product)
        assert found is not None
        name, dims = f"{product.name}_spread", found.rank
        wide = spread_last(given.of_phases(), _OF_PHASES, name, _PARTS[0][-dims:])
        kept, seen = in_panels(
            replace(found, weights=wide), product.name, PANEL, len(given.ranges), taps_first=True
        )
        still = len(seen.shape) - dims
        narrow = view(
            Slice, f"{name}_ends", (*seen.shape[:still], *(2,) * dims), seen,
            starts=(0,) * len(seen.shape), steps=(*(1,) * still, *(3,) * dims),
        )  # fmt: skip
        return read_as_kept(
            state, product, (kept, given.around(narrow)), replace(self.tiling, phases=given.ranges)
        )


def fills_panels(rows: int) -> bool:
    """Tell whether results are whole panels, or one."""
    return rows <= PANEL or rows % PANEL == 0


def _is_plain(state: State, found: Convolved) -> bool:
    """Tell whether weights are parameters, and the windows of float32 lie one apart."""
    one_apart = set(found.window.strides) == {1} == set(found.window.dilations)
    return (
        found.weights in state.graph.lasting
        and one_apart
        and found.window.dtype == "float32" == found.weights.dtype
    )
