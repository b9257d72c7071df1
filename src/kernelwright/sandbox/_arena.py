"""Shared memory in which the judge places inputs and workers see them.

Covers: out-of-bounds writes near a tensor (guard bands with a secret pattern), stale bytes (everything is
filled with the pattern before use), inputs changed by a kernel (the judge's own view of the same bytes).
Does not cover: one worker changing what another sees while both map the same arena, and changing it back.
Use one arena for each worker that must not be able to reach another's inputs.
"""

import itertools
import mmap
import os
import secrets
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..system.resources import Resource
from ._memory import mapped
from ._types import Slot

_ALIGNMENT = 64
_GUARD_BYTES = 4096
_TILE_BYTES = 1 << 20
_numbers = itertools.count(1)


class Arena(Resource):
    """A sealed memory file of fixed size, made by the judge.

    Slots start at multiples of 64 bytes, each with at least 4096 bytes of secret pattern on both sides.

    Example:
        >>> with Arena(1 << 20) as arena:
        ...     slot = arena.place(torch.arange(4))
        ...     arena.view(slot).tolist(), arena.guards_intact()
        ([0, 1, 2, 3], True)
    """

    def __init__(self, size_bytes: int) -> None:
        if size_bytes < 1:
            raise InputError(f"arena size {size_bytes!r} is not a positive number of bytes")
        self.number = next(_numbers)
        """Unique in this process; slots carry it."""
        self.size_bytes = -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        """Size, a whole number of pages."""
        self.descriptor = _memory_file(f"arena-{self.number}", self.size_bytes)
        """Descriptor of the memory file."""
        self._bytes = mapped(self.descriptor, self.size_bytes)
        self._raw = self._bytes.numpy()
        self._pattern = np.frombuffer(secrets.token_bytes(_TILE_BYTES), np.uint8)
        self._slots: list[Slot] = []
        self._end = 0

    def place(self, tensor: Tensor, skew_bytes: int = 0) -> Slot:
        """Copy a tensor, strides and all, into a new slot.

        Args:
            tensor: any strided CPU tensor; gaps between its elements hold the secret pattern.
            skew_bytes: bytes to leave free in front, rounded up to 64, so that addresses differ.

        Raises:
            InputError: where the arena is full; `reset` it or make a larger one.
        """
        slot = self.reserve(tensor, skew_bytes)
        self.refill(slot, tensor)
        return slot

    def reserve(self, tensor: Tensor, skew_bytes: int = 0) -> Slot:
        """Make a slot for a tensor, as `place` does, without its content: that is for `pair` to write, or to clear."""
        start = _aligned(self._end + _GUARD_BYTES + max(0, skew_bytes))
        slot = Slot(
            arena=self.number,
            offset=start,
            nbytes=_extent(tensor),
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            dtype=str(tensor.dtype).removeprefix("torch."),
        )
        end = _aligned(start + slot.nbytes)
        if end + _GUARD_BYTES > self.size_bytes:
            free = max(0, self.size_bytes - self._end - 2 * _GUARD_BYTES)
            raise InputError(
                f"a tensor of {slot.nbytes} bytes does not fit: {free} of the arena's {self.size_bytes} bytes "
                "are free; reset the arena or make a larger one"
            )
        dense = slot.nbytes == tensor.numel() * tensor.element_size()
        for first, last in (
            ((self._end, start), (start + slot.nbytes, end + _GUARD_BYTES))
            if dense
            else ((self._end, end + _GUARD_BYTES),)
        ):
            self._fill(first, last)
        self._slots.append(slot)
        self._end = end
        return slot

    def refill(self, slot: Slot, tensor: Tensor) -> None:
        """Copy other values into a slot; shape and dtype must be the slot's, strides need not be."""
        view, values = self.pair(slot, tensor)
        view.copy_(values)

    def pair(self, slot: Slot, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the judge's view of a slot and what is to be copied there, without repeated elements.

        Raises:
            InputError: the tensor has not the slot's shape and dtype.
        """
        view = self.view(slot)
        if view.shape != tensor.shape or view.dtype != tensor.dtype:
            raise InputError(
                f"slot of {slot.dtype}{list(slot.shape)} was given {tensor.dtype}{list(tensor.shape)}; "
                "expected the same shape and dtype"
            )
        return _without_repeats(view), _without_repeats(tensor, view.stride())

    def view(self, slot: Slot) -> Tensor:
        """Return the judge's own tensor over the slot's bytes, with the slot's strides."""
        if slot.arena != self.number:
            raise InputError(f"slot of arena {slot.arena} was given to arena {self.number}")
        dtype = getattr(torch, slot.dtype)
        flat = self._bytes.narrow(0, slot.offset, slot.nbytes).view(dtype)
        return flat.as_strided(slot.shape, slot.strides, flat.storage_offset())

    @property
    def held(self) -> Tensor:
        """The bytes up to the end of the last slot's guard band, (bytes,) uint8: the judge's view, no copy."""
        return self._bytes[: self._end + _GUARD_BYTES]

    def reset(self) -> None:
        """Forget every slot. Workers' argument sets over them must be released first."""
        self._slots.clear()
        self._end = 0

    def guards_intact(self) -> bool:
        """Tell whether no byte between the slots was changed since they were placed."""
        return all(np.array_equal(self._raw[a:b], self._expected(a, b)) for a, b in self._gaps())

    def close(self) -> None:
        """Close the memory file; views already given out stay valid."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._bytes = torch.empty(0, dtype=torch.uint8)
            self._raw = self._bytes.numpy()

    def _gaps(self) -> Iterator[tuple[int, int]]:
        start = 0
        for slot in self._slots:
            yield start, slot.offset
            start = slot.offset + slot.nbytes
        if self._slots:
            yield start, self._end + _GUARD_BYTES

    def _fill(self, start: int, end: int) -> None:
        self._raw[start:end] = self._expected(start, end)

    def _expected(self, start: int, end: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        first = start % _TILE_BYTES
        if first + end - start <= _TILE_BYTES:
            return self._pattern[first : first + end - start]
        repeats = -(-(first + end - start) // _TILE_BYTES)
        return np.tile(self._pattern, repeats)[first : first + end - start]


def _memory_file(name: str, size_bytes: int) -> int:
    import fcntl

    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size_bytes)
    seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _extent(tensor: Tensor) -> int:
    """Bytes from the first to the last element that the tensor's strides reach."""
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _without_repeats(tensor: Tensor, strides: tuple[int, ...] | None = None) -> Tensor:
    """Narrow every axis whose stride (or the given stride) is zero to its first element."""
    for axis, stride in enumerate(tensor.stride() if strides is None else strides):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


class OutputRegion:
    """One worker's own shared memory, through which outputs come back; grown by replacing it.

    Covers: bytes that a worker says it copied but did not (poisoned before each use), another worker
    reaching the outputs (the memory is not shared with it).
    """

    def __init__(self) -> None:
        self.descriptor = -1
        """Descriptor of the memory file; -1 before the first use."""
        self.size_bytes = 0
        """Its size."""
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def reserve(self, size_bytes: int) -> bool:
        """Make room for `size_bytes`; returns whether the memory file is a new one."""
        if 0 < size_bytes <= self.size_bytes:
            return False
        self.close()
        self.size_bytes = -(-max(size_bytes, 1 << 16) // mmap.PAGESIZE) * mmap.PAGESIZE
        self.descriptor = _memory_file("outputs", self.size_bytes)
        self._bytes = mapped(self.descriptor, self.size_bytes)
        return True

    def poison(self, size_bytes: int) -> None:
        """Fill the first bytes with ones: NaN in every float dtype, -1 in signed integers."""
        self._bytes[:size_bytes].fill_(0xFF)

    def take(self, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Copy a contiguous tensor out of the region."""
        count = torch.Size(shape).numel()
        raw = self._bytes[offset : offset + count * dtype.itemsize].clone()
        return raw.view(dtype).reshape(shape)

    def close(self) -> None:
        """Close the memory file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._bytes = torch.empty(0, dtype=torch.uint8)
