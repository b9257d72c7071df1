"""The headers that a kernel's source includes from its own folder, transitively."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import TaskError
from ..records import SourceFile
from .forms._source import read_text

_DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(include[ \t]*"([^"]+)"|if\w*|endif\b|define\b)', re.MULTILINE)
_GUARD = re.compile(
    r"^\s*(?:/\*.*?\*/\s*|//[^\n]*\n\s*)*#[ \t]*ifndef[ \t]+(\w+)\s+#[ \t]*define[ \t]+\1\b", re.DOTALL
)
_ELSEWHERE = (
    "kernelwright.h",
    "kernel_operator.h",
    "tvm/",
    "dlpack/",
    "torch/",
    "ATen/",
    "c10/",
    "cu",
    "mma",
    "nv",
    "hip/",
    "device_",
)
"""Prefixes of headers that compilers and libraries provide."""
_SYSTEM = ("/usr/include", "/usr/local/include", "/usr/lib/gcc/*/*/include", "/usr/include/*-linux-gnu")


def headers_of(file: Path, text: str) -> tuple[SourceFile, ...]:
    """Read the headers that a source includes in quotes, and those that they include, from its folder.

    Covers: `#include "name.h"` next to the including file or below the source's folder.
    Does not cover: names made by macros; what is missing under an `#if`, which may never be compiled.

    Raises:
        TaskError: a header is missing, or is outside the source's folder.
    """
    root = file.parent.resolve()
    found: dict[Path, SourceFile] = {}
    waiting = [(file.resolve(), text)]
    while waiting:
        origin, content = waiting.pop()
        for name, needed in _included(content):
            place = _placed(name, origin.parent, root)
            if place is None:
                if needed and not _elsewhere(name):
                    raise TaskError(
                        f'{origin} includes "{name}", which is not in {root}; put the header there'
                    )
                continue
            if not place.is_relative_to(root):
                raise TaskError(
                    f'{origin} includes "{name}", which lies outside {root}; put the header there'
                )
            if place not in found and place != file.resolve():
                source = SourceFile(
                    path=place.relative_to(root).as_posix(), text=read_text(place, "header", "a header")
                )
                found[place] = source
                waiting.append((place, source.text))
    return tuple(found[place] for place in sorted(found))


def _included(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each name included in quotes, and whether only the file's include guard surrounds it."""
    depth = -1 if _GUARD.match(text) else 0
    for match in _DIRECTIVE.finditer(text):
        if match[2]:
            yield match[2], depth <= 0
        elif match[1].startswith("if"):
            depth += 1
        elif match[1] == "endif":
            depth -= 1


def _placed(name: str, folder: Path, root: Path) -> Path | None:
    places = ((base / name).resolve() for base in (folder, root))
    return next((place for place in places if place.is_file()), None)


def _elsewhere(name: str) -> bool:
    """Whether a header is one that compilers and libraries provide."""
    return name.startswith(_ELSEWHERE) or any(
        (folder / name).is_file() for pattern in _SYSTEM for folder in Path("/").glob(pattern[1:])
    )
