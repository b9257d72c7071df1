"""A run of one store → text → another store: the same run, under the same id.

Covers: a text that is adopted twice, from any number of processes; evaluations that the other store has already.
Does not cover: a run that goes on while it is copied.
"""

import json
import sqlite3
from collections.abc import Iterable

from pydantic import JsonValue

from ..errors import StoreError
from ._blobs import Blobs
from ._database import Database
from ._migrations import MIGRATIONS

Rows = list[dict[str, JsonValue]]

_OF_RUN = {
    "tasks": "SELECT t.* FROM tasks t JOIN runs r ON r.task = t.key WHERE r.id = ?",
    "runs": "SELECT * FROM runs WHERE id = ?",
    "candidates": (
        "SELECT DISTINCT c.* FROM candidates c JOIN evaluations e ON e.candidate = c.key "
        "JOIN run_evaluations r ON r.evaluation = e.id WHERE r.run = ?"
    ),
    "evaluations": (
        "SELECT e.* FROM evaluations e JOIN run_evaluations r ON r.evaluation = e.id WHERE r.run = ? ORDER BY r.ordinal"
    ),
    "run_evaluations": "SELECT * FROM run_evaluations WHERE run = ? ORDER BY ordinal",
    "events": "SELECT * FROM events WHERE run = ? ORDER BY ordinal",
    "journal": "SELECT * FROM journal WHERE run = ? ORDER BY ordinal",
    "calls": "SELECT * FROM calls WHERE run = ? ORDER BY id",
    "kept": "SELECT * FROM kept WHERE origin = ?",
}
"""What belongs to a run, in the order in which tables refer to each other."""
_BLOBS = ("blob", "timing", "request", "reply")
"""Columns that name a blob."""


def packed(database: Database, blobs: Blobs, run: str) -> str:
    """Return everything that a store has of a run."""
    tables = {name: [dict(row) for row in database.read(sql, (run,))] for name, sql in _OF_RUN.items()}
    named = {str(row[c]) for rows in tables.values() for row in rows for c in _BLOBS if row.get(c)}
    texts = {name: blobs.get(name).decode() for name in sorted(named)}
    return json.dumps({"schema": len(MIGRATIONS), "tables": tables, "blobs": texts})


def adopt(database: Database, blobs: Blobs, text: str) -> str:
    """Store a run, unless it is there, in one transaction; return its id.

    Raises:
        StoreError: the text is of another version of the store.
    """
    given = json.loads(text)
    if given["schema"] != len(MIGRATIONS):
        raise StoreError(
            f"a run came from a store with schema {given['schema']}, and this one has {len(MIGRATIONS)}; use the same "
            "Kernelwright on all nodes"
        )
    tables: dict[str, Rows] = given["tables"]
    run = str(tables["runs"][0]["id"])
    with database.transaction() as connection:
        if connection.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone():
            return run
        for content in given["blobs"].values():
            blobs.put(content.encode())
        for name in ("tasks", "runs", "candidates", "events", "journal", "kept"):
            _insert(connection, name, tables[name])
        _insert(connection, "calls", _without(tables["calls"], "id"))
        _insert(connection, "evaluations", _without(tables["evaluations"], "id"))
        here = {row["id"]: _number_of(connection, row) for row in tables["evaluations"]}
        linked = [{**row, "evaluation": here[row["evaluation"]]} for row in tables["run_evaluations"]]
        _insert(connection, "run_evaluations", linked)
    return run


def _insert(connection: sqlite3.Connection, table: str, rows: Rows) -> None:
    for row in rows:
        columns, marks = ", ".join(row), ", ".join("?" * len(row))
        connection.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", list(row.values()))


def _without(rows: Iterable[dict[str, JsonValue]], column: str) -> Rows:
    return [{name: value for name, value in row.items() if name != column} for row in rows]


def _number_of(connection: sqlite3.Connection, row: dict[str, JsonValue]) -> int:
    """Return the number under which this store has an evaluation."""
    name = ("candidate", "task", "device", "toolchain", "harness", "stage")
    found = connection.execute(
        f"SELECT id FROM evaluations WHERE ({', '.join(name)}) = (?, ?, ?, ?, ?, ?)", [row[n] for n in name]
    )
    return int(found.fetchone()[0])
