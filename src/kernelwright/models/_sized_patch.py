"""Patches of one model at several sizes → one patch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ._in_place import PLACE, InPlace
from ._patch import Patch


class SizedPatch(InPlace):
    """A model patched at several sizes: the patch at a call's sizes answers it, and the native model all others."""

    def __init__(self, model: nn.Module, patches: Sequence[Callable[[], Patch]]) -> None:
        """Put all patches in place, or none.

        Args:
            model: The model.
            patches: Each patches the model at sizes of its own.
        """
        self.model = model
        made = []
        for patch in patches:
            made.append(patch())
            made[-1].remove()
        self.patches = tuple(made)
        """The patches, in order."""
        self._native, self._others = model.forward, 0
        self._at = {one.sizes: one for one in made}
        vars(model)[PLACE] = self.answer

    @property
    def calls(self) -> int:
        """How many calls kernels answered."""
        return sum(one.calls for one in self.patches)

    @property
    def native_calls(self) -> int:
        """How many calls the native model answered."""
        return self._others + sum(one.native_calls for one in self.patches)

    def answer(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call by the patch at its sizes."""
        patch = self._at.get(_sizes((*args, *kwargs.values())))
        if patch is None:  # no such sizes, or tensors in lists and dicts
            patch = self._at.get(_sizes(pytree.tree_leaves((args, kwargs))))
        if patch is None:
            self._others += 1
            return self._native(*args, **kwargs)
        return patch.answer(*args, **kwargs)


def _sizes(values: Sequence[object]) -> tuple[torch.Size, ...]:
    return tuple([v.shape for v in values if isinstance(v, torch.Tensor)])
