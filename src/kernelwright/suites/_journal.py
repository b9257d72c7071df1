"""Rows on disk: each written before the next is begun, and what is under way named."""

import json
import os
from contextlib import suppress
from pathlib import Path

from ._records import Row


class Journal:
    """A file of rows, a line of JSON each; without a file nothing is kept.

    Covers: a process that is killed at any moment: a line it left unfinished is closed before the next.
    Does not cover: two processes that write to one file at once.
    """

    def __init__(self, to: Path | None = None) -> None:
        self.file = to
        self.rows: dict[str, Row] = {}
        """Rows by key, as far as this version reads them."""
        self.begun: dict[str, str] = {}
        """The run that a key began, if its row was not reached."""
        for line in to.read_text(errors="replace").splitlines() if to is not None and to.is_file() else ():
            with suppress(ValueError, KeyError, TypeError):
                kept = json.loads(line)
                if "run" in kept:
                    self.begun[kept["key"]] = str(kept["run"])
                else:
                    self.rows[kept["key"]] = Row.model_validate(kept["row"])

    def begin(self, key: str, run: str) -> None:
        """Note that a search began, so that it can be continued."""
        if self.begun.get(key) != run:
            self.begun[key] = run
            self._write({"key": key, "run": run})

    def keep(self, key: str, row: Row) -> None:
        """Write a row."""
        self.rows[key] = row
        self._write({"key": key, "row": row.model_dump(mode="json")})

    def _write(self, line: dict[str, object]) -> None:
        if self.file is None:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab+") as out:
            size = out.seek(0, os.SEEK_END)
            out.seek(max(0, size - 1))
            broken = size > 0 and out.read(1) != b"\n"
            out.write(("\n" if broken else "").encode() + json.dumps(line).encode() + b"\n")
            out.flush()
            os.fsync(out.fileno())


def read_rows(file: Path) -> tuple[Row, ...]:
    """Return the rows of a file in the order written; of a kernel, or a search, that has several, the last.

    Example:
        >>> read_rows(Path("nosuch.jsonl"))
        ()
    """
    latest = {(r.suite, r.problem, "" if r.searched else r.candidate): r for r in Journal(file).rows.values()}
    return tuple(latest.values())
