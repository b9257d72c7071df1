"""Precision of accumulators: never less than float32, whatever is summed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from ..graph import Graph, Reduce, Scan, product
from ..tile import Tiling
from ._state import State
from .product import plain_products, tiled

_LANES = 8
"""Least number of partial sums that a reduction keeps in parallel before they are combined."""
_LARGEST = 0.8
"""The largest of some thousand errors of sums of random numbers, in epsilons of float32 a root of an addition."""


@dataclass(frozen=True)
class Single:
    """Keep a sum or product of a reduction in float32 instead of float64: lanes are not widened before they are added.

    Legal if the sum is so short, or its result so coarse (half precision), that roundings stay within what the
    contract allows in any case: an epsilon a root of the additions that follow one another. Scans add one element
    after another; reductions some side by side.
    """

    name = "single"

    def sites(self, state: State) -> Iterator[str]:
        """Yield sums of floats in double precision, and `all` if there are several."""
        found = [n.name for n in _sums(state.graph) if n.name not in state.decisions.accumulate]
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Keep the sum, or all of them, in float32."""
        names = [s for s in self.sites(state) if s != "all"] if site == "all" else [site]
        kinds = {**state.decisions.accumulate, **dict.fromkeys(names, "float32")}
        return replace(state, decisions=replace(state.decisions, accumulate=kinds))


@dataclass(frozen=True)
class Double:
    """Keep the sum of a product in float64, in plain loops: for long sums that float32 would round too often.

    Tiles keep theirs in float32 and start anew every few hundred additions; the library decides for itself. Legal for
    products of floats that have no form yet.
    """

    name = "double"

    def sites(self, state: State) -> Iterator[str]:
        """Yield products whose loops are plain."""
        yield from (p.name for p in plain_products(state))

    def apply(self, state: State, site: str) -> State:
        """Keep its sum in float64."""
        return tiled(state, {site: Tiling("loops", accumulate="float64")})


def _sums(graph: Graph) -> Iterator[Reduce | Scan]:
    """Yield the sums and products of floats that float32 is enough for."""
    floats = [dtype for n in graph.roots if (dtype := getattr(torch, n.dtype)).is_floating_point]
    allowed = graph.error_floor * min((torch.finfo(dtype).eps for dtype in floats), default=0.0)
    for n in graph.nodes:
        if isinstance(n, Reduce | Scan) and n.monoid in ("sum", "prod") and n.source.dtype in _FLOATS:
            error = _LARGEST * math.sqrt(_additions(n)) * torch.finfo(torch.float32).eps
            if error <= allowed:
                yield n


def _additions(node: Reduce | Scan) -> float:
    """Count the additions that follow one another."""
    if isinstance(node, Scan):
        return int(node.source.shape[node.dim])
    return int(product([node.source.shape[d] for d in node.dims])) / _LANES


_FLOATS = ("float32", "bfloat16", "float16")
