"""Call of a patched model in a graph of torch.compile → one operator, whose calls the patch checks as any other."""

import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import torch

from ._numbered import define_numbered

Tensors = Sequence[torch.Tensor]


class InGraphs(Protocol):
    """What the operator knows of a patch."""

    results: list[tuple[torch.Size, torch.dtype]]
    """Shape and dtype of each tensor of the model's result."""

    def in_graph(self, tensors: Tensors, weights: Tensors) -> list[torch.Tensor]:
        """Answer a call with these tensors, and the weights as they are in the graph, which may change them."""


_PATCHES: list[weakref.ref[InGraphs]] = []
"""Every patch of this process, by number: operators of torch are the process's, too."""


def number_of(patch: InGraphs) -> int:
    """Return the number by which the operator finds a patch."""
    _operator()
    _PATCHES.append(weakref.ref(patch))
    return len(_PATCHES) - 1


@cache
def _operator() -> Any:
    def run(tensors: Tensors, weights: Tensors, number: int) -> list[torch.Tensor]:
        return _patch(number).in_graph(tensors, weights)

    signature = "patched(Tensor[] tensors, Tensor[] weights, int number)"
    return define_numbered(signature, run, lambda number: _patch(number).results)


def _patch(number: int) -> InGraphs:
    found = _PATCHES[number]()
    if found is None:
        raise RuntimeError("the patched model of this graph is gone; compile it again")
    return found
