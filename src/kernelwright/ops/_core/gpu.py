"""Forms of ops for GPUs: `gpu*.triton.py` of a family's folder, loaded when an op of it first gets a tensor there."""

import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

FILES = "gpu*.triton.py"
"""Loaded in the order of their names; one that comes later may import from `.gpu_triton`, which is the first."""
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
"""Dtypes of numbers that forms take."""
_LEAST = (8, 0)
"""The oldest compute capability that forms are for."""


@dataclass(frozen=True)
class GpuForm:
    """What an op runs on a GPU.

    Both functions look at no values of tensors: nothing waits for the GPU, and a call may be captured in a graph. An
    index out of range, which the kernels of processors refuse, gives NaN.
    """

    serves: Callable[..., str | None]
    """None where it serves these arguments, else why not."""
    run: Callable[..., Any]
    """Takes the op's arguments and returns its outputs."""


@cache
def forms_of(folder: Path) -> tuple[dict[str, GpuForm], str]:
    """Return the forms in a family's folder by op, and why there are none.

    Example:
        >>> forms_of(Path("nowhere"))
        ({}, 'it has no form for GPUs')
    """
    files = sorted(folder.glob(FILES))
    found: dict[str, GpuForm] = {}
    for file in files:
        name = f"kernelwright.ops.{folder.name}.{file.name.removesuffix('.py').replace('.', '_')}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            del sys.modules[name]
            return {}, f"{error.name} is not installed; pip install 'kernelwright[triton]'"
        found |= module.FORMS
    return found, "" if files else "it has no form for GPUs"


def gpu_of(arguments: Iterable[object]) -> torch.device | None:
    """Return the GPU of the first tensor that is on one.

    Example:
        >>> gpu_of([torch.ones(2), 3]) is None
        True
    """
    return next((a.device for a in arguments if isinstance(a, torch.Tensor) and a.is_cuda), None)


@cache
def _too_old(device: torch.device) -> str:
    """Return why no form is for a GPU; empty where they are."""
    if torch.version.hip is not None:
        return "forms were not run on AMD's GPUs"
    found = torch.cuda.get_device_capability(device)
    return "" if found >= _LEAST else f"the GPU is of compute capability {found[0]}.{found[1]}, below 8.0"


def form_for(
    folder: Path, name: str, device: torch.device, arguments: tuple[Any, ...]
) -> tuple[GpuForm | None, str]:
    """Return what serves a call with tensors on a GPU, or why nothing does."""
    why = _too_old(device)
    if why:
        return None, why
    forms, why = forms_of(folder)
    form = forms.get(name)
    if form is None:
        return None, why or "it has no form for GPUs"
    for x in arguments:
        if isinstance(x, torch.Tensor):
            if x.device != device:
                return None, f"tensors are on {x.device} and on {device}"
            if not x.numel():
                return None, "a tensor is empty"
    why = form.serves(*arguments) or ""
    return (None, why) if why else (form, "")


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU the current one, on which Triton launches."""
    if torch.cuda.current_device() == device.index:
        return nullcontext()
    return torch.cuda.device(device)


def say(said: set[str], op: str, why: str, stacklevel: int) -> None:
    """Warn once that a reference runs, and why."""
    if why not in said:
        said.add(why)
        warnings.warn(
            f"kernelwright {op} runs its reference: {why}", RuntimeWarning, stacklevel=stacklevel + 1
        )


def precision(exact: bool) -> str:
    """Return Triton's `input_precision` of products of float32: about as exact as float32, or in TF32.

    Three products of TF32 do for the former; Triton has neither for all of AMD's GPUs. Products of 16 bits are not
    touched by it.

    Example:
        >>> precision(True)
        'tf32x3'
    """
    if torch.version.hip is not None:
        return "ieee"
    return "tf32x3" if exact else "tf32"


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b in float32: on a GPU torch adds products of 16 bits up in it.

    Example:
        >>> product(torch.ones(1, 2).half(), torch.ones(2, 1).half()).item()
        2.0
    """
    if a.is_cuda and a.dtype is not torch.float32:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def add_product(total: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Add a @ b to a float32 matrix.

    Example:
        >>> total = torch.ones(1, 1)
        >>> add_product(total, torch.ones(1, 2).half(), torch.ones(2, 1).half())
        >>> total.item()
        3.0
    """
    if a.is_cuda and a.dtype is not torch.float32:
        torch.addmm(total, a, b, out_dtype=torch.float32, out=total)
    else:
        total.addmm_(a.float(), b.float())
