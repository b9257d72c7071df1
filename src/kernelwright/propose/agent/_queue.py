"""An agent's requests for judgements: files in two folders, which work in any sandbox of the agent.

Covers: links, devices, pipes and huge files instead of a request; folders that are replaced while it runs.
Does not cover: an agent that fills the disk.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

ASKED, ANSWERED = ".judge/asked", ".judge/answered"
_MOST_BYTES = 4 << 20
_MOST_FILES = 16


class Queue:
    """The two folders, opened before the agent starts, so that replacing them at their paths has no effect."""

    def __init__(self, workspace: Path) -> None:
        for folder in (ASKED, ANSWERED):
            (workspace / folder).mkdir(parents=True)
        self._asked, self._answered = (
            os.open(workspace / f, os.O_RDONLY | os.O_DIRECTORY) for f in (ASKED, ANSWERED)
        )

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._asked)
        os.close(self._answered)

    def requests(self) -> Iterator[tuple[str, dict[str, str] | None]]:
        """Yield and remove every request: its name and the files to judge, or None if it is not a valid request.

        A request still being written has a name that starts with a dot.
        """
        for name in sorted(os.listdir(self._asked)):  # noqa: PTH208
            if name.endswith(".json") and not name.startswith("."):
                files = self._read(name)
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._asked)
                yield name, files

    def answer(self, name: str, text: str) -> None:
        """Write the answer to a request atomically; does nothing if the agent obstructs it."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(f".{name}", flags, 0o644, dir_fd=self._answered), "w") as file:
                file.write(text)
            os.rename(f".{name}", name, src_dir_fd=self._answered, dst_dir_fd=self._answered)

    def _read(self, name: str) -> dict[str, str] | None:
        try:
            return _files(json.loads(read_plain(name, self._asked)))
        except (OSError, ValueError):
            return None


def read_plain(name: str, folder: int) -> str:
    """Read a plain text file, not a link and not too large, from an open folder.

    Raises:
        OSError: it is not a plain file.
        ValueError: it is too large, or not text.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
            raise ValueError(f"{name} is no plain file of at most {_MOST_BYTES} bytes")
        return file.read(_MOST_BYTES).decode()


def _files(value: object) -> dict[str, str] | None:
    if not isinstance(value, dict) or not 0 < len(value) <= _MOST_FILES:
        return None
    named = all(isinstance(n, str) and Path(n).name == n and not n.startswith(".") for n in value)
    return value if named and all(isinstance(text, str) for text in value.values()) else None
