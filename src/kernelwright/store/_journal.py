"""The journal of a run's strategy: its moves, replies and reported candidates in order, to restore its state.

Covers: replies written from any thread as soon as they arrive; a process killed at any moment.
Does not cover: a reply under way when the process died, whose move is carried out again; trailing lines that were only
noted, which are recomputed from the lines before them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from pydantic import JsonValue

from ._database import Database


@dataclass(frozen=True)
class Entry:
    """One line of a journal."""

    kind: str
    """`ask`, `reply`, `heard` or `tell`; `prompts` and `guidance` if prompts evolve; `agent` for an agent proposal."""
    number: int | None
    """The move's number, for `guidance` the meta-step's. None if the line belongs to neither."""
    record: dict[str, JsonValue]
    """The line's data, by name."""


class Journal:
    """The journal of one run; append-only and thread-safe.

    Example:
        >>> import tempfile
        >>> from kernelwright.records import Budget
        >>> from kernelwright.store import Store
        >>> from kernelwright.testing import planted_task
        >>> folder = Path(tempfile.mkdtemp())
        >>> with Store(folder) as store:
        ...     run = store.create_run(planted_task(), device="cpu-1", budget=Budget(), seed=0)
        >>> journal = Journal(folder, run.id)
        >>> journal.add("ask", 0, {"operator": "draft"})
        >>> [(e.kind, e.number, e.record) for e in journal.entries()]
        [('ask', 0, {'operator': 'draft'})]
        >>> journal.close()
    """

    def __init__(self, folder: Path, run: str, database: Database | None = None) -> None:
        """Open the journal in the store at that folder, with its own connection unless one is given."""
        self._lent = database is not None
        self._database = database or Database(folder / "kernelwright.db")
        self._lock = Lock()
        self._run = run
        self._noted: list[tuple[str, int | None, str]] = []

    def close(self) -> None:
        """Write noted lines, and close the journal's own connection; a second call does nothing."""
        with self._lock:
            try:
                self._write()
            finally:
                if not self._lent:
                    self._database.close()

    def add(self, kind: str, number: int | None, record: Mapping[str, JsonValue]) -> None:
        """Add a line; it and all lines noted before are on disk when this returns."""
        with self._lock:
            self._noted.append((kind, number, json.dumps(record)))
            self._write()

    def note(self, kind: str, number: int | None, record: Mapping[str, JsonValue]) -> None:
        """Add a line that follows from those before it; it is written together with the next added line."""
        with self._lock:
            self._noted.append((kind, number, json.dumps(record)))

    def _write(self) -> None:
        lines, self._noted = self._noted, []
        if not lines:
            return
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT INTO journal VALUES "
                "(?1, (SELECT COALESCE(MAX(ordinal) + 1, 0) FROM journal WHERE run = ?1), ?2, ?3, ?4)",
                [(self._run, *line) for line in lines],
            )

    def entries(self) -> list[Entry]:
        """Return every line in order."""
        with self._lock:
            self._write()
            rows = self._database.read(
                "SELECT kind, number, record FROM journal WHERE run = ? ORDER BY ordinal", (self._run,)
            )
        return [Entry(row["kind"], row["number"], json.loads(row["record"])) for row in rows]
