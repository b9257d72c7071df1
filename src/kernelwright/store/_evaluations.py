"""Evaluations on disk: each stored once, with its raw samples, and linked to every run that used it."""

import json
import sqlite3
from dataclasses import dataclass

from ..errors import NotFoundError
from ..records import Candidate, Evaluation
from ._blobs import Blobs
from ._database import Database

_FURTHEST = "CASE e.stage WHEN 'full' THEN 3 WHEN 'screen' THEN 2 WHEN 'verify' THEN 1 ELSE 0 END"
_NAME = "(candidate, task, device, toolchain, harness, stage)"
_WIDENED = (
    "json_extract(excluded.record, '$.stages_s.sizes') IS NOT NULL "
    "AND json_extract(evaluations.record, '$.stages_s.sizes') IS NULL"
)
"""The new one has looked at other sizes, and the old one has not."""
_OPEN = "(status = 'unknown' OR json_extract(record, '$.decision.reason') LIKE '%: timeout: %')"
"""It may come out otherwise: nothing was decided, or a worker gave no answer in time, perhaps on a busy machine."""


@dataclass(frozen=True)
class EvaluationKey:
    """Identity of an evaluation: a change of any field requires a new evaluation."""

    candidate: str
    task: str
    device: str
    toolchain: str
    harness: str
    """Version of the judge and its baselines."""


@dataclass(frozen=True)
class Spent:
    """A run's use of its budget, computed from the store."""

    evaluations: int = 0
    """Candidates evaluated, without cached ones."""
    cached: int = 0
    """Candidates whose evaluation came from the store."""
    elapsed_s: float = 0.0
    """Wall seconds of the run."""
    device_s: float = 0.0
    """Seconds that the device was held."""


def save(
    database: Database, blobs: Blobs, run: str, key: EvaluationKey, evaluation: Evaluation, elapsed_s: float
) -> None:
    """Store an evaluation and count it for the run, in one transaction; idempotent."""
    with database.transaction() as connection:
        candidate = blobs.put(evaluation.candidate.to_json().encode())
        timing = blobs.put(evaluation.timing.to_json().encode()) if evaluation.timing else None
        _save_candidate(connection, evaluation.candidate, candidate)
        name = _save_evaluation(connection, key, evaluation, timing)
        connection.execute(
            "INSERT OR IGNORE INTO run_evaluations SELECT ?, id, "
            "(SELECT COALESCE(MAX(rowid) + 1, 0) FROM run_evaluations), ?, ? "
            f"FROM evaluations WHERE {_NAME} = (?, ?, ?, ?, ?, ?)",
            (run, evaluation.cached, candidate, *name),
        )
        connection.execute("UPDATE runs SET elapsed_s = MAX(elapsed_s, ?) WHERE id = ?", (elapsed_s, run))


def _save_candidate(connection: sqlite3.Connection, candidate: Candidate, blob: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO candidates VALUES (?, ?, ?, ?, ?)",
        (candidate.key, candidate.language, candidate.proposer, candidate.template, blob),
    )


def _save_evaluation(
    connection: sqlite3.Connection, key: EvaluationKey, evaluation: Evaluation, timing: str | None
) -> tuple[str, ...]:
    """Store an evaluation, unless one is known already that went as far, and return its key."""
    record = evaluation.model_dump(mode="json", exclude={"candidate", "timing", "cached"})
    name = (key.candidate, key.task, key.device, key.toolchain, key.harness, evaluation.stage)
    connection.execute(
        "INSERT INTO evaluations (candidate, task, device, toolchain, harness, stage, status, time_us, "
        f"record, timing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT {_NAME} DO UPDATE SET "
        "status = excluded.status, time_us = excluded.time_us, record = excluded.record, "
        f"timing = excluded.timing WHERE {_OPEN} OR ({_WIDENED})",
        (*name, evaluation.decision.status, evaluation.decision.time_us, json.dumps(record), timing),
    )
    return name


def lookup(database: Database, blobs: Blobs, key: EvaluationKey) -> Evaluation | None:
    """Return the evaluation under the key from the run that went furthest, unless it may come out otherwise."""
    rows = database.read(
        "SELECT e.*, c.blob AS blob, 1 AS cached FROM evaluations e JOIN candidates c ON c.key = e.candidate "
        "WHERE (e.candidate, e.task, e.device, e.toolchain, e.harness) = (?, ?, ?, ?, ?) "
        f"AND NOT {_OPEN} ORDER BY {_FURTHEST} DESC LIMIT 1",
        (key.candidate, key.task, key.device, key.toolchain, key.harness),
    )
    return _restore(blobs, rows[0]) if rows else None


def of_run(database: Database, blobs: Blobs, run: str) -> list[Evaluation]:
    """Return one evaluation per candidate of a run, its furthest, in the order first seen."""
    rows = database.read(
        f"SELECT e.*, r.blob AS blob, r.cached AS cached, r.ordinal AS ordinal, {_FURTHEST} AS far "
        "FROM run_evaluations r JOIN evaluations e ON e.id = r.evaluation WHERE r.run = ? ORDER BY r.ordinal",
        (run,),
    )
    furthest: dict[str, sqlite3.Row] = {}
    for row in rows:
        known = furthest.setdefault(row["candidate"], row)
        if row["far"] > known["far"]:
            furthest[row["candidate"]] = row
    return [_restore(blobs, row) for row in furthest.values()]


def spent(database: Database, run: str) -> Spent:
    """Count what a run has used: each candidate once, regardless of its stages."""
    rows = database.read(
        "SELECT MAX(r.cached) AS cached, SUM(CASE WHEN r.cached THEN 0 ELSE "
        "json_extract(e.record, '$.device_s') END) AS device_s FROM run_evaluations r "
        "JOIN evaluations e ON e.id = r.evaluation WHERE r.run = ? GROUP BY e.candidate",
        (run,),
    )
    elapsed = database.read("SELECT elapsed_s FROM runs WHERE id = ?", (run,))
    return Spent(
        evaluations=sum(not row["cached"] for row in rows),
        cached=sum(bool(row["cached"]) for row in rows),
        elapsed_s=float(elapsed[0]["elapsed_s"]) if elapsed else 0.0,
        device_s=sum(float(row["device_s"]) for row in rows),
    )


def candidate(database: Database, blobs: Blobs, key: str) -> Candidate:
    """Return the candidate of that key, or of the only key with that prefix."""
    rows = database.read("SELECT blob FROM candidates WHERE substr(key, 1, ?) = ? LIMIT 2", (len(key), key))
    if len(rows) != 1:
        raise NotFoundError(f"{'no candidate is' if not rows else 'several candidates are'} called {key!r}")
    return Candidate.from_json(blobs.get(rows[0]["blob"]))


def _restore(blobs: Blobs, row: sqlite3.Row) -> Evaluation:
    record = json.loads(row["record"])
    record["candidate"] = json.loads(blobs.get(row["blob"]))
    record["timing"] = _upgraded(json.loads(blobs.get(row["timing"]))) if row["timing"] else None
    record["cached"] = bool(row["cached"])
    return Evaluation.model_validate_json(json.dumps(record))


def _upgraded(timing: dict[str, object]) -> dict[str, object]:
    """Return a stored timing in the current format: early ones call variants `legs`. Blobs on disk never change."""
    return {"variants" if name == "legs" else name: value for name, value in timing.items()}
