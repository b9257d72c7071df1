"""Assemble a self-contained C++ kernel file: headers, constants, the staged-output header, the family's text."""

from collections.abc import Mapping
from pathlib import Path

from .template import Rendered

_STAGED = Path(__file__).with_name("staged.h")
_STREAM_MIB = 12
"""Outputs above this many MiB are written with non-temporal stores."""


def assemble(file: Path, symbol: str, constants: Mapping[str, object]) -> Rendered:
    """Return the kernel file made of a family's text, prefixed with its constants.

    Args:
        file: The text, such as `pool/template.cpp`.
        symbol: The entry that the file defines with `KW_KERNEL`.
        constants: Macros by name; booleans become 1 and 0.

    Example:
        >>> text = Path(__file__).parents[1] / "scan" / "template.cpp"
        >>> assemble(text, "scan", {"AXIS": 1}).text.splitlines()[2]
        '#define AXIS 1'
    """
    values = dict(constants)
    values.setdefault("STREAM_MIB", _STREAM_MIB)
    lines = [f"#define {name} {_text(value)}\n" for name, value in values.items()]
    includes = ['#include "vector.h"\n', '#include "kernelwright.h"\n']  # the first may be precompiled
    text = "".join([*includes, *lines, _STAGED.read_text(), file.read_text()])
    return Rendered(text, symbol)


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
