"""Files that compile tiles of packed weights: what they hold depends on no program, so a machine compiles it once."""

import re
from collections.abc import Iterable, Sequence

from ...tile import Kernel, Program, Step, products
from ._contraction import register_tiles, shared_tiles

_HEADERS = ("tiles.h", "micro_kernel.h", "contraction.h", "register_tiles.h")
_TELLING = re.compile(r"\d+|\b[a-z]\w*\b(?!::)")
"""What tells one name of tiles from another: numbers and types of elements."""


def tiles_of(steps: Iterable[Step], program: Program) -> list[list[str]]:
    """Return the instances of `kw::RegisterTiles` that some kernels call, those of one product together."""
    steps = list(steps)
    named = {tuple(register_tiles(step, program)) for step in products(steps)}
    if any(isinstance(step, Kernel) and step.gradients for step in steps):
        named.add(tuple(shared_tiles("float")))
    return [list(types) for types in sorted(named) if types]


def declarations(tiles: Sequence[Sequence[str]]) -> list[str]:
    """Print what the file of a kernel says of tiles that others compile."""
    lines = [f"extern template struct {each};" for types in tiles for each in types]
    return [*lines, ""] if lines else []


def files_of(tiles: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Print the files that compile tiles, by their names."""
    includes = [f'#include "{name}"' for name in _HEADERS]
    opening = ["// Compiled once for all kernels that are tiled so.", *includes, ""]
    return {
        f"register_tiles_{'_'.join(_TELLING.findall(types[0]))}.cpp": [
            *opening, *(f"template struct {each};" for each in types),
        ]
        for types in tiles
    }  # fmt: skip
