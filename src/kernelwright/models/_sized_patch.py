"""Patches of one model at several sizes → one patch."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ._patch import PLACE, Patch
from ._pieces_patch import PiecesPatch


class SizedPatch:
    """A model patched at several sizes: the patch at a call's sizes answers it, and the native model all others."""

    def __init__(self, model: nn.Module, patches: Sequence[Callable[[], Patch | PiecesPatch]]) -> None:
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
        vars(model)[PLACE] = self._forward

    @property
    def calls(self) -> int:
        """How many calls kernels answered."""
        return sum(one.calls for one in self.patches)

    @property
    def native_calls(self) -> int:
        """How many calls the native model answered."""
        return self._others + sum(one.native_calls for one in self.patches)

    def remove(self) -> None:
        """Take the patches off: the model is as it was; a second call does nothing."""
        if vars(self.model).get(PLACE) == self._forward:
            del vars(self.model)[PLACE]

    def __enter__(self) -> Self:
        """Return the patch, which is in place already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the patches off."""
        self.remove()

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        patch = self._at.get(_sizes((*args, *kwargs.values())))
        if patch is None:  # no such sizes, or tensors in lists and dicts
            patch = self._at.get(_sizes(pytree.tree_leaves((args, kwargs))))
        if patch is None:
            self._others += 1
            return self._native(*args, **kwargs)
        return patch.answer(*args, **kwargs)


def _sizes(values: Sequence[object]) -> tuple[torch.Size, ...]:
    return tuple([v.shape for v in values if isinstance(v, torch.Tensor)])
