"""Let this process keep the memory that it frees, so that large temporary tensors touch no new pages."""

import contextlib
import ctypes
import threading
from collections.abc import Iterator

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
"""Parameters of mallopt(3)."""
_KEEPING = {_MMAP_MAX: 0, _TRIM_THRESHOLD: (1 << 31) - 1}
_USUAL = {_MMAP_MAX: 1 << 16, _MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}
"""What glibc's own values become in a process that frees large blocks."""

_lock = threading.Lock()
_holders: list[None] = []
"""One for each block of code that wants memory kept: malloc is the process's own, and so is their number."""


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what is freed inside; it goes back to the system at the end of the outermost block.

    A tensor of more than 32 MB costs a page fault for every 4 KiB otherwise, or for every 2 MiB, each time that one is
    made; results are as ever tensors of their own. It holds for all threads of the process. Without glibc nothing
    changes.

    Example:
        >>> import torch
        >>> with kept_memory():
        ...     float(torch.ones(1 << 20).sum())
        1048576.0
    """
    with _lock:
        _holders.append(None)
        _set(_KEEPING)
    try:
        yield
    finally:
        with _lock:
            _holders.pop()
            if not _holders:
                _set(_USUAL)
                with contextlib.suppress(AttributeError):
                    ctypes.CDLL(None).malloc_trim(0)


def _set(parameters: dict[int, int]) -> None:
    with contextlib.suppress(AttributeError):
        for parameter, value in parameters.items():
            ctypes.CDLL(None).mallopt(parameter, value)
