"""The C++ files of a candidate, compiled apart: at the same time, and each only once for what it is made of.

A search changes one kernel of many, and only that kernel's file is compiled again. An object is named by its file, the
headers that it reaches, the command and the toolchain, and compiled in a folder that holds nothing else, so it depends
on nothing else.

Covers: files that begin with one precompiled header; concurrent builders; kill -9 (an object is there whole or not).
Does not cover: files that include each other (`are_apart` is false; the compiler is given all of them together).
"""

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ..records import Candidate, SourceFile, content_key
from ._cache import keep_newest
from ._process import Finished, run_tool

_OBJECT, _SAID = "unit.o", "said.txt"
_INCLUDE = re.compile(r'#\s*include\s*["<]([^">\n]+)[">]')
_UNTOLD = re.compile(r'#\s*include(_next)?\s*[^"<\s]|#\s*(embed|import)|__has_|\.inc|\?\?=|%:')
"""What may read a file that no include names: macros as names, tests for a file, assembly, other spellings."""
_KEPT = 2000
"""Objects kept, of some 100 kB each."""


@dataclass(frozen=True)
class Apart:
    """How the files of one candidate are compiled."""

    command: tuple[str, ...]
    """The compiler and its flags, for a shared library, without files."""
    toolchain: str
    """What objects depend on in addition."""
    home: Path
    """Folder of the objects."""
    headers: tuple[SourceFile, ...]
    """What the files may include."""
    precompiled: tuple[str, Path] | None
    """Name of a header and its precompiled form."""
    deadline: float
    """When all must have ended, as `time.monotonic` counts."""

    def object_of(self, file: SourceFile) -> tuple[Path, Finished]:
        """Return the object of a file, compiled if it is not there, and how that ended."""
        parts = [(f.path, f.text) for f in reached(file, self.headers)]
        key = content_key(self.toolchain, *self.command, *(text for part in parts for text in part))
        made = self.home / key / _OBJECT
        if not made.is_file():
            done = self._compile(file, made.parent)
            if done.returncode != 0 or done.timed_out:
                return made, done
            if not made.is_file():
                return made, replace(done, returncode=1, output=f"{made} cannot be written\n{done.output}")
        with contextlib.suppress(OSError):
            os.utime(made.parent)
        return made, Finished(0, (made.parent / _SAID).read_text(), timed_out=False, time_s=0.0)

    def _compile(self, file: SourceFile, entry: Path) -> Finished:
        self.home.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".", dir=self.home))
        try:
            for each in reached(file, self.headers):
                path = scratch / each.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(each.text)
            readable = []
            if self.precompiled:
                name, form = self.precompiled
                (scratch / f"{name}.gch").symlink_to(form)
                readable = [form.parent]
            left_s = self.deadline - time.monotonic()
            if left_s <= 0:
                return Finished(-9, "", timed_out=True, time_s=0.0)
            words = [*(word for word in self.command if word != "-shared"), "-c", file.path, "-o", _OBJECT]
            done = run_tool(words, deadline_s=left_s, folder=scratch, closed=True, readable=readable)
            if done.returncode == 0 and not done.timed_out:
                (scratch / _SAID).write_text(done.output)
                with contextlib.suppress(OSError):  # another builder was first
                    scratch.rename(entry)
            return done
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def reached(file: SourceFile, headers: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """Return a file and the headers that it includes, directly or not; all where the text does not tell.

    Example:
        >>> texts = {"a.h": '#include "b.h"', "b.h": "", "c.h": ""}
        >>> headers = [SourceFile(path=name, text=text) for name, text in texts.items()]
        >>> [f.path for f in reached(SourceFile(path="k.cpp", text='#include "a.h"'), headers)]
        ['k.cpp', 'a.h', 'b.h']
        >>> len(reached(SourceFile(path="k.cpp", text="#include NAME"), headers))
        4
    """
    found = [file]
    for each in found:  # grows while it is walked
        if _UNTOLD.search(each.text):
            return (file, *headers)
        names = {Path(name).name for name in _INCLUDE.findall(each.text)}
        found += [h for h in headers if Path(h.path).name in names and h not in found]
    return (file, *(h for h in headers if h in found))


def are_apart(candidate: Candidate, units: Sequence[str]) -> bool:
    """Tell whether a candidate has several files to compile and none includes another.

    Example:
        >>> files = (SourceFile(path="a.cpp", text='#include "b.cpp"'), SourceFile(path="b.cpp", text=""))
        >>> are_apart(Candidate(sources=files, language="cpp", entry="a.cpp:a"), ["a.cpp", "b.cpp"])
        False
    """
    names = "|".join(re.escape(Path(unit).name) for unit in units)
    included = re.compile(rf'^\s*#\s*include\b.*({names})[">]', re.MULTILINE)
    return len(units) > 1 and not any(included.search(file.text) for file in candidate.sources)


def link(
    files: Sequence[SourceFile], how: Apart, folder: Path, library: str, linked: Sequence[str]
) -> Finished:
    """Compile files where that was not done and link them into `folder / library`.

    Returns:
        How linking ended, with what was said about the files; where a file failed, how its compiler ended.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(how.object_of, files))
    failed = next((done for _, done in results if done.returncode != 0 or done.timed_out), None)
    left_s = how.deadline - time.monotonic()
    if failed or left_s <= 0:
        return failed or Finished(-9, "", timed_out=True, time_s=0.0)
    command = [*how.command, *(str(made) for made, _ in results), "-o", library, *linked]
    done = run_tool(command, deadline_s=left_s, folder=folder, closed=True, readable=[how.home])
    keep_newest(how.home, _KEPT)
    return replace(done, output="".join(each.output for _, each in results) + done.output)
