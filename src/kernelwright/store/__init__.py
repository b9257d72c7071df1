"""Records on disk: SQLite for what is searched, a folder of blobs for what is large, locks between runs.

Covers: a process killed at any moment, several processes on one store, a full or read-only disk.
After power loss the store is sound and lacks the last moments at most; what a call that costs something was charged
and answered is flushed to the disk before anything is done with it.
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
