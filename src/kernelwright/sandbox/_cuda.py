"""The CUDA side of a worker: inputs go to the device at bind, a call ends when every stream has ended.

Covers: work on side streams and of other threads in the same context (the whole device is synchronised inside
the timed request).
Does not cover: in-place changes of device copies of inputs, which the arena does not see.
"""

import torch
from torch import Tensor


def is_gpu(device: str) -> bool:
    """Tell whether the device is a GPU.

    Example:
        >>> is_gpu("cuda:0"), is_gpu("cpu")
        (True, False)
    """
    return device.startswith("cuda")


def to_device(flat: Tensor, device: str) -> Tensor:
    """Return the tensor on the device: itself on a CPU, a fresh copy of its bytes on a GPU."""
    return flat.to(device, copy=True) if is_gpu(device) else flat


def synchronise(device: str) -> None:
    """Wait until nothing runs on the device; nothing to do on a CPU."""
    if is_gpu(device):
        torch.cuda.synchronize(device)
