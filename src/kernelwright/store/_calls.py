"""The ledger of calls to models and agents: charged before each call, settled afterwards.

A call reserves the most that it can cost, in the transaction that checks the cap, and is settled once at its
actual cost. An unsettled reservation counts in full: it is a call under way, or one whose process died during
it, which may or may not have been billed.

Covers: concurrent threads and processes on one cap; a process killed at any moment; a resumed run; power loss,
for calls that cost money.
Does not cover: a provider that bills more than the computed maximum.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from ..errors import SpentError
from ..system.resources import Resource
from ._blobs import Blobs
from ._database import Database

_CHARGED = "COALESCE(SUM(COALESCE(usd, reserved_usd)), 0)"


@dataclass(frozen=True)
class Call:
    """One call in the ledger."""

    who: str
    """The model or agent."""
    purpose: str
    """Purpose of the call."""
    reserved_usd: float
    """The most that it can cost."""
    usd: float | None
    """Its cost. None until settled."""
    usage: Mapping[str, int]
    """Tokens by kind."""


class Calls(Resource):
    """The ledger of a store; thread-safe.

    Example:
        >>> import tempfile
        >>> with Calls(Path(tempfile.mkdtemp())) as calls:
        ...     calls.spent_usd("no-run")
        0.0
    """

    def __init__(self, folder: Path, database: Database | None = None) -> None:
        """Open the ledger in the store at that folder, with its own connection unless one is given."""
        self._lent = database is not None
        self._database = database or Database(folder / "kernelwright.db")
        self._blobs = Blobs(self._database, folder / "blobs")

    def close(self) -> None:
        """Close the ledger's own connection; a second call does nothing."""
        if not self._lent:
            self._database.close()

    def reserve(
        self,
        run: str,
        *,
        key: str,
        who: str,
        purpose: str,
        usd: float,
        cap_usd: float | None,
        request: str = "",
    ) -> int:
        """Charge the most that a call can cost and return its number.

        Raises:
            SpentError: with this call the run would exceed `cap_usd`.
        """
        with self._database.transaction(flushed=usd > 0) as connection:
            if cap_usd is not None:
                self._allow(run, who, usd, cap_usd)
            asked = self._blobs.put(request.encode()) if request else None
            inserted = connection.execute(
                "INSERT INTO calls (run, key, who, purpose, created, reserved_usd, request) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run, key, who, purpose, datetime.now(UTC).isoformat(timespec="seconds"), usd, asked),
            )
            return int(inserted.lastrowid or 0)

    def settle(
        self, call: int, usd: float, *, usage: Mapping[str, int] | None = None, reply: str | None = None
    ) -> None:
        """Record a call's cost and result; a second call changes nothing."""
        with self._database.transaction(flushed=usd > 0) as connection:
            kept = None if reply is None else self._blobs.put(reply.encode())
            connection.execute(
                "UPDATE calls SET usd = ?, usage = ?, reply = ? WHERE id = ? AND usd IS NULL",
                (usd, json.dumps(dict(usage or {})), kept, call),
            )

    def reply(self, run: str, key: str) -> str | None:
        """Return the answer to the same question in this run, or None."""
        rows = self._database.read(
            "SELECT reply FROM calls WHERE run = ? AND key = ? AND reply IS NOT NULL LIMIT 1", (run, key)
        )
        return self._text(rows[0]["reply"]) if rows else None

    def spent_usd(self, run: str) -> float:
        """Return what a run has spent, including unsettled reservations."""
        return float(self._database.read(f"SELECT {_CHARGED} FROM calls WHERE run = ?", (run,))[0][0])

    def of_run(self, run: str) -> list[Call]:
        """Return the calls of a run in order."""
        rows = self._database.read("SELECT * FROM calls WHERE run = ? ORDER BY id", (run,))
        return [
            Call(r["who"], r["purpose"], r["reserved_usd"], r["usd"], json.loads(r["usage"] or "{}"))
            for r in rows
        ]

    def transcript(self, run: str) -> list[dict[str, JsonValue]]:
        """Return a run's calls in order: `who`, `purpose`, `request` and `reply` (None: no answer)."""
        rows = self._database.read("SELECT * FROM calls WHERE run = ? ORDER BY id", (run,))
        return [
            {
                "who": row["who"],
                "purpose": row["purpose"],
                **{n: self._text(row[n]) for n in ("request", "reply")},
            }
            for row in rows
        ]

    def _allow(self, run: str, who: str, usd: float, cap_usd: float) -> None:
        spent = self.spent_usd(run)
        if spent + usd > cap_usd:
            raise SpentError(
                f"{who} could cost up to {usd:.4f} USD more, and {spent:.4f} of {cap_usd:.4f} USD are spent; "
                "allow more with --usd in a new run"
            )

    def _text(self, blob: str | None) -> str | None:
        return None if blob is None else self._blobs.get(blob).decode()
