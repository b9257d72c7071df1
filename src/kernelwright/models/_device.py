"""The device that models run on."""

import copy
from dataclasses import replace

import torch
from torch.utils import _pytree as pytree

from ..devices import Device, detect
from ..errors import InputError
from ._target import Loaded

_SERVED = frozenset({"cpu", "cuda"})


def device_of_models(device: str | None) -> Device:
    """Return the device of that name, on which models are planned, optimised and patched; the CPU where none is named.

    Raises:
        InputError: another kind of device is named.
    """
    used = detect(device or "cpu")
    if used.kind not in _SERVED:
        raise InputError(
            f"whole models are planned and optimised on CPUs and NVIDIA's GPUs so far, not on {used.name}; pass "
            "device='cpu', or optimise an op of the model, in a file of its own, on that device"
        )
    return used


def cpu_of_training(device: str | None) -> Device:
    """Return the CPU, on which alone training is optimised.

    Raises:
        InputError: another device is named.
    """
    used = detect(device or "cpu")
    if used.kind != "cpu":
        raise InputError(
            f"training is optimised on CPUs alone so far, not on {used.name}; pass device='cpu', or leave training out"
        )
    return used


def moved(loaded: Loaded, place: str) -> Loaded:
    """Return a model on a device, as torch calls it; a copy, unless all its tensors are there.

    Example:
        >>> from kernelwright.models import load_model
        >>> loaded = load_model(torch.nn.ReLU(), (torch.ones(2),))
        >>> moved(loaded, "cpu") is loaded, moved(loaded, "meta").args[0].device
        (True, device(type='meta'))
    """
    there = torch.device(place)
    held = (*loaded.module.parameters(), *loaded.module.buffers(), *loaded.whole.tensors)
    if all(t.device == there for t in held):
        return loaded
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.to(there), (loaded.args, loaded.kwargs))
    return replace(loaded, module=copy.deepcopy(loaded.module).to(there), args=args, kwargs=kwargs)
