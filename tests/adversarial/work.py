"""Counts the native work that a thread asks for: what a stopwatch shows, without the noise of a busy machine.

Covers: operators dispatched on this thread, each charged per element by what it does, and new memory.
Does not cover: work on other threads (a stopwatch of this thread does not see it either) and Python's own time.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_MOVES = {"clone", "copy_", "_to_copy", "fill_", "zero_", "zeros_like", "ones_like", "full", "zeros", "index"}
_EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "lift_fresh"}
_PRODUCTS = {"mm", "addmm", "bmm", "addbmm"}
_SEVERAL_PASSES = {
    "_softmax", "cumsum", "exp", "log", "sqrt", "rsqrt", "pow", "bernoulli_", "bernoulli", "native_dropout",
    "native_batch_norm", "_native_batch_norm_legit", "_fused_rms_norm", "argmax", "sort", "topk",
}  # fmt: skip
_MOVE, _ARITHMETIC, _LONG, _NEW = 1, 2, 8, 1
"""Charges per element of four bytes: to move it, to compute with it, to do so at length, to get memory for it."""


class Charges:
    """What every operator costs; apart from the mode, whose own method would first import the compiler."""

    units = 1.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.charge(func.overloadpacket.__name__, _tensors((args, kwargs)), _tensors(result))
        return result

    def charge(self, name: str, given: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        """Charge for one operator; a kernel that no dispatcher sees is charged as one that moves."""
        known = {t.untyped_storage().data_ptr() for t in given}
        self.units += sum(_NEW * _words(t) for t in made if t.untyped_storage().data_ptr() not in known)
        if name in _EMPTY:
            return
        elements = max((_words(t) for t in (*given, *made)), default=0.0)
        rate = _MOVE if name in _MOVES else _LONG if name in _SEVERAL_PASSES else _ARITHMETIC
        self.units += elements * (given[-1].shape[0] if name in _PRODUCTS else rate)


class Work(Charges, TorchDispatchMode):
    """Adds up charges while it is entered."""


def _tensors(value: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _words(tensor: torch.Tensor) -> float:
    return tensor.numel() * tensor.element_size() / 4
