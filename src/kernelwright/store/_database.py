"""One SQLite file: connection, transactions, migrations, and readable errors."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from ..errors import StoreError
from ._migrations import MIGRATIONS

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for another process's transaction."""

_MOST_PAGES = 8_000
"""Pages of the write-ahead log that trigger a checkpoint: 32 MB, about three hundred proposals."""

Value = str | int | float | bytes | None
"""Value of a column."""


class Database:
    """A connection in WAL mode that takes the write lock before it reads data that it will change.

    `synchronous=NORMAL`: a commit survives the death of the process, and the file always stays consistent. After
    power loss the commits since the last flush may be gone, each as a whole; a flush at every commit would disturb
    timings. So would a checkpoint every few dozen proposals, which flushes twice: it waits for more, or for the last
    connection to close.

    Threads share the connection, one transaction at a time: two connections in a process would wait for each other
    by sleeping, and reread what the other wrote.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it if needed."""
        self.path = path
        self._turn = RLock()
        with self._in_words():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.execute("PRAGMA foreign_keys=ON")
                self._connection.execute(f"PRAGMA wal_autocheckpoint={_MOST_PAGES}")
                self._migrate()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        with self._turn:
            self._connection.close()

    @contextmanager
    def transaction(self, *, flushed: bool = False) -> Iterator[sqlite3.Connection]:
        """Hold the write lock; commit at the end, or roll everything back on an error.

        Args:
            flushed: Whether the commit, and all before it, must survive power loss.
        """
        with self._turn, self._in_words():
            if flushed:
                self._connection.execute("PRAGMA synchronous=FULL")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if flushed:
                    self._connection.execute("PRAGMA synchronous=NORMAL")

    def write(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Execute one statement, in the current transaction if there is one, else in its own."""
        with self._turn, self._in_words():
            self._connection.execute(sql, values)

    def read(self, sql: str, values: Sequence[Value] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._turn, self._in_words():
            return self._connection.execute(sql, values).fetchall()

    def _migrate(self) -> None:
        if self._version() == len(MIGRATIONS):
            return
        with self.transaction() as connection:
            version = self._version()
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"the store at {self.path.parent} has schema {version} and this Kernelwright knows "
                    f"{len(MIGRATIONS)}; upgrade Kernelwright or choose another store with --store"
                )
            for migration in MIGRATIONS[version:]:
                migration(connection)
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(self._sentence(error)) from error

    def _sentence(self, error: Exception) -> str:
        folder, other = self.path.parent, "choose another with --store"
        if folder.exists() and not folder.is_dir():
            return f"the store {str(folder)!r} is a file; expected a folder, or a name that is free: {other}"
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return f"the store at {folder} is damaged ({error}); move it away, or {other}"
        if "locked" in str(error):
            return f"the store at {folder} was being written for {BUSY_TIMEOUT_S:g} s by another process; try again"
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return (
            f"the store at {folder} could not be read or written ({reason}); free some space, fix its permissions, "
            f"or {other}"
        )
