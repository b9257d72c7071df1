"""Leave a process without torch's operators: refused in the dispatcher, beneath Python, where a log is not needed.

Covers: whatever reaches torch's kernels through its dispatcher, from any thread, with the log falsified, its modes
off or its classes patched.
Does not cover: native code that calls torch's kernels by their symbols; code that is no torch at all; a candidate
that looks for the refusals among the objects or in the memory of its process and takes them off.
"""

import ctypes
import warnings
from collections.abc import Collection
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

_KEYS = ("CPU", "CUDA")


def forgo(spared: Collection[str], least: float) -> None:
    """Refuse every operator but those, wherever a tensor of so many elements is touched, for good.

    Args:
        spared: Names of operators, without overloads, that stay; views do too.
        least: Elements from which on the others are refused.
    """
    for key in _KEYS:
        handle = torch._C._dispatch_library("IMPL", "aten", key, __file__, 0)
        with warnings.catch_warnings(action="ignore"):
            for name in torch._C._dispatch_get_all_op_names():
                if torch._C._dispatch_has_kernel_for_dispatch_key(name, key) and _computes(name, spared):
                    kernel = torch.library.get_kernel(name, key)
                    refusing = _refusing(name, kernel, least)
                    handle.impl(name.partition("::")[2], key, refusing, True)  # type: ignore[call-arg]  # it has it
        ctypes.pythonapi.Py_IncRef(
            ctypes.py_object(handle)
        )  # what was put in its place goes with it otherwise


def _computes(name: str, spared: Collection[str]) -> bool:
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    if space != "aten" or base in spared:
        return False
    return not getattr(getattr(torch.ops.aten, base), overload or "default").is_view


def _refusing(name: str, kernel: Any, least: float) -> Any:
    def refuse(keys: Any, *args: Any, **kwargs: Any) -> Any:
        result = kernel.call_boxed(keys, *args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)]
        if max((t.numel() for t in tensors), default=0) >= least:
            raise RuntimeError(f"{name} was refused")
        return result

    return refuse
