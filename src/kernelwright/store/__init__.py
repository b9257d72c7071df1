"""Records on disk: SQLite for records that are queried, a folder of blobs for large data, locks between runs.

Covers: a process killed at any moment, several processes on one store, a full or read-only disk.
After power loss the store is consistent and lacks at most the last moments; the charge and answer of a call that
costs money are flushed to disk before they are used.
Does not cover: network file systems (SQLite's WAL needs a local one), other users' runs on the same device.
"""

from ._blobs import Blobs
from ._calls import Call, Calls
from ._evaluations import EvaluationKey, Spent
from ._journal import Entry, Journal
from ._locks import DeviceLock, Owner, RunLock
from ._store import Store, death_of

__all__ = [
    "Blobs",
    "Call",
    "Calls",
    "DeviceLock",
    "Entry",
    "EvaluationKey",
    "Journal",
    "Owner",
    "RunLock",
    "Spent",
    "Store",
    "death_of",
]
