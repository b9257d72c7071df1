"""A compiled library's imported symbols, and instructions that read a clock or make system calls.

Covers: 64-bit little-endian ELF; instructions if objdump is installed.
Does not cover: symbols and instructions of the libraries that it is linked with; code generated at run time, or
hidden from a linear disassembly.
"""

import re
import shutil
import struct
from pathlib import Path

from ._process import run_tool

_DEADLINE_S = 20.0
_LIMIT = 32_000_000
_DYNAMIC_SYMBOLS = 11
_LOADED, _WRITABLE = 1, 2
_DYNAMIC, _LINKAGE_TABLE = 2, 3
_OUTSIDE = re.compile(
    r"\t(rdtscp?|rdpmc|rdpru|rdrand|rdseed|rdpid|syscall|sysenter|svc|(?:rd|wr)[fg]sbase|(?:rd|wr)pkru)\b"
    r"|\tint\s+\$0x80|\tmrs\s.*(cntvct_el0|cntpct_el0|rndr)|\tmsr\s+tpidr"
)
"""x86-64 and AArch64: time stamps and counters, random numbers, the processor's number, system calls, and registers
that outlive a call; AArch64 reads `tpidr` for every `thread_local`, so that only writing it counts."""


def imported_names(library: Path) -> frozenset[str]:
    """Return the names of the symbols that a library imports, without versions.

    Raises:
        ValueError: the file is not a 64-bit ELF library.

    Example:
        >>> import math
        >>> "strlen" in imported_names(Path(math.__file__)) if hasattr(math, "__file__") else False
        False
    """
    raw = _elf(library)
    (table,) = struct.unpack_from("<Q", raw, 40)
    size, count = struct.unpack_from("<HH", raw, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", raw, table + n * size) for n in range(count)]
    names: set[str] = set()
    for _, kind, _, _, offset, length, link, _, _, entry in headers:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        strings = headers[link][4]
        for place in range(offset, offset + length, entry):
            name, _, _, section = struct.unpack_from("<IBBH", raw, place)
            if name and not section:
                start = strings + name
                names.add(raw[start : raw.index(b"\0", start)].decode(errors="replace"))
    return frozenset(names)


def writable_spans(library: Path) -> tuple[tuple[int, int], ...]:
    """Return a loaded library's writable segments: offset from its base, bytes; zero-initialised data included.

    The two words that the dynamic linker keeps in each library, one of which leads to all others, are left out.

    Raises:
        ValueError: the file is not a 64-bit ELF library.
    """
    raw = _elf(library)
    (table,) = struct.unpack_from("<Q", raw, 32)
    size, count = struct.unpack_from("<HH", raw, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", raw, table + n * size) for n in range(count)]
    spans = [(h[3], h[3] + h[6]) for h in headers if h[0] == _LOADED and h[1] & _WRITABLE]
    for _, _, offset, _, _, length, _, _ in (h for h in headers if h[0] == _DYNAMIC):
        entries = (struct.unpack_from("<QQ", raw, place) for place in range(offset, offset + length, 16))
        for first in (value + 8 for tag, value in entries if tag == _LINKAGE_TABLE):
            spans = [
                part
                for start, end in spans
                for part in ((start, min(end, first)), (max(start, first + 16), end))
            ]
    return tuple((start, end - start) for start, end in spans if start < end)


def outside_instructions(library: Path) -> frozenset[str] | None:
    """Return the instructions of a library that read a clock, random numbers or the processor id, or make system calls.

    Returns:
        None if objdump is not installed or cannot read the file.
    """
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    command = [objdump, "-d", "--no-show-raw-insn", str(library)]
    done = run_tool(command, deadline_s=_DEADLINE_S, limit=_LIMIT)
    if done.returncode != 0:
        return None
    return frozenset(found[0].split()[0] for found in _OUTSIDE.finditer(done.output))


def _elf(library: Path) -> bytes:
    raw = library.read_bytes()
    if raw[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{library.name!r} is no 64-bit little-endian ELF library")
    return raw
