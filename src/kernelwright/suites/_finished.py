"""A finished kernel → the bytes of its files, or why they are not read.

Covers: folders and links to nothing that are named like kernels; files too large for one; operators of several files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ._protocol import InFolders, Suite

MOST_BYTES = 8 << 20
"""Of a kernel's files together: more is data, which takes minutes to be parsed as a program."""


@dataclass(frozen=True)
class Finished:
    """A finished kernel as it lies on disk."""

    file: Path
    """The file that is named like its problem."""
    files: Mapping[str, bytes]
    """Everything that it consists of, by path within its folder; the file itself first."""
    fault: str = ""
    """Why it cannot be read; empty if it was."""

    @property
    def parts(self) -> tuple[str | bytes, ...]:
        """What tells it from other kernels, for the key of its row."""
        if self.fault:
            return (self.fault,)
        first, *others = self.files.items()
        return (first[1], *(part for other in others for part in other))


def finished(suite: Suite, file: Path) -> Finished:
    """Read a kernel's files."""
    paths = suite.files(file) if isinstance(suite, InFolders) else {file.name: file}
    try:
        if lacking := next((path for path in paths.values() if not path.is_file()), None):
            return Finished(file, {}, f"{str(lacking)!r} is no file, but named like a kernel's")
        size = sum(path.stat().st_size for path in paths.values())
        if size > MOST_BYTES:
            limit = f"a kernel has {MOST_BYTES >> 20} MiB at most"
            return Finished(file, {}, f"{str(file)!r} has {size / (1 << 20):.0f} MiB; {limit}")
        return Finished(file, {name: path.read_bytes() for name, path in paths.items()})
    except OSError as error:
        return Finished(file, {}, f"{str(file)!r} cannot be read: {error.strerror}")


def laid_out(texts: Mapping[str, str], folder: Path) -> Path:
    """Write a kernel's files into a folder, and return the first."""
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder / next(iter(texts))
