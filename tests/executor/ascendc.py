"""Build a file of Ascend C kernels, and find the line at which one of them went wrong."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.config import Settings
from kernelwright.languages._destination import load_entry
from kernelwright.languages.ascendc import AscendC
from kernelwright.languages.cpp import LIBRARY
from kernelwright.records import BuildStatus, Candidate, SourceFile


def kernels(text: str, entry: str, folder: Path) -> Callable[[str], Any]:
    """Build the file, with its cache in the folder, and return what finds a kernel by its name."""
    language = AscendC(Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder)}))
    source = SourceFile(path="k.cpp", text=text)
    made = Candidate(
        sources=(source,), language="ascendc", entry=f"k.cpp:{entry}", style="destination", flags=("-O1",)
    )
    build = language.build(made)
    assert build.status is BuildStatus.OK and build.artefact, build.diagnostics
    library = Path(build.artefact) / LIBRARY
    return lambda name: load_entry(library, name)


def kind_at_mark(text: str, name: str, error: pytest.ExceptionInfo[RuntimeError]) -> str:
    """Return the kind of a fault, which must be at a line that is marked with `@name`."""
    found = re.match(r"([\w-]+) at k\.cpp:(\d+): ", str(error.value))
    assert found, error.value
    marked = [n for n, line in enumerate(text.splitlines(), 1) if re.search(rf"@{name}\b", line)]
    assert int(found[2]) in marked, error.value
    return found[1]
