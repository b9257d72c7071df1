"""Assemble a self-contained C++ kernel file: headers, constants, the staged-output header, the family's text."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from .._core import Rendered

_STREAM_MIB = 12
"""Outputs above this many MiB are written with non-temporal stores."""


def assemble(path: str, symbol: str, constants: Mapping[str, object]) -> Rendered:
    """Return the kernel file made of `kernels/<path>`, prefixed with its constants.

    Args:
        path: File of the family, such as `pool/pool.cpp`.
        symbol: The entry that the file defines with `KW_KERNEL`.
        constants: Macros by name; booleans become 1 and 0.

    Example:
        >>> assemble("scan/scan.cpp", "scan", {"AXIS": 1}).text.splitlines()[2]
        '#define AXIS 1'
    """
    values = dict(constants)
    values.setdefault("STREAM_MIB", _STREAM_MIB)
    lines = [f"#define {name} {_text(value)}\n" for name, value in values.items()]
    includes = ['#include "kernelwright.h"\n', '#include "vector.h"\n']
    text = "".join([*includes, *lines, _read("_shared/staged.h"), _read(path)])
    return Rendered(text, symbol)


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


@cache
def _read(path: str) -> str:
    return (files("kernelwright.kernels") / path).read_text()
