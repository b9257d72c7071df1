"""Convolutions over images whose channels lie side by side, and what is stored between them in that order."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..graph import Contract, Input, Node, Permute, Reshape, same
from ..graph import product as size_of
from ..lower import Convolved, convolved_by
from ..tile import Tiling
from ._state import State
from .convolve import PANEL, in_panels, read_as_kept, view
from .product import chosen, plain_products, sites_of
from .turn import stored_turned
from .weights import last_of

_LEAST = PANEL // 2
"""Results of a group that fill half a panel, from which on a vector of them pays."""


@dataclass(frozen=True)
class ChannelsLast:
    """Convolve with lanes along channels, and store images with their channels side by side.

    Results, and what is elementwise after them, are written in the order in which the next convolution reads them, so
    a chain of convolutions needs no pass in between, and images may be smaller than a vector. The image is
    read in place, padding included, through a table of where its elements begin. Weights are laid out ahead, in panels.
    Legal in float32 where they are parameters, for one group, one filter a channel, or groups of many results.
    """

    name = "channels-last"
    tiling = Tiling("channels-last")

    def sites(self, state: State) -> Iterator[str]:
        """Yield such convolutions whose loops are plain, and `all` if there are several."""
        yield from sites_of(self._found(state))

    def apply(self, state: State, site: str) -> State:
        """Choose the form and the order in which images are stored, and keep weights as the loops read them."""
        wanted = chosen(self._found(state), site)
        names = [p.name for p in plain_products(state) if p.name in wanted]
        for name in names:
            product = _product(state, name)
            state = read_as_kept(state, product, _laid(_convolved(product), name), self.tiling)
        for name in names:
            if (end := _end(state, name)) is not None:
                state = stored_turned(state, end, 1)
        for name in names:
            found = _convolved(_product(state, name))
            image = found.inside[0]
            is_turned = isinstance(image, Permute) and image.source.name in state.decisions.before
            given = isinstance(image, Input) and not _is_alone(
                found
            )  # elements may lie anywhere, lanes may not
            if not is_turned and not given:
                state = stored_turned(state, image, 1)
        return state

    @staticmethod
    def _found(state: State) -> dict[str, bool]:
        found = ((p, convolved_by(p)) for p in plain_products(state) if p.dtype == "float32")
        return {p.name: True for p, c in found if c is not None and _fits(state, c)}


def _end(state: State, name: str) -> Node | None:
    """Return the last value after a convolution that is still an image; none if only part of its axes are."""
    product = _product(state, name)
    found = _convolved(product)
    channels = size_of(found.weights.shape[: len(found.group) + 1])
    views = (n for n in state.graph.users[product] if isinstance(n, Reshape))
    for node in (last_of(state, name), *views, product):
        if len(node.shape) == found.rank + 2 and same(node.shape[1], channels):
            return node
    return None


def _fits(state: State, c: Convolved) -> bool:
    if c.weights not in state.graph.lasting or not c.window.dtype == "float32" == c.weights.dtype:
        return False
    rows = int(c.weights.shape[len(c.group)])
    return rows >= _LEAST if not c.group else rows >= _LEAST or _is_alone(c)


def _is_alone(c: Convolved) -> bool:
    """Tell whether every channel has one filter."""
    return bool(c.group) and all(same(size, 1) for size in c.weights.shape[1:3])


def _laid(c: Convolved, name: str) -> tuple[Node, Node]:
    """Return weights as the loops read them, and what they were, read from those."""
    if not _is_alone(c):
        return in_panels(c, name, PANEL, taps_first=True)
    shape = c.weights.shape
    flat = (shape[0], *shape[3:])
    order = (*range(1, len(flat)), 0)
    node = view(Reshape, f"{name}_filters", flat, c.weights)
    kept = view(Permute, f"{name}_panels", tuple(flat[d] for d in order), node, order=order)
    seen = view(Permute, f"{name}_seen", flat, kept, order=(len(flat) - 1, *range(len(flat) - 1)))
    return kept, view(Reshape, f"{name}_weights", shape, seen)


def _product(state: State, name: str) -> Contract:
    return next(n for n in state.graph.nodes if isinstance(n, Contract) and n.name == name)


def _convolved(product: Contract) -> Convolved:
    found = convolved_by(product)
    assert found is not None
    return found
