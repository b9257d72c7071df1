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
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ._types import OperatorIsolation

_KEYS = ("CPU", "CUDA")
Kernel = Callable[..., Any]
Lifted = Callable[[], AbstractContextManager[None]]
_TENSORS = {"Tensor", "Optional[Tensor]"}
_COMPOSITE = "CompositeExplicitAutograd"
"""Where operators are defined that serve every device; some compute themselves, as oneDNN's convolution does."""


def silenced(rule: OperatorIsolation) -> tuple[Callable[[], None], Lifted]:
    """Put spoiling kernels in the place of torch's; return what sets them to work, and what lifts them for a while.

    All that they use is held in this call, not looked up by names that a candidate may have changed.
    """
    begun, within = False, threading.local()
    ruin, leaves, kind = spoil, tree_leaves, Tensor

    def begin() -> None:
        nonlocal begun
        begun = True

    @contextmanager
    def lifted() -> Iterator[None]:
        before = getattr(within, "lifted", False)
        within.lifted = True
        try:
            yield
        finally:
            within.lifted = before

    def handing(kernel: Kernel) -> Kernel:
        def hand(keys: Any, *args: Any, **kwargs: Any) -> Any:
            with lifted():
                return kernel(keys, *args, **kwargs)

        return hand

    def spoiling(name: str, kernel: Kernel) -> Kernel:
        def compute(keys: Any, *args: Any, **kwargs: Any) -> Any:
            result = kernel(keys, *args, **kwargs)
            if not begun or getattr(within, "lifted", False):
                return result
            made = [t for t in leaves(result) if isinstance(t, kind)]
            touched = [t for t in leaves((args, kwargs)) if isinstance(t, kind)]
            if max((t.numel() for t in (*made, *touched)), default=0) < rule.least:
                return result
            if not made:
                raise RuntimeError(f"{name} was refused")
            with lifted():
                for tensor in made:
                    ruin(tensor)
            return result

        return compute

    for key in (k for k in _KEYS if k == "CPU" or torch.cuda.is_available()):
        for name in torch._C._dispatch_get_all_op_names():
            base = _base(name)
            if base in rule.spared or not _serves(name, key) or _overload(name).is_view:
                continue
            kernel = _called_with_tensors(torch.library.get_kernel(name, key), _overload(name))
            library = base in rule.library or base.startswith(rule.kinds)
            _put_in_place(name, key, handing(kernel) if library else spoiling(name, kernel))
    return begin, lifted


def _put_in_place(name: str, key: str, kernel: Kernel) -> None:
    space, _, rest = name.partition("::")
    handle = torch._C._dispatch_library("IMPL", space, key, __file__, 0)
    with warnings.catch_warnings(action="ignore"):
        handle.impl(rest, key, kernel, True)  # type: ignore[call-arg]  # it has it
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))  # what was put in its place goes with it otherwise


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
    as_tensor = _tensor

    def call(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if any(i in places and isinstance(a, (int, float, complex)) for i, a in enumerate(args)):
            wide = any(isinstance(a, Tensor) and a.dtype is torch.float64 for a in args)
            args = tuple(as_tensor(a, wide=wide) if i in places else a for i, a in enumerate(args))
        return kernel.call_boxed(keys, *args, **kwargs)

    return call


def _tensor(value: Any, *, wide: bool) -> Any:
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64 if wide else None)
    return torch.tensor(value) if isinstance(value, (int, complex)) else value
