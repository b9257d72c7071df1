"""Tensors of `torch.empty` that a candidate's Python hands to launches: which of their bytes nothing has written yet.

Covers: tensors that go from `torch.empty` and its like to launches in one call, views of them, launch after launch.
Does not cover: a tensor that any function of torch but a view was given, that a launch has in a tensor map or twice,
or that was made before the call: all of it counts as written, so that nothing right is found at fault.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ._memory import Uninitialised
from .results import Execution

MAKE: Final = frozenset({torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty})
"""What makes tensors whose bytes nobody wrote."""
_VIEWS: Final = frozenset({
    "__get__", "__getitem__", "__len__", "as_strided", "chunk", "contiguous", "detach", "dim", "element_size", "expand",
    "flatten", "is_contiguous", "movedim", "narrow", "ndimension", "numel", "permute", "reshape", "select", "size",
    "split", "squeeze", "storage_offset", "stride", "swapaxes", "t", "transpose", "unbind", "unflatten", "unsqueeze",
    "view", "view_as",
})  # fmt: skip
"""Names of functions that write into no tensor and let nothing else write into it."""
_watching: list["Unwritten"] = []


class Unwritten(TorchFunctionMode):
    """Knows, while it is entered, what of fresh tensors nothing has written."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh: dict[int, tuple[torch.Tensor, np.ndarray]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the call; note what it made without writing it, and what may be written since."""
        named = kwargs or {}
        made = func(*args, **named)
        with torch._C.DisableTorchFunction():
            if func in MAKE and _storage(made):
                whole = torch.empty(0, dtype=torch.uint8).set_(made.untyped_storage())
                # It is kept until the end, so that no other tensor comes to lie there.
                self._fresh[whole.data_ptr()] = (whole, np.zeros(whole.numel(), np.uint8))
            elif self._fresh and getattr(func, "__name__", "") not in _VIEWS:
                self._forget(tree_leaves((args, named)))
        return made

    def given(self, values: Sequence[Any]) -> list[Any]:
        """Return a launch's arguments, fresh tensors among them with what of them was written."""
        if not self._fresh:
            return list(values)
        self._forget([getattr(v, "base", None) for v in values])  # tensor descriptors, what is reinterpreted
        times = Counter(map(_storage, values))
        self._forget([v for v in values if times[_storage(v)] > 1])
        return [self._marked(v) for v in values]

    def _marked(self, value: Any) -> Any:
        _, written = self._fresh.get(start := _storage(value), (None, None))
        return value if written is None else Uninitialised(value, written[value.data_ptr() - start :])

    def _forget(self, values: Sequence[Any]) -> None:
        for value in values:
            self._fresh.pop(_storage(value), None)


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Have launches told what of fresh tensors nothing has written; for one call of a candidate."""
    _watching.append(watch := Unwritten())
    try:
        with watch:
            yield
    finally:
        _watching.pop()


def launched(execute: Callable[[Sequence[Any]], Execution], arguments: Sequence[Any]) -> Execution:
    """Execute a launch on its arguments as they are known; what it asks of tensors is not watched."""
    with torch._C.DisableTorchFunction():
        return execute(_watching[-1].given(arguments) if _watching else arguments)


def _storage(value: Any) -> int:
    """Return where a tensor's memory begins; 0 for anything else, and for tensors without any."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.layout is not torch.strided:
        return 0
    return value.untyped_storage().data_ptr()
