"""Records on disk: SQLite for what is searched, a folder of blobs for what is large, locks between runs.

Covers: a process killed at any moment, several processes on one store, a full or read-only disk.
Does not cover: network file systems (SQLite's WAL needs a local one), power loss (the last moments
before it may be lost; the store stays sound), other users' runs on the same device.
"""

from ._blobs import Blobs
from ._calls import Call, Calls
from ._evaluations import EvaluationKey, Spent
from ._journal import Entry, Journal
from ._locks import DeviceLock, RunLock
from ._store import Store

__all__ = [
    "Blobs",
    "Call",
    "Calls",
    "DeviceLock",
    "Entry",
    "EvaluationKey",
    "Journal",
    "RunLock",
    "Spent",
    "Store",
]
