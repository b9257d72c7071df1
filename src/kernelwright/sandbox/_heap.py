"""What a stopped process keeps on its heap, found from pointers, as a conservative garbage collector finds it.

Source: Boehm and Weiser, Garbage Collection in an Uncooperative Environment (1988); the form of a block is glibc's.

Covers: blocks of glibc's allocator, and pages mapped without a file, that are reached from given bytes over pointers.
Does not cover: pointers that are stored disguised; blocks of other allocators, but for the page they begin in.
"""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ._memory import read_memory

_MOST_BLOCKS, _MOST_BYTES = 4096, 64 << 20
_WORD, _HEADER, _LEAST = 8, 8, 32
_IN_USE, _MAPPED, _FLAGS = 1, 2, 7
_PAGE = 4096
_LOADED = 1
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ (\d+)\s*(.*)")
_Words = npt.NDArray[np.uint64]


def reached_blocks(pid: int, roots: Iterable[bytes]) -> dict[int, bytes]:
    """Read the blocks that pointers in `roots` lead to, and those that pointers in these lead to.

    Args:
        pid: A process that stands still and may be read.
        roots: Memory of the process, from an address that is a multiple of 8.

    Returns:
        Address → content; nothing where the process may not be read. Reading ends after 64 MiB.
    """
    spans = _anonymous(pid)
    blocks: dict[int, bytes] = {}
    waiting = [address for root in roots for address in _pointers(root, spans)]
    size = 0
    while waiting and len(blocks) < _MOST_BLOCKS and size < _MOST_BYTES:
        address = waiting.pop()
        if address in blocks:
            continue
        content = _block(pid, address, spans)
        if content is not None:
            blocks[address] = content
            size += len(content)
            waiting.extend(_pointers(content, spans))
    return blocks


def _anonymous(pid: int) -> _Words:
    """Return the process's private writable memory of no file, in order: start, end, whether it is a library's data."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        lines = []
    found: list[tuple[int, int, bool]] = []
    end_of_file, offset, path = -1, 0, ""
    for fields in filter(None, map(_MAPPING.match, lines)):
        start, end, name = int(fields[1], 16), int(fields[2], 16), fields[6]
        if int(fields[5]):
            end_of_file, offset, path = end, int(fields[4], 16) + end - start, name
        elif fields[3] == "rw-p" and not name.startswith(("[stack", "[v")):
            zeroed = _zeroed_bytes(Path(f"/proc/{pid}/root{path}"), offset) if start == end_of_file else 0
            middle = end if zeroed is None else min(end, start + zeroed)
            parts = [(start, middle, True), (middle, end, False)]
            for first, last, of_library in (part for part in parts if part[0] < part[1]):
                # Advice such as madvise splits a mapping, and a block may lie on both sides.
                joined = bool(found) and found[-1][1:] == (first, of_library)
                found.append((found.pop()[0] if joined else first, last, of_library))
    return np.array(found, dtype=np.uint64).reshape(-1, 3)


def _zeroed_bytes(path: Path, offset: int) -> int | None:
    """Return how much memory without a file a library has behind its mapping that ends at an offset of its file.

    What lies behind that came there by chance. None where the file does not say.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01":
                return 0
            (table,) = struct.unpack_from("<Q", head, 32)
            size, count = struct.unpack_from("<HH", head, 54)
            file.seek(table)
            raw = file.read(size * count)
        segments = [struct.unpack_from("<IIQQQQQQ", raw, n * size) for n in range(count)]
    except (OSError, struct.error):
        return None
    for kind, _, start, address, _, in_file, in_memory, _ in segments:
        if kind == _LOADED and _pages(start + in_file) == offset:
            return _pages(address + in_memory) - _pages(address + in_file)
    return None


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE) * _PAGE


def _pointers(content: bytes, spans: _Words) -> list[int]:
    words = np.unique(np.frombuffer(content, dtype=np.uint64, count=len(content) // _WORD))
    if not len(spans) or not len(words):
        return []
    place = np.searchsorted(spans[:, 0], words, side="right")
    inside = (place > 0) & (words < spans[np.maximum(place, 1) - 1, 1]) & (words % (2 * _WORD) == 0)
    return [int(word) for word in words[inside]]


def _block(pid: int, address: int, spans: _Words) -> bytes | None:
    """Read the allocated block at an address; none where there is none."""
    _, end, of_library = map(int, spans[np.searchsorted(spans[:, 0], np.uint64(address), side="right") - 1])
    head = _word(pid, address - _HEADER) or 0
    size = head & ~_FLAGS
    if head & _MAPPED and size and not size % _PAGE and address % _PAGE == 2 * _HEADER:
        return _read(pid, address, min(address - 2 * _HEADER + size, end, address + _MOST_BYTES) - address)
    if of_library:
        return None
    if size < _LEAST:
        return _read(pid, address, min(_PAGE, end - address)) if address % _PAGE == 0 else None
    follower = address - 2 * _HEADER + size
    after = _word(pid, follower + _HEADER) if follower + 2 * _HEADER <= end else None
    if after is None or not after & _IN_USE:
        return None
    return _read(pid, address, min(size - _HEADER, _MOST_BYTES))


def _word(pid: int, address: int) -> int | None:
    content = _read(pid, address, _WORD)
    return None if content is None else int.from_bytes(content, "little")


def _read(pid: int, address: int, size_bytes: int) -> bytes | None:
    copy = read_memory(pid, address, size_bytes) if size_bytes > 0 else None
    return None if copy is None else copy.numpy().tobytes()
