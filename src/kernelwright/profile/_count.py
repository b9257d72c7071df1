"""Candidate → Counters: by every available profiler, each failure reported once."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType

from ..config import Settings
from ..devices import Device
from ..errors import ProfilerError, WorkerError
from ..records import Build, Candidate, Counters, Split
from ..sandbox import Pool, WorkerFailure
from ..tasks import Problem
from ._profiler import Profiler, Trial
from .tools import PROFILERS

_LIMIT_S = 60.0
_ARENA_BYTES = 1 << 12


class Counting:
    """Opened once per problem; a context manager.

    Covers: a separate run for each profiler, in a worker sandboxed as for verification; a tool that hangs, fails or
    returns nothing only loses its counters, and is not used again.
    Does not cover: workloads other than the first search workload; a quiet machine (hold the device's lock).
    """

    def __init__(
        self,
        problem: Problem,
        device: Device,
        *,
        profilers: Sequence[Profiler] = PROFILERS,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; workers start with the first candidate.

        Args:
            problem: What is computed.
            device: Where.
            profilers: Those available for the device are used.
            note: Receives, once per profiler, why it has no counters.
        """
        self._problem, self._device, self._note = problem, device, note
        self._settings = Settings.from_environment()
        self._profilers = [p for p in profilers if p.available(device).ok]
        self._pool: Pool | None = None
        self._noted: set[str] = set()

    def __enter__(self) -> "Counting":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.close()

    def __call__(
        self, candidate: Candidate, build: Build, *, deadline_s: float = _LIMIT_S
    ) -> tuple[Counters, ...]:
        """Return the counters of a candidate on the first search workload; empty if there are none."""
        found = []
        for profiler in list(self._profilers):
            trial = self._trial(candidate, build, min(deadline_s, _LIMIT_S))
            try:
                found.append(profiler.count(trial))
            except (ProfilerError, WorkerError, OSError) as error:
                self._profilers.remove(profiler)
                self._say(f"{profiler.name} counts nothing more in this run: {error}")
            except WorkerFailure as failure:
                self._say(f"{profiler.name} counted nothing of {candidate.key}: {failure}")
        return tuple(found)

    def _trial(self, candidate: Candidate, build: Build, limit_s: float) -> Trial:
        self._pool = self._pool or Pool(
            self._settings, arena_bytes=_ARENA_BYTES, device=self._device.torch_device
        )
        return Trial(
            problem=self._problem,
            candidate=candidate,
            build=build,
            workload=self._problem.task.split(Split.SEARCH)[0],
            device=self._device,
            settings=self._settings,
            pool=self._pool,
            deadline=time.monotonic() + limit_s,
        )

    def _say(self, message: str) -> None:
        if message not in self._noted:
            self._noted.add(message)
            self._note(message)
