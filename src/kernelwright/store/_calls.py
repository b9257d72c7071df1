"""What was asked of models and agents, and what it cost: charged before, settled after.

A call is reserved by the most that it can cost, in the transaction that finds that the cap allows it, and
settled once by what it did cost. What is reserved and not settled counts in full: that is a call under way, or
one whose process died in the middle of it, which may or may not have been billed.

Covers: threads and processes at once on one cap; a process killed at any moment; a resumed run; power loss,
for calls that cost something.
Does not cover: a provider that bills more than the most that was worked out.
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
    """One call, as it stands in the ledger."""

    who: str
    """The model or agent."""
    purpose: str
    """What it was asked for."""
    reserved_usd: float
    """The most that it could cost."""
    usd: float | None
    """What it cost; none while it is not settled."""
    usage: Mapping[str, int]
    """Tokens by kind."""


class Calls(Resource):
    """The ledger of a store, for any number of threads.

    Example:
        >>> import tempfile
        >>> with Calls(Path(tempfile.mkdtemp())) as calls:
        ...     calls.spent_usd("no-run")
        0.0
    """

    def __init__(self, folder: Path, database: Database | None = None) -> None:
        """Open the ledger in the store of that folder, over a connection of its own unless one is lent."""
        self._lent = database is not None
        self._database = database or Database(folder / "kernelwright.db")
        self._blobs = Blobs(self._database, folder / "blobs")

    def close(self) -> None:
        """Close a connection of its own; a second time does nothing."""
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
            SpentError: with it the run would have spent more than `cap_usd`.
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
        """Write what a call cost and what came of it; a second time changes nothing."""
        with self._database.transaction(flushed=usd > 0) as connection:
            kept = None if reply is None else self._blobs.put(reply.encode())
            connection.execute(
                "UPDATE calls SET usd = ?, usage = ?, reply = ? WHERE id = ? AND usd IS NULL",
                (usd, json.dumps(dict(usage or {})), kept, call),
            )

    def reply(self, run: str, key: str) -> str | None:
        """Return what was answered to the same question in this run, or none."""
        rows = self._database.read(
            "SELECT reply FROM calls WHERE run = ? AND key = ? AND reply IS NOT NULL LIMIT 1", (run, key)
        )
        return self._text(rows[0]["reply"]) if rows else None

    def spent_usd(self, run: str) -> float:
        """Return what a run has spent, reservations that were never settled included."""
        return float(self._database.read(f"SELECT {_CHARGED} FROM calls WHERE run = ?", (run,))[0][0])

    def of_run(self, run: str) -> list[Call]:
        """Return the calls of a run in order."""
        rows = self._database.read("SELECT * FROM calls WHERE run = ? ORDER BY id", (run,))
        return [
            Call(r["who"], r["purpose"], r["reserved_usd"], r["usd"], json.loads(r["usage"] or "{}"))
            for r in rows
        ]

    def transcript(self, run: str) -> list[dict[str, JsonValue]]:
        """Return what was said in a run, in order: `who`, `purpose`, `request` and `reply` (none: no answer)."""
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
