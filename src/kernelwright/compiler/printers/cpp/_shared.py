"""What kernels share, in files of their own: it depends on no program, so a machine compiles it once."""

import re
from collections.abc import Iterable, Sequence

from ...tile import Contraction, Kernel, Program, Step, products
from ._contraction import register_tiles, shared_tiles
from ._convolution import convolving

_HEADERS = {
    "RegisterTiles": ("register_tiles.h",), "Convolving": ("pixels.h", "blocks.h", "convolution.h"),
}  # fmt: skip
"""Class template → the headers that define it, after those that all have."""
_ALL = ("tiles.h", "micro_kernel.h", "contraction.h")
_TELLING = re.compile(r"\d+|\b[a-z]\w*\b(?!::)")
"""What tells one instance of a class from another: numbers and types of elements."""


def shared_by(steps: Iterable[Step], program: Program) -> list[list[str]]:
    """Return the instances of class templates that some kernels call, those of one file together."""
    steps = list(steps)
    named = {tuple(_of_product(step, program)) for step in products(steps)}
    if any(isinstance(step, Kernel) and step.gradients for step in steps):
        named.add(tuple(shared_tiles("float")))
    return [list(types) for types in sorted(named) if types]


def _of_product(step: Contraction, program: Program) -> list[str]:
    return convolving(step) if step.tiling.form == "convolve" else register_tiles(step, program)


def declarations(shared: Sequence[Sequence[str]]) -> list[str]:
    """Print what the file of a kernel says of instances that others compile."""
    lines = [f"extern template struct {each};" for types in shared for each in types]
    return [*lines, ""] if lines else []


def files_of(shared: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Print the files that compile instances, by their names."""
    return dict(map(_file, shared))


def _file(types: Sequence[str]) -> tuple[str, list[str]]:
    kind = types[0].removeprefix("kw::").partition("<")[0]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower(), *_TELLING.findall(types[0])
    includes = [f'#include "{name}"' for name in (*_ALL, *_HEADERS[kind])]
    opening = ["// Compiled once for all kernels that share it.", *includes, ""]
    return f"{'_'.join(words)}.cpp", [*opening, *(f"template struct {each};" for each in types)]
