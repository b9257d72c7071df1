"""A compile cache whose writers may be killed: libraries that were not written to their end.

Covers: shared libraries of 64-bit Linux that are shorter than they say themselves.
Does not cover: other files; torch.compile writes its code first elsewhere, and then moves it.
"""

import contextlib
import os
import struct
import time
from pathlib import Path

_HEADER = struct.Struct("<4s36xQ10xHH2x")
"""Of an ELF file: its magic number, and where its section headers are, how long each is and how many.

Source: System V ABI, chapter 4, "ELF Header".
"""
_MAGIC = b"\x7fELF"
_STILL_S = 10.0
"""Seconds after which nobody writes on: a linker takes less."""


def remove_incomplete(folder: Path, now_s: float | None = None) -> list[str]:
    """Remove libraries whose writer was killed, and return their names; what is still being written stays.

    They would be loaded for ever after in place of being compiled again, and that fails.

    Args:
        folder: The cache, with all that is below.
        now_s: Seconds since the epoch; by default now.

    Example:
        >>> remove_incomplete(Path("no such folder"))
        []
    """
    now_s, removed = time.time() if now_s is None else now_s, []
    found = (
        Path(below, name) for below, _, names in os.walk(folder) for name in names if name.endswith(".so")
    )
    for path in found:  # a folder that another process removes meanwhile is passed over
        with contextlib.suppress(OSError):
            if now_s - path.stat().st_mtime > _STILL_S and not is_complete(path):
                path.unlink()
                removed.append(path.name)
    return sorted(removed)


def is_complete(path: Path) -> bool:
    """Tell whether a shared library is as long as its header says.

    Example:
        >>> is_complete(Path(__file__))
        False
    """
    with path.open("rb") as file:
        read = file.read(_HEADER.size)
    if len(read) < _HEADER.size:
        return False
    magic, start, each, count = _HEADER.unpack(read)
    return bool(magic == _MAGIC and path.stat().st_size >= start + each * count)
