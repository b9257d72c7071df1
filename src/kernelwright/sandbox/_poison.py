"""Bytes that no kernel writes, put where outputs will lie and where outputs were."""

import ctypes
import math

import torch
from torch import Tensor

from ..records import TensorSpec

_end_after = ctypes.CDLL(None).sbrk
_end_after.argtypes, _end_after.restype = (ctypes.c_ssize_t,), ctypes.c_void_p
_POISON = 0xFF
_MOST_BLOCKS, _MOST_BYTES = 9, 256 << 20
"""How many blocks of an output's size are there for calls to come."""
_LEAST_POISONED, _POISONED_BYTES = 2, 16 << 20
"""How many of them are poisoned where all were there before, on a CPU, whose memory is slower than a kernel may be."""


def poison(tensor: Tensor) -> None:
    """Overwrite a contiguous tensor."""
    if tensor.layout is torch.strided and tensor.is_contiguous() and tensor.numel():
        if tensor.device.type == "cpu":
            ctypes.memset(tensor.data_ptr(), _POISON, tensor.nbytes)  # half of what a view and a fill cost
        else:
            tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8).fill_(_POISON)


def poison_heap(specs: tuple[TensorSpec, ...], device: str) -> None:
    """Leave poison where the allocator will next put outputs, so that bytes never written show.

    Several blocks at once, so that a small allocation in between does not use up the only one, and so that several
    outputs find their pages made before a clock starts: workers keep what they free.
    """
    for spec in specs:
        dtype = getattr(torch, spec.dtype)
        held = max(1, math.prod(spec.shape) * dtype.itemsize)
        count = 1 + min(_MOST_BLOCKS - 1, _MOST_BYTES // held)
        end = _heap_end()
        blocks = [torch.empty(spec.shape, dtype=dtype, device=device) for _ in range(count)]
        if device == "cpu" and _heap_end() == end:
            count = max(_LEAST_POISONED, min(count, _POISONED_BYTES // held))
        for block in blocks[:count]:
            poison(block)


def _heap_end() -> int | None:
    """Return where the heap ends, which moves when it takes new pages."""
    return _end_after(0)
