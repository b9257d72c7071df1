"""Candidates → evaluations ahead of the session, on a cluster: what builds them there verifies and times them too."""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ...records import Build, BuildStatus, Candidate
from ._scheduler import Trial

_AHEAD = 1
"""Trials that wait for an evaluator, so that none waits for a trial."""


class RemoteBuilder:
    """Hand trials to a cluster, and take them back in the order given, whichever is done first.

    The first trial goes alone, so that the first kernel does not wait for others: a proposer may take minutes.
    """

    def __init__(
        self,
        begin: Callable[[Candidate], None],
        built: Callable[[Candidate], Build],
        width: Callable[[], int],
    ) -> None:
        """Make a builder.

        Args:
            begin: Starts to build and screen a candidate.
            built: Waits for that, and returns the build.
            width: How many can be under way at once.
        """
        self._begin, self._built, self._width = begin, built, width
        self._queue: deque[tuple[Trial, bool]] = deque()
        self._taken = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def building(self) -> int:
        """How many of the waiting trials are not known already."""
        return sum(not known for _, known in self._queue)

    @property
    def hungry(self) -> bool:
        """Whether another trial should be added before the next is taken."""
        return len(self._queue) < (self._width() + _AHEAD if self._taken else 1)

    def give(self, trial: Trial, *, known: bool) -> None:
        """Start with a trial; a known evaluation needs nothing, and a trial without a source has failed."""
        self._queue.append((trial, known))
        if not known and not trial.fault:
            self._begin(trial.candidate)

    def take(self) -> tuple[Trial, Build | None]:
        """Wait for the oldest trial and return it with its build."""
        self._taken = True
        trial, known = self._queue.popleft()
        if trial.fault:
            return trial, Build(status=BuildStatus.FAILED, diagnostics=trial.fault)
        return trial, None if known else self._built(trial.candidate)

    def build(self, candidate: Candidate) -> Build:
        """Return a candidate's build, once there is one."""
        return self._built(candidate)
