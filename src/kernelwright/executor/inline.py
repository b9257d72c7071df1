"""Extensions that Python builds with `load_inline(cuda_sources=...)`, run as they are on a machine without a GPU.

The build reads the sources off the candidate's Python file, where they stand as strings, and compiles them against a
small `torch` of our own (`host/torch_api`); in the worker, `load_inline` hands out what was built.

Covers: functions named by `functions=` or `PYBIND11_MODULE` over tensors, numbers, strings and lists of them, with
names and defaults; `.cuda()`, `device="cuda"`, `tensor.is_cuda` in Python; bytes of `torch::empty` that nobody wrote.
Does not cover: sources put together at run time, `load` of files, what `kw_torch.h` does not declare (the compiler's
error names the line).
"""

import ast
import ctypes
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.dlpack import from_dlpack

from ..languages._inline import asked_for, key_of
from . import _cudart
from ._errors import NotExecutedError
from ._extension import FLAGS
from ._memory import Uninitialised
from .device import device

_RESULTS: Final[list[Any]] = []
_IS_CUDA: Final = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]  # a property of C


def install(folder: Path) -> None:
    """Have `load_inline` hand out the libraries of a folder in this process, from now on."""
    import torch.utils.cpp_extension as extension
    import tvm_ffi

    tvm_ffi.register_global_func("kernelwright.executor.torch", _asked, override=True)

    def load_inline(name: str, *arguments: Any, **named: Any) -> Any:
        library = folder / f"{key_of(asked_for(arguments, named, FLAGS))}.so"
        if not library.is_file():
            raise NotExecutedError(
                f"not executed: load_inline of {name!r}, whose sources the build did not see"
            )
        _cudart.bind(library)
        return _extension(tvm_ffi.load_module(str(library)), library)

    setattr(extension, "load_inline", load_inline)  # noqa: B010


class OnDevice(TorchFunctionMode):
    """Let tensors of the CPU stand in for a GPU's: where they are made, moved and asked."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the call on the CPU."""
        given = {k: v for k, v in (kwargs or {}).items() if not (k == "device" and _is_gpu(v))}
        if func is torch.Tensor.cuda:
            return args[0]
        if func == _IS_CUDA:
            return True
        if func is torch.Tensor.to:
            args = tuple(a for a in args if not _is_gpu(a))
            if len(args) == 1 and not given:
                return args[0]
        return func(*args, **given)


def _extension(loaded: Any, library: Path) -> Any:
    names = ctypes.CDLL(str(library)).kw_functions
    names.restype = ctypes.c_char_p
    entry = loaded.get_function("kw_extension")
    device().prepare()
    exported = [_signature(line) for line in names().decode().splitlines()]
    return SimpleNamespace(
        **{n: functools.partial(_call, entry, number, s) for number, (n, s) in enumerate(exported)}
    )


def _signature(line: str) -> tuple[str, inspect.Signature | None]:
    """Read a function's name and, where the extension gives them, its arguments' names and defaults.

    Example:
        >>> _signature("\\t".join(["scale", "x", "a=0.5"]))
        ('scale', <Signature (x, a=0.5)>)
        >>> _signature("scale")
        ('scale', None)
    """
    name, *arguments = line.split("\t")
    if not arguments:
        return name, None
    missing, either = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    split = [a.partition("=") for a in arguments]
    return name, inspect.Signature(
        [
            inspect.Parameter(n, either, default=ast.literal_eval(d) if sign else missing)
            for n, sign, d in split
        ]
    )


def _call(
    entry: Callable[..., Any], number: int, signature: inspect.Signature | None, *given: Any, **named: Any
) -> Any:
    if signature is not None:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        given = bound.args
    elif named:
        raise TypeError(f"the function names no argument {next(iter(named))!r}")
    _RESULTS.clear()
    device().call(entry, number, *_flat(given))
    return _RESULTS.pop() if _RESULTS else None


def _flat(values: Any) -> Iterator[Any]:
    """Put the length of each list, and of each string, before what it holds."""
    for value in values:
        held = value.encode() if isinstance(value, str) else value
        if isinstance(held, bytes | list | tuple):
            yield len(held)
            yield from _flat(held)
        else:
            yield value


def _asked(name: str, *given: Any) -> Any:
    """Do what the host code asks of torch."""
    values = [from_dlpack(v) if hasattr(v, "__dlpack__") else v for v in given]
    with torch._C.DisableTorchFunction():
        return _OPERATIONS[name](*values)


def _lend(tensor: torch.Tensor) -> None:
    device().lend(tensor, f"a tensor of {tuple(tensor.shape)}")


def _empty(dtype: str, *sizes: int) -> torch.Tensor:
    made = torch.empty(sizes, dtype=getattr(torch, dtype))
    device().lend(Uninitialised(made), f"torch::empty of {sizes}")
    return made


def _written(change: Callable[..., Any]) -> Callable[..., None]:
    def write(tensor: torch.Tensor, *rest: Any) -> None:
        change(tensor, *rest)
        device().touched(tensor)

    return write


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "lend": _lend,
    "empty": _empty,
    "zeros": lambda dtype, *sizes: torch.zeros(sizes, dtype=getattr(torch, dtype)),
    "ones": lambda dtype, *sizes: torch.ones(sizes, dtype=getattr(torch, dtype)),
    "full": lambda dtype, value, *sizes: torch.full(sizes, value, dtype=getattr(torch, dtype)),
    "to": lambda t, dtype: t.to(getattr(torch, dtype)),
    "item": lambda t: t.item(),
    "zero_": _written(torch.Tensor.zero_),
    "fill_": _written(torch.Tensor.fill_),
    "copy_": _written(torch.Tensor.copy_),
    "return": _RESULTS.append,
    "return_list": lambda *values: _RESULTS.append(list(values)),
    "return_tuple": lambda *values: _RESULTS.append(values),
    "reduce": lambda t, name, keep, *axes: getattr(torch, name)(t, axes, keepdim=keep),
    "cat": lambda axis, *parts: torch.cat(parts, axis),
    "stack": lambda axis, *parts: torch.stack(parts, axis),
    **{n: getattr(torch.Tensor, n) for n in (
        "contiguous", "clone", "view", "reshape", "flatten", "t", "transpose", "squeeze", "unsqueeze", "permute",
        "expand", "narrow", "select", "sum", "mean", "amax", "amin", "relu", "sigmoid", "tanh", "exp", "log", "sqrt",
        "rsqrt", "abs", "neg", "square", "max", "min", "add", "sub", "mul", "div", "matmul", "mm", "bmm", "pow",
        "softmax",
    )},
}  # fmt: skip


def _is_gpu(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"
