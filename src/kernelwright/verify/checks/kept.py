"""A compiled kernel keeps nothing in static memory that changes from call to call."""

import secrets
from pathlib import Path

from ...languages import writable_spans
from ...records import Finding
from .._case import Case
from .._protocol import Depth, failed, passed, unknown
from .._trial import Trial

_LIBRARY = "kernel.so"
_LEAST, _MORE = 5, 40
"""Calls between two looks: `_LEAST` and up to `_MORE` beyond, drawn so that no period fits."""
_LOOKS = 4
"""Looks in a row; static memory must be the same in the last two."""


class NothingKept:
    """Read the library's writable segments between calls on the same content.

    Covers: C++ candidates whose worker can be read while it is stopped: counters, sums and times in static memory,
    however late anything is made of them.
    Does not cover: the heap, thread-local storage, files; memory that only other content would change.
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
        except (OSError, ValueError) as error:
            return unknown(self.name, f"the segments of the library could not be read: {error}")
        placed = trial.place(case)[0]
        looks: list[bytes | None] = []
        for _ in range(_LOOKS):
            count = _LEAST + secrets.randbelow(_MORE)
            placed.worker.call([placed.number] * count, deadline_s=trial.limit_s())
            looks.append(placed.worker.library_memory(_LIBRARY, spans))
        before, after = looks[-2:]
        if before is None or after is None:
            return passed(self.name, read_bytes=0)
        changed = sum(a != b for a, b in zip(before, after, strict=True))
        if changed:
            message = (
                f"{changed} bytes of the library's static memory change from call to call on the same content"
            )
            return failed(self.name, f"{message}; a kernel keeps nothing between calls", changed=changed)
        return passed(self.name, read_bytes=len(after))
