"""This process's end of a cluster: holds every job until its answer is here.

Covers: a Ray driver that crashes, is killed or hangs; a head that restarts; answers that arrive twice.
Does not cover: this process's own death: whoever submits jobs keeps their answers and submits the rest again.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..errors import ClusterError, fault_of
from ..system.resources import Resource
from ._files import name_of, pack
from ._job import Job, JobFailed, Place, versions
from ._queue import MOST_DEATHS, Queue

_SILENT_S = 30.0
"""A driver that says nothing for so long hangs, and is started again."""
_STARTING_S = 180.0
"""The same for its first word, before which it imports Ray and connects; twice as long for the next."""
_PATIENCE_S = 600.0
_RETRY_S = 2.0
_BEHIND = "other programs there come first: start the node with `RAY_worker_niceness=0 ray start ...`"


@dataclass(frozen=True)
class Event:
    """Something that happened to the cluster."""

    kind: str
    """`place`, `refused`, `lost`, `driver`."""
    message: str
    """What, in a sentence."""
    place: Place | None = None
    """The evaluator that joined or was refused."""


class Cluster(Resource):
    """Jobs in, answers out; every job is answered once.

    Thread-safe. Events are reported in a thread of the cluster's.
    """

    def __init__(
        self,
        address: str,
        *,
        device: str | None = None,
        cores: int = 0,
        patience_s: float = _PATIENCE_S,
        on_event: Callable[[Event], None] | None = None,
        driver: str = "kernelwright.cluster._driver",
    ) -> None:
        """Connect, and start evaluators wherever a node has room.

        Args:
            address: As `check_address` takes it.
            device: `cpu`, `cuda` or `hip`; by default each node's GPUs if Ray knows any, else its CPU.
            cores: Cores of the processor for each evaluator; by default all of the node, or the GPU's share of them.
            patience_s: How long to wait without any evaluator before all jobs fail.
            on_event: Called with each event.
            driver: The module that is the driver; it reads and writes what `_driver.py` does.
        """
        self._asked = json.dumps({"address": address, "device": device, "cores": cores})
        self._address, self._module, self._patience_s = address, driver, patience_s
        self._on_event = on_event or (lambda _: None)
        self._lock = threading.Condition()
        self._queue, self._futures = Queue[str](), dict[str, Future[str]]()
        self._files: dict[str, bytes] = {}
        self._places: dict[str, Place] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._closed, self._connected, self._fault = False, False, ""
        self._seen = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="cluster", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the cluster; unanswered jobs are cancelled. A second call does nothing."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
            self._lock.notify_all()
        self._thread.join()
        for future in self._futures.values():
            future.cancel()

    @property
    def places(self) -> tuple[Place, ...]:
        """The evaluators that are there now."""
        with self._lock:
            return tuple(self._places.values())

    def wait(self, count: int = 1, *, timeout_s: float = _PATIENCE_S) -> tuple[Place, ...]:
        """Wait until so many evaluators are there.

        Raises:
            ClusterError: they did not come, or there is no such cluster.
        """
        with self._lock:
            self._lock.wait_for(lambda: len(self._places) >= count or self._fault, timeout_s)
            if len(self._places) < count:
                why = (
                    self._fault or f"{len(self._places)} of {count} evaluators came within {timeout_s:.0f} s"
                )
                raise ClusterError(f"the cluster at {self._address} cannot be used: {why}")
            return tuple(self._places.values())

    def send(self, folder: Path) -> str:
        """Send a folder's content to every node that a job needs it on, and return its name for `Job.files`."""
        packed = pack(folder)
        name = name_of(packed)
        with self._lock:
            if name not in self._files:
                self._files[name] = packed
                self._tell(("file", name, packed))
        return name

    def submit(self, job: Job) -> "Future[str]":
        """Add a job and return its answer to be; raises `JobFailed` or `ClusterError` when asked for it."""
        future: Future[str] = Future()
        with self._lock:
            if self._fault or self._closed:
                future.set_exception(ClusterError(self._fault or "the cluster was left"))
                return future
            self._queue.add(job)
            self._futures[job.key] = future
            self._assign()
        return future

    def answers(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, "Future[str]"]]:
        """Submit jobs, a few ahead of the evaluators, and yield each with its answer, as they come."""
        coming, open_jobs = iter(jobs), dict[Future[str], Job]()
        while True:
            for job in islice(coming, max(0, 2 * len(self.places) + 1 - len(open_jobs))):
                open_jobs[self.submit(job)] = job
            if not open_jobs:
                return
            for future in wait(open_jobs, return_when=FIRST_COMPLETED).done:
                yield open_jobs.pop(future), future

    def _serve(self) -> None:
        """Keep a driver running, and take in what it says."""
        mute = 0
        try:
            while not self._closed:
                self._start()
                patience_s = min(_STARTING_S * 2**mute, max(_STARTING_S, self._patience_s))
                mute += 1
                while (message := self._next(patience_s)) is not None:
                    patience_s, mute = _SILENT_S, 0
                    if (event := self._hear(*message)) is not None:
                        self._on_event(event)
                if self._stop():
                    self._on_event(
                        Event("driver", "the connection to the cluster was lost; connecting again")
                    )
        except Exception as error:  # noqa: BLE001 - the listener's: without this thread no job would be answered
            self._fault = f"its events could not be told: {fault_of(error)}"
            self._stop()

    def _next(self, patience_s: float) -> tuple[str, str, Any] | None:
        """Return the driver's next message; None if it is gone or says nothing."""
        try:
            if self._connection is None or not self._connection.poll(patience_s):
                return None
            message: tuple[str, str, Any] = self._connection.recv()
            return message
        except (EOFError, OSError):
            return None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            if self._closed:
                ours.close()
                return
            self._connection = Connection(ours.detach())
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(theirs.fileno()), self._asked],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            for name, packed in self._files.items():
                self._tell(("file", name, packed))

    def _stop(self) -> bool:
        """Note that the driver is gone, wait a little, and return whether to start another."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            if self._connection is not None:
                self._connection.close()
            self._process = self._connection = None
            for name in list(self._places):
                self._gone(name, died=False)
            if not self._closed and time.monotonic() - self._seen > self._patience_s:
                self._fault = f"it was not there for {self._patience_s:.0f} s"
            if self._fault:
                self._give_up(self._fault)
            self._lock.wait_for(lambda: self._closed or self._fault, _RETRY_S)
            self._closed = self._closed or bool(self._fault)
            return not self._closed

    def _hear(self, kind: str, name: str, content: Any) -> Event | None:
        """Take in one message of the driver, and return what it amounts to."""
        with self._lock:
            match kind:
                case "alive":
                    self._look()
                case "place":
                    return self._arrived(name, Place.from_json(content))
                case "done":
                    self._answered(name, *content)
                case "lost":
                    died, reason = content
                    self._gone(name, died=died)
                    return Event("lost", f"evaluator {name} is lost: {reason}")
                case "refused":
                    self._fault = "" if self._connected else content
        return None

    def _look(self) -> None:
        if self._places or not self._queue.unanswered or not self._connected:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > self._patience_s:
            self._give_up(f"no node had an evaluator for {self._patience_s:.0f} s")
        self._connected = True

    def _arrived(self, name: str, place: Place) -> Event:
        differs = [f"{k} {v}" for k, v in versions().items() if place.versions.get(k) != v]
        if differs:
            return Event(
                "refused", f"{place.host} is not used: here is {', '.join(differs)}, there is not", place
            )
        self._places[name] = place
        self._queue.arrive(name, place.device.fingerprint)
        self._assign()
        self._lock.notify_all()
        shared = "" if place.alone else ", shared with another evaluator"
        behind = f"; {_BEHIND}" if place.behind else ""
        return Event(
            "place",
            f"evaluator {name} on {place.host}: {place.device.name}, cores {_ranges(place.cores)}{shared}, "
            f"noise {place.noise:.1%}{behind}",
            place,
        )

    def _answered(self, name: str, key: str, kind: str, text: str) -> None:
        if self._queue.done(name, key):
            future = self._futures.pop(key)
            if kind == "answer":
                future.set_result(text)
            else:
                future.set_exception(JobFailed(text))
        self._assign()

    def _gone(self, name: str, *, died: bool) -> None:
        self._places.pop(name, None)
        given_up = self._queue.leave(name, died=died)
        if given_up is not None:
            self._futures.pop(given_up.key).set_exception(
                JobFailed(f"{MOST_DEATHS} evaluators died of it, one after the other")
            )
        self._assign()

    def _assign(self) -> None:
        for name, job in self._queue.assign():
            self._tell(("job", name, job))

    def _tell(self, message: tuple[str, str, object]) -> None:
        """Send to the driver; what a driver that is gone did not get, the next one does."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.send(message)

    def _give_up(self, reason: str) -> None:
        self._fault = reason
        for future in self._futures.values():
            future.set_exception(ClusterError(f"the cluster at {self._address} cannot be used: {reason}"))
        self._futures.clear()
        self._lock.notify_all()


def _ranges(cores: tuple[int, ...]) -> str:
    """Format core numbers.

    Example:
        >>> _ranges((0, 1, 2, 5))
        '0-2, 5'
    """
    found: list[list[int]] = []
    for core in cores:
        if found and core == found[-1][-1] + 1:
            found[-1].append(core)
        else:
            found.append([core])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in found)
