"""The project's headers that a source includes: a candidate brings them along, so that it is self-contained."""

import re
from collections.abc import Sequence
from pathlib import Path

from ...records import SourceFile
from ..cpp import INCLUDE

_FOLDERS = (Path(__file__).parent, INCLUDE)
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([\w.-]+)"', re.MULTILINE)
"""A header next to the source: no folder in its name, which a model may have written."""


def headers_of(text: str, folders: Sequence[Path] = ()) -> tuple[SourceFile, ...]:
    """Return the headers that a text includes, directly or through another: those of these folders, and ours.

    Example:
        >>> [header.path for header in headers_of('#include "vector.h"')]
        ['kernelwright.h', 'traffic.h', 'vector.h']
    """
    found: dict[str, str] = {}
    waiting = [text]
    while waiting:
        for name in _INCLUDED.findall(waiting.pop()):
            place = next((f / name for f in (*folders, *_FOLDERS) if (f / name).is_file()), None)
            if name not in found and place is not None:
                found[name] = place.read_text()
                waiting.append(found[name])
    return tuple(SourceFile(path=name, text=found[name]) for name in sorted(found))
