"""Leave a process without torch's operators: spoilt in the dispatcher, beneath Python, where a log is not needed.

Installed before any of the candidate is loaded, at work from the moment it is: what it does to names in modules comes
too late, and there is no exception that it could catch.

Covers: whatever reaches torch's kernels through its dispatcher, in every namespace, from any thread, with the log
falsified, its modes off or its classes patched.
Does not cover: native code that calls torch's kernels by their symbols; code that is no torch at all (numpy, a library
of its own); a candidate that tries operators on values that it knows, and behaves where they are spoilt, or that looks
for the kernels put in place among the objects or in the memory of its process.
"""

import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ._types import Alone

_KEYS = ("CPU", "CUDA")
Kernel = Callable[..., Any]
_TENSORS = {"Tensor", "Optional[Tensor]"}
_COMPOSITE = "CompositeExplicitAutograd"
"""Where operators are defined that serve every device; some compute themselves, as oneDNN's convolution does."""


class Silence:
    """Torch's operators as they are until `begin`; spoilt then, but for those spared and what those call."""

    def __init__(self, rule: Alone) -> None:
        self._rule, self._begun, self._within = rule, False, threading.local()
        for key in (k for k in _KEYS if k == "CPU" or torch.cuda.is_available()):
            for name in torch._C._dispatch_get_all_op_names():
                if _serves(name, key) and not _overload(name).is_view and _base(name) not in rule.spared:
                    self._put_in_place(name, key)

    def begin(self) -> None:
        """Spoil from now on, for good."""
        self._begun = True

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Leave what this thread does meanwhile as it is."""
        before = getattr(self._within, "lifted", False)
        self._within.lifted = True
        try:
            yield
        finally:
            self._within.lifted = before

    def _put_in_place(self, name: str, key: str) -> None:
        space, _, rest = name.partition("::")
        kernel = _called_with_tensors(torch.library.get_kernel(name, key), _overload(name))
        base = _base(name)
        handed = base in self._rule.library or base.startswith(self._rule.kinds)
        handle = torch._C._dispatch_library("IMPL", space, key, __file__, 0)
        with warnings.catch_warnings(action="ignore"):
            handle.impl(rest, key, self._handing(kernel) if handed else self._spoiling(name, kernel), True)  # type: ignore[call-arg]  # it has it
        ctypes.pythonapi.Py_IncRef(
            ctypes.py_object(handle)
        )  # what was put in its place goes with it otherwise

    def _handing(self, kernel: Kernel) -> Kernel:
        """Return the operator of a library: what it calls is not spoilt."""

        def hand(keys: Any, *args: Any, **kwargs: Any) -> Any:
            with self.lifted():
                return kernel(keys, *args, **kwargs)

        return hand

    def _spoiling(self, name: str, kernel: Kernel) -> Kernel:
        def compute(keys: Any, *args: Any, **kwargs: Any) -> Any:
            result = kernel(keys, *args, **kwargs)
            if not self._begun or getattr(self._within, "lifted", False):
                return result
            made = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
            touched = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
            if max((t.numel() for t in (*made, *touched)), default=0) < self._rule.least:
                return result
            if not made:
                raise RuntimeError(f"{name} was refused")
            with self.lifted():
                for tensor in made:
                    spoil(tensor)
            return result

        return compute


def spoil(tensor: Tensor) -> None:
    """Change every element, finitely: what is multiplied by zero afterwards must not show."""
    if tensor.dtype is torch.bool:
        tensor.logical_not_()
    elif tensor.is_floating_point() or tensor.is_complex():
        tensor.add_(
            (1 + tensor.abs()) * (0.5 + torch.rand(tensor.shape, device=tensor.device)).to(tensor.dtype)
        )
    else:
        tensor.bitwise_not_()


def _serves(name: str, key: str) -> bool:
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, k) for k in (key, _COMPOSITE))


def _base(name: str) -> str:
    return name.partition("::")[2].partition(".")[0]


def _overload(name: str) -> Any:
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


def _called_with_tensors(kernel: Any, overload: Any) -> Kernel:
    """Return a call of a kernel in which numbers in the place of tensors, as in `x * 2`, are tensors again."""
    places = {i for i, a in enumerate(overload._schema.arguments) if str(a.type) in _TENSORS}

    def call(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if any(i in places and isinstance(a, (int, float, complex)) for i, a in enumerate(args)):
            wide = any(isinstance(a, Tensor) and a.dtype is torch.float64 for a in args)
            args = tuple(_tensor(a, wide=wide) if i in places else a for i, a in enumerate(args))
        return kernel.call_boxed(keys, *args, **kwargs)

    return call


def _tensor(value: Any, *, wide: bool) -> Any:
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64 if wide else None)
    return torch.tensor(value) if isinstance(value, (int, complex)) else value
