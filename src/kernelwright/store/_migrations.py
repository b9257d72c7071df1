"""The database schema as a list of migrations; a store's `user_version` is the number applied.

A released migration never changes: new ones are added at the end.
"""

import sqlite3
from collections.abc import Callable

Migration = Callable[[sqlite3.Connection], None]


def _first(connection: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE tasks (key TEXT PRIMARY KEY, name TEXT NOT NULL, record TEXT NOT NULL)",
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY, task TEXT NOT NULL REFERENCES tasks(key), status TEXT NOT NULL,
            created TEXT NOT NULL, elapsed_s REAL NOT NULL DEFAULT 0, record TEXT NOT NULL, result TEXT)""",
        """CREATE TABLE candidates (
            key TEXT PRIMARY KEY, language TEXT NOT NULL, proposer TEXT NOT NULL, template TEXT,
            blob TEXT NOT NULL)""",
        """CREATE TABLE evaluations (
            id INTEGER PRIMARY KEY, candidate TEXT NOT NULL REFERENCES candidates(key), task TEXT NOT NULL,
            device TEXT NOT NULL, toolchain TEXT NOT NULL, harness TEXT NOT NULL, stage TEXT NOT NULL,
            status TEXT NOT NULL, time_us REAL NOT NULL, record TEXT NOT NULL, timing TEXT,
            UNIQUE (candidate, task, device, toolchain, harness, stage))""",
        """CREATE TABLE run_evaluations (
            run TEXT NOT NULL REFERENCES runs(id), evaluation INTEGER NOT NULL REFERENCES evaluations(id),
            ordinal INTEGER NOT NULL, cached INTEGER NOT NULL, blob TEXT NOT NULL,
            PRIMARY KEY (run, evaluation))""",
        """CREATE TABLE events (
            run TEXT NOT NULL REFERENCES runs(id), ordinal INTEGER NOT NULL, record TEXT NOT NULL,
            PRIMARY KEY (run, ordinal))""",
        "CREATE INDEX runs_by_task ON runs(task)",
    ):
        connection.execute(statement)


def _calls(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE calls (
            id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(id), key TEXT NOT NULL, who TEXT NOT NULL,
            purpose TEXT NOT NULL, created TEXT NOT NULL, reserved_usd REAL NOT NULL, usd REAL, usage TEXT,
            request TEXT, reply TEXT)"""
    )
    connection.execute("CREATE INDEX calls_by_run ON calls(run, key)")


def _kept(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE kept (
            kind TEXT NOT NULL, origin TEXT NOT NULL, key TEXT NOT NULL, record TEXT NOT NULL,
            PRIMARY KEY (kind, origin, key))"""
    )


def _journal(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE journal (
            run TEXT NOT NULL REFERENCES runs(id), ordinal INTEGER NOT NULL, kind TEXT NOT NULL, number INTEGER,
            record TEXT NOT NULL, PRIMARY KEY (run, ordinal))"""
    )


def _blobs(connection: sqlite3.Connection) -> None:
    # Blobs of older stores are in files and stay there.
    connection.execute("CREATE TABLE blobs (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID")


def _blobs_in_order(connection: sqlite3.Connection) -> None:
    # Long rows are written faster at the end of a table than into the middle of a tree of them (sqlite.org,
    # "Clustered Indexes and the WITHOUT ROWID Optimization", section "When To Use WITHOUT ROWID").
    for statement in (
        "ALTER TABLE blobs RENAME TO former",
        "CREATE TABLE blobs (name TEXT PRIMARY KEY, data BLOB NOT NULL)",
        "INSERT INTO blobs SELECT name, data FROM former",
        "DROP TABLE former",
    ):
        connection.execute(statement)


MIGRATIONS: tuple[Migration, ...] = (_first, _calls, _kept, _journal, _blobs, _blobs_in_order)
