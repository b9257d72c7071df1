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
    "promises",
    "settle",
]
