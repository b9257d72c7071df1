"""Candidates → builds, ahead of the judge: a few threads that each wait for one compiler."""

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from types import TracebackType
from typing import Self

from ...languages import Language
from ...records import Build, BuildStatus, Candidate
from ..run._quiet import Quiet
from ._scheduler import Trial

_LEAST_S, _MOST_S = 1.0, 120.0
"""Limits on the seconds that one build may take, whatever is left of the run's time."""


class Builder:
    """Build trials ahead of the judge and hand them over in order.

    On a CPU the compiler would disturb the timings, so builds wait while something is timed, and go on while a
    candidate is verified. On a GPU they overlap. The first trial is built alone, so that the first kernel does not
    wait for others.
    """

    def __init__(
        self,
        languages: dict[str, Language],
        *,
        width: int,
        quiet: Quiet | None = None,
        left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._languages = languages
        self._width = width
        self._quiet = quiet
        self._left_s = left_s
        self._threads = ThreadPoolExecutor(width, thread_name_prefix="build")
        self._queue: deque[tuple[Trial, Future[Build] | None]] = deque()
        self._taken = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=kind is None, cancel_futures=True)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def building(self) -> int:
        """How many of the waiting trials need a build because they are not known already."""
        return sum(build is not None for _, build in self._queue)

    @property
    def hungry(self) -> bool:
        """Whether another trial should be added before the next is taken."""
        return len(self._queue) < (self._width if self._taken else 1)

    def give(self, trial: Trial, *, known: bool) -> None:
        """Start building a trial; a known evaluation needs no build, and a trial without a source has failed."""
        self._queue.append((trial, None if known else self._threads.submit(self._built, trial)))

    def take(self) -> tuple[Trial, Build | None]:
        """Wait for the oldest trial and return it with its build."""
        self._taken = True
        trial, build = self._queue.popleft()
        return trial, build.result() if build is not None else None

    def build(self, candidate: Candidate) -> Build:
        """Build one candidate now, usually from the build cache."""
        deadline_s = max(_LEAST_S, min(_MOST_S, self._left_s()))
        return self._languages[candidate.language].build(candidate, deadline_s=deadline_s)

    def _built(self, trial: Trial) -> Build:
        if trial.fault:
            return Build(status=BuildStatus.FAILED, diagnostics=trial.fault)
        with self._quiet.building() if self._quiet else nullcontext():
            return self.build(trial.candidate)
