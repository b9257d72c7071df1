"""Bytes that no kernel writes, put where outputs will lie and where outputs were."""

import ctypes

import torch
from torch import Tensor

from ..records import TensorSpec

_POISON = 0xFF
_POISONED_BLOCKS, _POISONED_BYTES = 8, 256 << 20


def poison(tensor: Tensor) -> None:
    """Overwrite a contiguous tensor."""
    if tensor.layout is torch.strided and tensor.is_contiguous() and tensor.numel():
        if tensor.device.type == "cpu":
            ctypes.memset(tensor.data_ptr(), _POISON, tensor.nbytes)  # half of what a view and a fill cost
        else:
            tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8).fill_(_POISON)


def poison_heap(specs: tuple[TensorSpec, ...], device: str) -> None:
    """Leave poison where the allocator will next put outputs, so that bytes never written show.

    Several blocks at once, so that a small allocation in between does not use up the only one.
    """
    for spec in specs:
        first = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
        copies = min(_POISONED_BLOCKS, _POISONED_BYTES // max(1, first.numel() * first.element_size()))
        blocks = [first, *(torch.empty_like(first) for _ in range(copies))]
        for block in blocks:
            poison(block)
