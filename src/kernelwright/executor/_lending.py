"""Tensors of the CPU that a candidate's Python gives to kernels: what these may touch, and what nobody has written yet.

Covers: a call's arguments; whatever torch makes, reads or writes in the call; bytes of `torch.empty` that nobody wrote.
Does not cover: which part of a tensor an assignment by index wrote: all of it counts as written. Memory that the
candidate has from elsewhere (numpy, ctypes): a kernel that touches it is at fault.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ._memory import Uninitialised
from ._unwritten import MAKE
from .device import device


class Lending(TorchFunctionMode):
    """Lets kernels touch the tensors that Python makes and hands on, until the call ends."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, torch.Tensor] = {}

    def call(self, entry: Callable[..., Any], *arguments: Any) -> Any:
        """Call an entry; tensors are lent until it answers."""
        with device().lending([]), self:
            self.lend(arguments)
            try:
                return entry(*arguments)
            finally:
                self._known.clear()

    def lend(self, values: Iterable[Any], *, written: bool = True) -> None:
        """Let kernels touch the tensors among some values.

        Args:
            values: Tensors and other things, also in tuples, lists and dictionaries.
            written: Whether all their bytes were written.
        """
        with torch._C.DisableTorchFunction():
            for tensor in (v for v in tree_leaves(values) if isinstance(v, torch.Tensor)):
                storage = tensor.untyped_storage()
                if storage.data_ptr() in self._known:
                    continue
                whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                self._known[storage.data_ptr()] = whole  # kept, so that no other tensor comes to lie there
                given = whole if written else Uninitialised(whole)
                device().lend(given, f"a tensor of {tuple(tensor.shape)}")

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the call, and note what it was given, made and wrote."""
        named = kwargs or {}
        made = func(*args, **named)
        self.lend((args, named))
        self.lend((made,), written=func not in MAKE)
        for tensor in _written(getattr(func, "__name__", ""), args, named):
            device().touched(tensor)
        return made


def _written(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that a function of torch writes into.

    Example:
        >>> one, two = torch.zeros(1), torch.ones(1)
        >>> len(_written("zero_", (one,), {})), len(_written("add", (one, two), {"out": two}))
        (1, 1)
        >>> len(_written("__add__", (one, two), {}))
        0
    """
    in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    changed = tree_leaves((args[:1] if in_place else (), named.get("out")))
    return [tensor for tensor in changed if isinstance(tensor, torch.Tensor)]
