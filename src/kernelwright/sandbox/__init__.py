"""A worker that holds one candidate and nothing else, and the judge's hold on it.

    with Pool(settings, arena_bytes=1 << 28, threads=0) as pool:     # threads 0: physical cores
        with pool.worker(payload, deadline_s=60) as worker:          # raises WorkerFailure
            worker.set_state({"weight": weight})                     # parameters and buffers, strict
            slot = pool.arena.place(tensor)                          # inputs live in shared memory
            number = worker.bind((slot, 1e-5), outputs)              # an argument set
            reply = worker.call([number, number], deadline_s=10)     # timed by the judge's clock
            fetched = worker.fetch(reply.first)                      # copies of raw bytes, and facts
            worker.release()                                         # poison and drop the outputs

Every operation of a worker raises `WorkerFailure`, which is data for the judge; where its `alive` is false the
worker and everything it started are gone.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._arena import Arena
    from ._inspection import settle
    from ._layers import LAYERS
    from ._pool import Pool
    from ._promises import PROMISES, promises
    from ._types import (
        Argument,
        Audit,
        FailureKind,
        Fetched,
        Gradient,
        Loaded,
        OperatorIsolation,
        OutputFact,
        Payload,
        Reply,
        Seen,
        Slot,
        WatchMode,
        WorkerFailure,
    )
    from ._worker import Worker
    from ._zygotes import Zygotes

_HOMES = {
    "_arena": ("Arena",),
    "_inspection": ("settle",),
    "_layers": ("LAYERS",),
    "_pool": ("Pool",),
    "_promises": ("PROMISES", "promises"),
    "_types": (
        "Argument", "Audit", "FailureKind", "Fetched", "Gradient", "Loaded", "OperatorIsolation", "OutputFact",
        "Payload", "Reply", "Seen", "Slot", "WatchMode", "WorkerFailure",
    ),
    "_worker": ("Worker",),
    "_zygotes": ("Zygotes",),
}  # fmt: skip
"""Names are imported from their homes when first used: `Zygotes` alone needs no torch."""

__all__ = [
    "LAYERS",
    "PROMISES",
    "Arena",
    "Argument",
    "Audit",
    "FailureKind",
    "Fetched",
    "Gradient",
    "Loaded",
    "OperatorIsolation",
    "OutputFact",
    "Payload",
    "Pool",
    "Reply",
    "Seen",
    "Slot",
    "WatchMode",
    "Worker",
    "WorkerFailure",
    "Zygotes",
    "promises",
    "settle",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first used."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f".{home}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
