"""Which job is where: every job is answered once, however often its evaluators are lost.

Knows nothing of Ray, processes or time.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ._job import Job

MOST_DEATHS = 5
"""How many evaluators may die during one job before it counts as the job's own fault."""
N = TypeVar("N", bound=Hashable)


@dataclass
class _Entry:
    job: Job
    deaths: int = 0


@dataclass
class Queue(Generic[N]):
    """Waiting and running jobs; an evaluator has one job at a time, and takes the next when it is done.

    A job goes to whichever suitable evaluator is free first, so that a slow one simply gets fewer.

    Example:
        >>> queue = Queue[str]()
        >>> queue.add(Job("k", "m:f"))
        >>> queue.arrive("a", "cpu-1")
        >>> [(name, job.key) for name, job in queue.assign()]
        [('a', 'k')]
        >>> queue.leave("a"), queue.waiting
        (None, 1)
        >>> queue.arrive("b", "cpu-1")
        >>> [name for name, _ in queue.assign()], queue.done("b", "k"), queue.done("a", "k")
        (['b'], True, False)
    """

    _waiting: deque[str] = field(default_factory=deque)
    _open: dict[str, _Entry] = field(default_factory=dict)
    _devices: dict[N, str] = field(default_factory=dict)
    _running: dict[N, str] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many jobs no evaluator has."""
        return len(self._waiting)

    @property
    def unanswered(self) -> int:
        """How many jobs have no answer."""
        return len(self._open)

    def add(self, job: Job) -> None:
        """Add a job; its key must not be open."""
        if job.key in self._open:
            raise ValueError(f"job {job.key!r} is open already")
        self._open[job.key] = _Entry(job)
        self._waiting.append(job.key)

    def drop(self, key: str) -> None:
        """Forget a job that nobody waits for any more; an answer that still comes is not the first."""
        if self._open.pop(key, None) is not None and key in self._waiting:
            self._waiting.remove(key)

    def arrive(self, evaluator: N, device: str) -> None:
        """Note a free evaluator and the fingerprint of its device."""
        self._devices[evaluator] = device

    def leave(self, evaluator: N, *, died: bool = False) -> Job | None:
        """Note that an evaluator is gone; its job waits again, ahead of all others.

        Args:
            evaluator: The evaluator.
            died: Whether its own process ended, perhaps of the job, and not its node or the cluster.

        Returns:
            The job, if so many evaluators died of it that it is given up.
        """
        self._devices.pop(evaluator, None)
        entry = self._open.get(self._running.pop(evaluator, ""))
        if entry is None:
            return None
        entry.deaths += died
        if entry.deaths >= MOST_DEATHS:
            return self._open.pop(entry.job.key).job
        self._waiting.appendleft(entry.job.key)
        return None

    def done(self, evaluator: N, key: str) -> bool:
        """Note an answer; return whether it is the first to this job."""
        if self._running.get(evaluator) == key:
            del self._running[evaluator]
        if self._open.pop(key, None) is None:
            return False
        if key in self._waiting:  # answered by an evaluator that was believed lost
            self._waiting.remove(key)
        return True

    def assign(self) -> Iterator[tuple[N, Job]]:
        """Give waiting jobs to free evaluators, in the order added."""
        for evaluator, device in self._devices.items():
            if evaluator in self._running:
                continue
            for key in self._waiting:
                job = self._open[key].job
                if job.device in ("", device):
                    self._waiting.remove(key)
                    self._running[evaluator] = key
                    yield evaluator, job
                    break
