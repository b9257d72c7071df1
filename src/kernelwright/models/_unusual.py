"""Module, inputs → what of a model no program takes: a refusal in a sentence, or what stays native."""

import dataclasses

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..errors import TaskError
from ..system.dispatch_mode import DispatchMode


def check_values(name: str, module: nn.Module, inputs: object) -> None:
    """Refuse what cannot be called or seen through.

    Raises:
        TaskError: TorchScript, tensors on `meta`, or tensors that an input holds where nothing sees them.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise TaskError(
            f"{name} is TorchScript, of which there is no graph; pass the module that it was made from"
        )
    leaves = pytree.tree_leaves(inputs)
    for leaf in leaves:
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type) and _holds_tensors(leaf):
            raise TaskError(
                f"an input of {name} is a {type(leaf).__name__}, whose tensors would count as constants; call "
                f"torch.export.register_dataclass({type(leaf).__name__}), or pass tensors"
            )
    empty = [key for key, value in _tensors(module, leaves) if value.is_meta]
    if empty:
        raise TaskError(
            f"{name} has {len(empty)} tensors on `meta`, {empty[0]!r} for one, which hold no values; build it on the "
            "CPU, or give it memory and weights: module.to_empty(device='cpu'), then load_state_dict"
        )


def taken_out(module: nn.Module) -> nn.Module:
    """Return the module that torch.compile was given; any other module as it is.

    Example:
        >>> inner = nn.ReLU()
        >>> taken_out(torch.compile(inner, backend="eager")) is inner, taken_out(inner) is inner
        (True, True)
    """
    if type(module).__name__ != "OptimizedModule":
        return module
    inner: nn.Module = module.get_submodule("_orig_mod")
    return inner


def notes_on(module: nn.Module) -> list[str]:
    """Say what keeps a patched model native."""
    hooked = [
        name or "the model" for name, part in module.named_modules() if part._forward_hooks or part._forward_pre_hooks
    ]  # fmt: skip
    if not hooked:
        return []
    return [f"{hooked[0]} has forward hooks: a patched model stays native while they are there"]


def sparse_in(module: nn.Module, tensors: list[torch.Tensor]) -> str:
    """Say which tensor of a model, or of its inputs, is not dense; nothing where all are.

    Example:
        >>> sparse_in(nn.ReLU(), [torch.eye(2).to_sparse()])
        "'input 0' is a sparse_coo tensor, which no program takes"
    """
    odd = [(key, str(t.layout)) for key, t in _tensors(module, tensors) if t.layout is not torch.strided]
    return (
        f"{odd[0][0]!r} is a {odd[0][1].removeprefix('torch.')} tensor, which no program takes" if odd else ""
    )


def reads_values(whole: nn.Module, tensors: list[torch.Tensor]) -> str:
    """Say what reads the values of tensors in a call, by which another call may run other operators; else nothing.

    Example:
        >>> reads_values(nn.ReLU(), [torch.ones(2)])
        ''
    """
    with torch.no_grad(), _Reads() as reads, _ReadsAtOnce(reads):
        whole(*tensors)
    return reads.first


class _Reads(DispatchMode):
    """Sees operators that make numbers, or sizes, of a tensor's values."""

    first = ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # as torch's
        if {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags):
            self.first = self.first or str(func)
        return func(*args, **(kwargs or {}))


class _ReadsAtOnce(TorchFunctionMode):
    """Sees methods that read a tensor's memory without an operator."""

    def __init__(self, reads: _Reads) -> None:
        super().__init__()
        self._reads = reads

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # as torch's
        name = getattr(func, "__name__", "")
        if name in ("tolist", "numpy", "__array__", "__dlpack__", "data_ptr"):
            self._reads.first = self._reads.first or name
        return func(*args, **(kwargs or {}))


def _tensors(module: nn.Module, leaves: list[object] | list[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    held = [*module.named_parameters(), *module.named_buffers()]
    return [*held, *((f"input {number}", tensor) for number, tensor in enumerate(given))]


def _holds_tensors(value: object) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(_holds_tensors(getattr(value, f.name)) for f in dataclasses.fields(value))
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
