"""Precompiled headers for headers that many kernels begin with: parsing intrinsics takes longer than a small kernel.

A header requests it with a line that begins with `// precompile`. Its precompiled form is in the cache, named by what
goes into it, and is linked next to the header while a kernel is compiled, where GCC looks first. The same library
results.

Covers: headers among the candidate's own files, with those that they include.
Does not cover: clang; sources that begin with something else; candidates with include paths of their own (`-I`).
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..records import Candidate, SourceFile, content_key
from ._cache import keep_newest
from ._process import run_tool

PRECOMPILED = "header.gch"
"""Name of a precompiled form within its folder."""
_ASKS = re.compile(r"^// precompile\b", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
_FIRST = re.compile(r'(?:\s|//[^\n]*\n)*#\s*include\s*"([^"]+)"')
"""An include preceded by line comments only: GCC uses no precompiled header elsewhere."""
_KEPT = 6
"""Precompiled headers kept, some 50 MB each: printed kernels, row programs and templates begin with three."""


def shared_header(candidate: Candidate, suffixes: tuple[str, ...]) -> tuple[SourceFile, ...]:
    """Return the header that all sources begin with, and what it includes; empty if none asks to be precompiled.

    Example:
        >>> header = SourceFile(path="h.h", text="// precompile\\n")
        >>> files = (SourceFile(path="k.cpp", text='#include "h.h"\\n'), header)
        >>> [f.path for f in shared_header(Candidate(sources=files, language="cpp", entry="k.cpp:k"), (".cpp",))]
        ['h.h']
    """
    files = {file.path: file for file in candidate.sources}
    begun = [_FIRST.match(file.text) for path, file in files.items() if path.endswith(suffixes)]
    names = {found.group(1) if found else "" for found in begun}
    name = names.pop() if len(names) == 1 else ""
    own_folders = any(flag.startswith("-I") for flag in candidate.flags)
    if own_folders or name not in files or f"{name}.gch" in files or not _ASKS.search(files[name].text):
        return ()
    reached = [name]
    for path in reached:  # grows while it is walked
        reached += [n for n in _INCLUDE.findall(files[path].text) if n in files and n not in reached]
    return tuple(files[path] for path in reached)


@contextmanager
def precompiled(
    headers: Sequence[SourceFile], compile_words: Sequence[str], toolchain: str, cache: Path, folder: Path,
    *, deadline_s: float,
) -> Iterator[tuple[Path, ...]]:  # fmt: skip
    """Link the precompiled form of the first header into `folder`; yield what the compiler must be able to read for it.

    Args:
        headers: The header and what it includes; nothing is done if empty.
        compile_words: The compiler command, without sources and output.
        toolchain: What the form depends on, in addition to the command and the headers' text.
        cache: Folder of caches.
        folder: Where the kernel's sources are.
        deadline_s: Time limit in seconds for compiling the header.
    """
    made = (
        _made(headers, compile_words, toolchain, cache / "builds" / "headers", deadline_s)
        if headers
        else None
    )
    if made is None:
        yield ()
        return
    link = folder / f"{headers[0].path}.gch"
    link.symlink_to(made)
    try:
        yield (made.parent,)
    finally:
        link.unlink()


def _made(
    headers: Sequence[SourceFile], words: Sequence[str], toolchain: str, home: Path, deadline_s: float
) -> Path | None:
    """Return the precompiled form, made if there is none yet; None if it does not compile alone."""
    texts = "".join(header.text for header in headers)
    words = [word for word in words if not _is_of_others(word, texts)]
    entry = home / content_key(toolchain, *words, *(text for h in headers for text in (h.path, h.text)))
    made = entry / PRECOMPILED
    if not entry.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".", dir=home))
        try:
            for header in headers:
                path = scratch / header.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(header.text)
            command = [*words, "-x", "c++-header", headers[0].path, "-o", made.name]
            if run_tool(command, deadline_s=deadline_s, folder=scratch, closed=True).timed_out:
                return None
            with contextlib.suppress(OSError):  # another builder was first
                scratch.rename(entry)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        keep_newest(home, _KEPT)
    with contextlib.suppress(OSError):
        os.utime(entry)
    return made if made.is_file() else None


def _is_of_others(word: str, texts: str) -> bool:
    """Tell whether a word defines a macro of ours that no header mentions: kernels of one file differ in these.

    Macros of other names stay, since headers of the system may ask for them.

    Example:
        >>> _is_of_others("-DKW_WITH_f=0,", "#ifdef KW_SOME"), _is_of_others("-DKW_SOME", "#ifdef KW_SOME")
        (True, False)
    """
    name = word.removeprefix("-D").partition("=")[0]
    return word.startswith("-DKW_") and not re.search(rf"\b{re.escape(name)}\b", texts)
