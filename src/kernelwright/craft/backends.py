"""Name → Backend: `tessera`, `made-SEED` (a set made up from a seed) or `riscv`."""

from ._description import find_description
from .backend import Backend
from .riscv import RiscV
from .tile import TileBackend


def find_backend(name: str) -> Backend:
    """Return a backend by name: `tessera`, `made-SEED`, `riscv`.

    Raises:
        InputError: there is none of that name.

    Example:
        >>> find_backend("made-7").unit
        'cycles'
    """
    return RiscV() if name == "riscv" else TileBackend(find_description(name))
