"""Bytes that no kernel writes, put where outputs will lie and where outputs were."""

import ctypes
import math

import torch
from torch import Tensor

from ..records import TensorSpec

_libc = ctypes.CDLL(None)
_end_after, _allocate, _free = _libc.sbrk, _libc.malloc, _libc.free
_end_after.argtypes, _end_after.restype = (ctypes.c_ssize_t,), ctypes.c_void_p
_allocate.argtypes, _allocate.restype = (ctypes.c_size_t,), ctypes.c_void_p
_free.argtypes = (ctypes.c_void_p,)
_ALIGNED_BYTES = 64 + 32 + 16
"""What glibc looks for beyond a block's size when torch asks for one at a multiple of 64 bytes: that, its least block
before the block, and the header."""
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


class Heap:
    """Where the allocator will next put outputs.

    Covers: poison there, so that bytes never written show; pages that are made before a clock starts.
    Does not cover: what a call frees before it allocates its outputs.
    """

    def __init__(self) -> None:
        self._ends: dict[int, int | None] = {}
        """Where the heap ended when blocks of a size were last poisoned: workers keep what they free, so while it ends
        there, their pages are those."""

    def poison(self, specs: tuple[TensorSpec, ...], device: str) -> None:
        """Leave poison for outputs.

        Several blocks at once, so that a small allocation in between does not use up the only one, and so that several
        calls find pages.
        """
        for spec in specs:
            dtype = getattr(torch, spec.dtype)
            held = max(1, math.prod(spec.shape) * dtype.itemsize)
            count = 1 + min(_MOST_BLOCKS - 1, _MOST_BYTES // held)
            if device == "cpu":
                self._poison(held, count)
                continue
            for block in [torch.empty(spec.shape, dtype=dtype, device=device) for _ in range(count)]:
                poison(block)

    def _poison(self, held: int, count: int) -> None:
        """Poison bytes of the process's own heap.

        Nothing else is allocated between the blocks, nor left of aligning them: a small block that stays there keeps
        them apart when they are freed, an aligned block does not fit where just as large a one was, and outputs come
        from pages never written.
        """
        sought = held + _ALIGNED_BYTES
        blocks = list(filter(None, [_allocate(sought) for _ in range(count)]))
        end = _end_after(0)
        if self._ends.get(held) == end:
            count = max(_LEAST_POISONED, min(count, _POISONED_BYTES // held))
        self._ends[held] = end
        for block in blocks[:count]:
            ctypes.memset(block, _POISON, sought)
        for block in blocks:
            _free(block)
