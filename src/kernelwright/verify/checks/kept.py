"""A compiled kernel keeps nothing in static memory that changes from call to call."""

import re
import secrets
from pathlib import Path

from ...languages import imported_names, writable_spans
from ...records import Finding
from .._case import Case
from .._protocol import Depth, failed, passed, unknown
from .._trial import Trial

_LIBRARY = "kernel.so"
_LEAST, _MORE = 5, 40
"""Calls between two looks: `_LEAST` and up to `_MORE` beyond, drawn so that no period fits."""
_SHARED_OUT = r"(GOMP_loop|GOMP_parallel_loop|__kmpc_dispatch).*(dynamic|guided|runtime|dispatch)"
"""Names of OpenMP's loops whose parts go to whichever thread is free."""
_LOOKS = 4
"""Looks in a row; static memory must be the same in the last two."""


class NothingKept:
    """Read the library's writable segments between calls on the same content.

    Covers: C++ candidates whose worker can be read while it is stopped: counters, sums and times in static memory,
    however late anything is made of them; the same in thread-local storage of the calling thread, unless loops are
    shared out among threads as these come (then scratch buffers differ by chance).
    Does not cover: the heap; thread-local storage of other threads, and where the worker lies about it; files; memory
    that only other content would change.
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
        looks: list[bytes | None] = []
        threads: list[bytes | None] = []
        for _ in range(_LOOKS):
            count = _LEAST + secrets.randbelow(_MORE)
            placed.worker.call([placed.number] * count, deadline_s=trial.limit_s())
            looks.append(placed.worker.library_memory(_LIBRARY, spans))
            threads.append(None if shared_out else placed.worker.thread_memory(_LIBRARY))
        for kind, (before, after) in (("static", looks[-2:]), ("thread-local", threads[-2:])):
            changed = sum(a != b for a, b in zip(before or b"", after or b"", strict=False))
            if changed:
                message = f"{changed} bytes of the library's {kind} memory change from call to call"
                said = f"{message} on the same content; a kernel keeps nothing between calls"
                return failed(self.name, said, changed=changed)
        return passed(self.name, read_bytes=len(looks[-1] or b""), thread_bytes=len(threads[-1] or b""))
