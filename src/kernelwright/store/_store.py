"""The store: everything a run records, enough to resume it after any failure and to recompute every figure."""

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from ..config import Settings
from ..errors import NotFoundError
from ..records import Budget, Candidate, Evaluation, Run, RunStatus, Scalar, Task
from ..system.resources import Resource
from . import _evaluations, _transfer
from ._blobs import Blobs
from ._calls import Calls
from ._database import Database
from ._evaluations import EvaluationKey, Spent
from ._journal import Journal
from ._locks import Owner, RunLock


class Store(Resource):
    """A folder with one SQLite file and a folder of blobs. Several processes may share it.

    Example:
        >>> import tempfile
        >>> with Store(Path(tempfile.mkdtemp())) as store:
        ...     store.runs()
        []
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        """Open the store in the folder, creating it if needed; by default the folder from the settings."""
        self.folder = Path(folder) if folder is not None else Settings.from_environment().store
        self._database = Database(self.folder / "kernelwright.db")
        self.blobs = Blobs(self._database, self.folder / "blobs")
        self.calls = Calls(self.folder, self._database)
        """The ledger, using the store's connection."""

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self._database.close()

    def create_run(
        self,
        task: Task,
        *,
        device: str,
        budget: Budget,
        seed: int,
        options: dict[str, Scalar | tuple[Scalar, ...]] | None = None,
    ) -> Run:
        """Create a run and return its record."""
        now = datetime.now(UTC)
        run = Run(
            id=f"{now:%y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            task=task.key,
            task_name=task.name,
            device=device,
            budget=budget,
            seed=seed,
            options=options or {},
            created=now.isoformat(timespec="seconds"),
        )
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO tasks VALUES (?, ?, ?)", (task.key, task.name, task.to_json())
            )
            connection.execute(
                "INSERT INTO runs (id, task, status, created, record) VALUES (?, ?, ?, ?, ?)",
                (run.id, run.task, run.status, run.created, run.to_json()),
            )
        return run

    def finish_run(
        self, run: str, status: RunStatus, result: Mapping[str, JsonValue] | None = None, *, reason: str = ""
    ) -> None:
        """Record how a run ended, the reason if it did not end normally, and its result if there is one."""
        record = self.run(run).model_copy(update={"status": status, "reason": reason})
        text = None if result is None else json.dumps(result)
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, record = ?, result = COALESCE(?, result) WHERE id = ?",
                (status, record.to_json(), text, record.id),
            )

    def runs(self) -> list[Run]:
        """Return every run, the newest first, in order of creation and not of the clock."""
        rows = self._database.read("SELECT record FROM runs ORDER BY rowid DESC")
        return [Run.from_json(row["record"]) for row in rows]

    def run(self, name: str) -> Run:
        """Return the run of that id, or of the only id with that prefix; `last` is the newest."""
        if name == "last":
            rows = self._database.read("SELECT record FROM runs ORDER BY rowid DESC LIMIT 1")
        else:
            rows = self._database.read(
                "SELECT record FROM runs WHERE substr(id, 1, ?) = ?", (len(name), name)
            )
        if len(rows) != 1 or not name:
            found = "several runs" if len(rows) > 1 else "no run"
            raise NotFoundError(f"{found} in {self.folder} called {name!r}; `kernelwright runs` lists them")
        return Run.from_json(rows[0]["record"])

    def result(self, run: str) -> dict[str, JsonValue] | None:
        """Return the result of a run, or None if it has none yet."""
        rows = self._database.read("SELECT result FROM runs WHERE id = ?", (run,))
        if not rows or rows[0]["result"] is None:
            return None
        result: dict[str, JsonValue] = json.loads(rows[0]["result"])
        return result

    def journal(self, run: str) -> Journal:
        """Return the journal of a run, using the store's connection."""
        return Journal(self.folder, run, self._database)

    def run_lock(self, run: str) -> RunLock:
        """Return the lock that shows whether a run is running."""
        return RunLock(self.folder / "locks", run)

    def ending(self, run: Run) -> tuple[RunStatus, str]:
        """Return a run's status and why it ended, also if its process could not record that in the store."""
        if run.status is not RunStatus.RUNNING or self.run_lock(run.id).held():
            return run.status, run.reason
        return RunStatus.INTERRUPTED, death_of(self.run_lock(run.id).owner())

    def task(self, key: str) -> Task:
        """Return the task of that key; raises `NotFoundError` if no run had it."""
        rows = self._database.read("SELECT record FROM tasks WHERE key = ?", (key,))
        if not rows:
            raise NotFoundError(f"no task in {self.folder} has the key {key!r}")
        return Task.from_json(rows[0]["record"])

    def append_event(self, run: str, event: Mapping[str, JsonValue]) -> None:
        """Add a line to a run's log."""
        self._database.write(
            "INSERT INTO events VALUES (?, (SELECT COALESCE(MAX(ordinal) + 1, 0) FROM events WHERE run = ?), ?)",
            (run, run, json.dumps(event)),
        )

    def events(self, run: str) -> list[dict[str, JsonValue]]:
        """Return a run's log in order."""
        rows = self._database.read("SELECT record FROM events WHERE run = ? ORDER BY ordinal", (run,))
        return [json.loads(row["record"]) for row in rows]

    def save_evaluation(
        self, run: str, key: EvaluationKey, evaluation: Evaluation, *, elapsed_s: float
    ) -> None:
        """Store an evaluation and count it for the run, atomically; idempotent."""
        _evaluations.save(self._database, self.blobs, run, key, evaluation, elapsed_s)

    def evaluations(self, run: str) -> list[Evaluation]:
        """Return one evaluation per candidate, its furthest, in the order first seen."""
        return _evaluations.of_run(self._database, self.blobs, run)

    def lookup(self, key: EvaluationKey) -> Evaluation | None:
        """Return any run's evaluation under the key, marked `cached`. None if there is none yet."""
        return _evaluations.lookup(self._database, self.blobs, key)

    def packed(self, run: str) -> str:
        """Return everything of a run as one text, for `adopt` of another store."""
        return _transfer.packed(self._database, self.blobs, self.run(run).id)

    def adopt(self, packed: str) -> str:
        """Store a run that another store packed, once, and return its id."""
        return _transfer.adopt(self._database, self.blobs, packed)

    def spent(self, run: str) -> Spent:
        """Return what a run has used of its budget."""
        return _evaluations.spent(self._database, run)

    def keep(self, kind: str, origin: str, records: Mapping[str, str]) -> None:
        """Store records of a kind by key, replacing those that the same origin stored before."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM kept WHERE kind = ? AND origin = ?", (kind, origin))
            connection.executemany(
                "INSERT INTO kept VALUES (?, ?, ?, ?)",
                [(kind, origin, key, record) for key, record in records.items()],
            )

    def kept(self, kind: str) -> list[str]:
        """Return every record of a kind, in the order stored."""
        rows = self._database.read("SELECT record FROM kept WHERE kind = ? ORDER BY rowid", (kind,))
        return [row["record"] for row in rows]

    def candidate(self, key: str) -> Candidate:
        """Return a candidate by its key or an unambiguous prefix of it."""
        return _evaluations.candidate(self._database, self.blobs, key)


def death_of(owner: Owner | None) -> str:
    """Explain why a run ended whose process is gone without recording an end.

    Example:
        >>> death_of(None)
        'its process ended before it began the run, or had no room on the disk to say which it was'
    """
    if owner is None:
        return "its process ended before it began the run, or had no room on the disk to say which it was"
    return owner.words or (
        f"its process {owner.pid}, which had it since {owner.since}, died without a word: killed (SIGKILL, out of "
        "memory), crashed, or the machine stopped"
    )
