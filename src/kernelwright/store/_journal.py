"""What a run's strategy asked, heard and was told, in order: enough to bring it back to where it stood.

Covers: replies written from any thread the moment they are there; a process killed at any moment.
Does not cover: a reply that was under way when the process died, its move is carried out again; lines that were noted
and followed by none, which are brought about again by those before them.
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
    """`ask`, `reply`, `heard` or `tell`; `prompts` and `guidance` where prompts evolve; `agent` what one proposed."""
    number: int | None
    """The move's number, for `guidance` the meta-step's; none where the line is of neither."""
    record: dict[str, JsonValue]
    """What there is to keep, by name."""


class Journal:
    """The journal of one run, for any number of threads; lines are only ever added.

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
        """Open the journal in the store of that folder, over a connection of its own unless one is lent."""
        self._lent = database is not None
        self._database = database or Database(folder / "kernelwright.db")
        self._lock = Lock()
        self._run = run
        self._noted: list[tuple[str, int | None, str]] = []

    def close(self) -> None:
        """Write what was noted, and close a connection of its own; a second time does nothing."""
        with self._lock:
            try:
                self._write()
            finally:
                if not self._lent:
                    self._database.close()

    def add(self, kind: str, number: int | None, record: Mapping[str, JsonValue]) -> None:
        """Add a line; it is on disk when this returns, and all that was noted before."""
        with self._lock:
            self._noted.append((kind, number, json.dumps(record)))
            self._write()

    def note(self, kind: str, number: int | None, record: Mapping[str, JsonValue]) -> None:
        """Add a line that follows from those before it; it is on disk with the next that is added."""
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
