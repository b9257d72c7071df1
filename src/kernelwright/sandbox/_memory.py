"""Memory shared with another process, and another process's memory read without its help.

Covers: bytes at addresses of a stopped process, checked page by page by the kernel.
Does not cover: what the bytes mean; memory of a GPU.
"""

import contextlib
import ctypes
import mmap
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

_MOST_BYTES = 1 << 30
_MOST_PIECES = 512
"""Pieces of one request; the kernel takes 1024."""


def mapped(descriptor: int, size_bytes: int) -> Tensor:
    """Map a memory file as bytes, on large pages where the system gives them to shared memory.

    Small ones cost a walk through page tables every 4 KiB, which a flush of the caches leaves cold.
    """
    memory = mmap.mmap(descriptor, size_bytes)
    with contextlib.suppress(AttributeError, OSError):  # a system without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


class _Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def read_memory(pid: int, address: int, size_bytes: int) -> Tensor | None:
    """Copy `size_bytes` at `address` of a process; none where the kernel refuses.

    Example:
        >>> import os
        >>> x = torch.arange(4)
        >>> read_memory(os.getpid(), x.data_ptr(), x.nbytes).view(torch.int64).tolist()
        [0, 1, 2, 3]
        >>> read_memory(os.getpid(), 0, 8) is None
        True
    """
    copy = torch.empty(size_bytes, dtype=torch.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    done = 0
    while done < size_bytes:
        length = min(size_bytes - done, _MOST_BYTES)
        ours, theirs = _Piece(copy.data_ptr() + done, length), _Piece(address + done, length)
        count = libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
        if count <= 0:
            return None
        done += count
    return copy


def may_read(pid: int) -> bool:
    """Tell whether this process may read the memory of another: one byte of what is mapped first."""
    try:
        with open(f"/proc/{pid}/maps") as maps:  # noqa: PTH123 - a worker has a thousand lines; one is read
            first = next(maps, "")
    except OSError:
        return False
    start, _, _ = first.partition("-")
    return bool(start) and read_memory(pid, int(start, 16), 1) is not None


def read_alike(pid: int, addresses: Sequence[int], size_bytes: int) -> Tensor | None:
    """Copy `size_bytes` at each of many addresses of a process; none where the kernel refuses.

    Example:
        >>> import os
        >>> x = torch.arange(4)
        >>> ends = [x.data_ptr(), x.data_ptr() + 24]
        >>> read_alike(os.getpid(), ends, 8).view(torch.int64).flatten().tolist()
        [0, 3]
    """
    copy = torch.empty((len(addresses), size_bytes), dtype=torch.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    for first in range(0, len(addresses) if size_bytes else 0, _MOST_PIECES):
        part = addresses[first : first + _MOST_PIECES]
        theirs = (_Piece * len(part))(*(_Piece(a, size_bytes) for a in part))
        ours = _Piece(copy.data_ptr() + first * size_bytes, len(part) * size_bytes)
        count = libc.process_vm_readv(pid, ctypes.byref(ours), 1, theirs, len(part), 0)
        if count != len(part) * size_bytes:
            return None
    return copy


def library_memory(pid: int, name: str, spans: Sequence[tuple[int, int]]) -> bytes | None:
    """Copy parts of a library that a process has loaded; `spans` are offsets from its base, and bytes.

    Returns:
        None where the process has no such library or may not be read.
    """
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return None
    starts = [int(line.partition("-")[0], 16) for line in lines if line.endswith(f"/{name}")]
    if not starts:
        return None
    taken = [read_memory(pid, min(starts) + offset, size) for offset, size in spans]
    return (
        b"".join(t.numpy().tobytes() for t in taken if t is not None)
        if all(t is not None for t in taken)
        else None
    )
