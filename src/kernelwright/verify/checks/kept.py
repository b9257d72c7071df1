"""A compiled kernel keeps nothing in static memory, or reached from it, that changes from call to call."""

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...languages import imported_names, writable_spans
from ...records import Finding
from .._case import Case
from .._protocol import Depth, failed, passed, unknown
from .._trial import Placed, Trial

_LIBRARY = "kernel.so"
_LEAST, _MORE = 5, 40
"""Calls between two looks: `_LEAST` and up to `_MORE` beyond, drawn so that no period fits."""
_SHARED_OUT = r"(GOMP_loop|GOMP_parallel_loop|__kmpc_dispatch).*(dynamic|guided|runtime|dispatch)"
"""Names of OpenMP's loops whose parts go to whichever thread is free."""
_PLACES = {
    "static": "the library's static memory", "thread-local": "the library's thread-local memory",
    "heap": "the heap that the library's memory points to",
}  # fmt: skip
_LOOKS = 4
"""Looks in a row; memory must be the same in the last two."""
_BATCH_BYTES = 64 << 20
"""Bytes of outputs that are kept for one request: new memory for those of all calls takes longer than the calls."""


@dataclass(frozen=True)
class _Look:
    """What a library kept at one moment."""

    static: bytes
    thread: bytes
    heap: dict[int, bytes]
    """Address → block, of what pointers in the other two lead to."""

    def changed(self, before: "_Look") -> dict[str, int]:
        """Count bytes that are not as they were, by kind of memory."""
        counts = {
            "static": _changed(before.static, self.static),
            "thread-local": _changed(before.thread, self.thread),
        }
        counts["heap"] = sum(_changed(before.heap.get(a, b""), b) for a, b in self.heap.items())
        return {kind: count for kind, count in counts.items() if count}


class NothingKept:
    """Read the library's writable segments, and the heap that they point to, between calls on the same content.

    Covers: C++ candidates whose worker can be read while it is stopped: counters, sums and times in static memory,
    however late anything is made of them; the same in thread-local storage of the calling thread, and in blocks of
    the heap that pointers lead to from either, unless loops are shared out among threads as these come (then scratch
    buffers differ by chance).
    Does not cover: blocks of the heap whose address is stored disguised; freed memory; thread-local storage of other
    threads, and where the worker lies about it; memory that only other content would change.
    """

    name = "nothing-kept"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where static memory has not settled after a few dozen calls."""
        build = trial.build
        if trial.candidate.language != "cpp" or build.artefact is None or case.state_after or case.mutated:
            return passed(self.name)
        try:
            spans = writable_spans(Path(build.artefact) / _LIBRARY)
            imports = imported_names(Path(build.artefact) / _LIBRARY)
        except (OSError, ValueError) as error:
            return unknown(self.name, f"the segments of the library could not be read: {error}")
        shared_out = any(re.match(_SHARED_OUT, name) for name in imports)
        placed = trial.place(case)[0]
        looks: list[_Look] = []
        for _ in range(_LOOKS):
            placed = _called(trial, placed, _LEAST + secrets.randbelow(_MORE))
            static = placed.worker.library_memory(_LIBRARY, spans) or b""
            thread = b"" if shared_out else placed.worker.thread_memory(_LIBRARY) or b""
            heap = {} if shared_out else placed.worker.heap_memory((static, thread))
            looks.append(_Look(static, thread, heap))
        for kind, changed in looks[-1].changed(looks[-2]).items():
            message = f"{changed} bytes of {_PLACES[kind]} change from call to call"
            said = f"{message} on the same content; a kernel keeps nothing between calls"
            return failed(self.name, said, changed=changed)
        last = looks[-1]
        return passed(
            self.name,
            read_bytes=len(last.static),
            thread_bytes=len(last.thread),
            heap_bytes=sum(map(len, last.heap.values())),
        )


def _called(trial: Trial, placed: Placed, count: int) -> Placed:
    """Call so many times, and drop the outputs between requests."""
    most = max(1, _BATCH_BYTES // max(1, placed.case.outputs_bytes))
    for done in range(0, count, most):
        placed = trial.dropped(placed)
        placed.worker.call([placed.number] * min(most, count - done), deadline_s=trial.limit_s())
    return placed


def _changed(before: bytes, after: bytes) -> int:
    """Count bytes that differ, and those that are there in one alone."""
    if before == after:
        return 0
    same = min(len(before), len(after))
    one, other = (np.frombuffer(part, dtype=np.uint8, count=same) for part in (before, after))
    return int((one != other).sum()) + max(len(before), len(after)) - same
