"""What the emulator left in its folder → lines of a program: where it stopped, how often each ran, what it touched.

Covers: the program's own instructions, and the tensors that it was lent.
Does not cover: instructions of `expf`, which are counted but belong to no line.
"""

import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROW = re.compile(r"^\S+\s+(\d+)\s+0x([0-9a-f]+)", re.MULTILINE)
_NEAR = 1 << 12
_SHOWN = 8


def line_table(text: str) -> dict[int, int]:
    """Read the lines of instructions by their addresses from what readelf lists.

    Example:
        >>> line_table("kernel.s   3   0x1086e  x\\nkernel.s   4   0x10870  1  x\\nkernel.s   -   0x10872")
        {67694: 3, 67696: 4}
    """
    return {int(address, 16): int(line) for line, address in _ROW.findall(text)}


class Places:
    """The addresses of one run, by name."""

    def __init__(
        self, folder: Path, at: Mapping[int, int], text: str, lent: Sequence[tuple[str, int]]
    ) -> None:
        self._folder, self._at, self._lent = folder, at, lent
        self._source = text.splitlines()
        data = self._read("places")
        self._starts = struct.unpack(f"<{len(data) // 8}q", data)

    def fault(self) -> tuple[str, str]:
        """Return how to begin a sentence on where the program was stopped, and how to end it."""
        data = self._read("fault")
        if len(data) != 24:
            return "", ""
        signal, place, address = struct.unpack("<3q", data)
        line = self._at.get(place)
        return f"line {line}: " if line else "", f", at {self._named(address)}" if signal in {7, 11} else ""

    def lines(self) -> dict[int, dict[str, int]]:
        """Return how often the instructions of each line ran."""
        found: Counter[int] = Counter()
        for row in self._read("lines").decode().splitlines():
            address, times = row.split()
            found[self._at.get(int(address, 16), 0)] += int(times)
        return {line: {"executed": times} for line, times in sorted(found.items()) if line}

    def steps(self) -> tuple[dict[str, str | int], ...]:
        """Return the steps that were kept: number, line, text, and the memory that was touched."""
        found: list[dict[str, str | int]] = []
        for row in self._read("steps").decode().splitlines():
            if not row:
                continue
            number, address, *touched = row.split()
            line = self._at.get(int(address, 16), 0)
            text = " ".join(self._source[line - 1].split()) if line else ""
            names = [self._named(int(word, 16)) for word in touched[:_SHOWN]]
            more = f" and {len(touched) - _SHOWN} more" if len(touched) > _SHOWN else ""
            found.append(
                {"step": int(number), "line": line, "text": text, "touched": ", ".join(names) + more}
            )
        return tuple(found)

    def _named(self, address: int) -> str:
        """Say where an address is: in a tensor, next to one, or nowhere."""
        for (name, size), start in zip(self._lent, self._starts, strict=False):
            if start <= address < start + size:
                return f"word {(address - start) // 4} of {name}"
        for (name, size), start in zip(self._lent, self._starts, strict=False):
            if not size:
                continue
            if 0 <= address - start - size < _NEAR:
                return f"{address - start - size} bytes past the end of {name}"
            if 0 < start - address <= _NEAR:
                return f"{start - address} bytes before {name}"
        return f"address {address % (1 << 64):#x}"

    def _read(self, name: str) -> bytes:
        path = self._folder / name
        return path.read_bytes() if path.is_file() else b""
