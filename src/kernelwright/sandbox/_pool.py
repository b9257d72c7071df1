"""Make workers: stage what they load, fork them from zygotes, say which layers are active."""

import contextlib
import itertools
import os
import shutil
import socket
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

import psutil

from ..config import Settings
from ..errors import InputError, WorkerError
from ..languages.torch import COMPILE_FLAGS, RUNTIME_FLAGS
from ..records import Candidate, SourceFile
from ..system.resources import Resource
from . import _cuda
from ._arena import Arena
from ._channel import Channel
from ._confinement import Confinement, Isolation
from ._connection import Connection
from ._driver import DriverError
from ._holder import Holder, open_holder
from ._layers import active_layers
from ._namespaces import STAGING_FOLDER
from ._process import START_S
from ._promises import promises
from ._types import FailureKind, Payload, WorkerFailure
from ._worker import Worker
from ._zygote import COMPILER
from ._zygotes import PRELOADED, Key, Zygotes

_FIRST_UID, _UIDS = 200_000, 50_000
_LOOKS = 10


class Pool(Resource):
    """Zygotes, arenas and the workers made from them. A context manager; leaving it kills everything.

    Covers: what `layers` lists, and nothing that it does not list.
    Does not cover: what several workers share: processor caches, memory bandwidth, the kernel, and an arena
    that the judge binds for more than one of them.

    Example:
        >>> with Pool(Settings.from_environment({})) as pool:
        ...     "process-group" in pool.layers
        True
    """

    def __init__(
        self,
        settings: Settings,
        *,
        arena_bytes: int = 1 << 28,
        threads: int = 0,
        memory_bytes: int = 0,
        temporary_bytes: int = 1 << 30,
        processes: int = 1024,
        device: str = "cpu",
        under: Sequence[str] = (),
        start_s: float = START_S,
        zygotes: Zygotes | None = None,
    ) -> None:
        """Prepare; zygotes start with the first worker that needs them.

        Args:
            settings: `sandbox` chooses the isolation, `cache` keeps the baselines' compile cache.
            arena_bytes: size of `arena`.
            threads: threads of a kernel; 0: the physical cores.
            memory_bytes: address space of a worker beyond what it starts with; 0: half of the memory.
            temporary_bytes: size of a worker's temporary folder.
            processes: processes and threads of a worker.
            device: where the kernels run: `cpu` or `cuda:N`.
            under: a command of ours that starts each zygote, inside of its isolation: a profiler.
            start_s: seconds that a zygote may take to start.
            zygotes: some that were started ahead, to be closed with this; `settings`, `threads`, `under` and `start_s`
                were said to them.
        """
        self.device = device
        """Where the kernels run."""
        self._zygotes = zygotes or Zygotes(settings, threads=threads, under=under, start_s=start_s)
        self.threads = self._zygotes.threads
        """Threads of a kernel, the same in every worker."""
        self._arena_bytes = arena_bytes
        self._memory_bytes = memory_bytes or psutil.virtual_memory().total // 2
        self._temporary_bytes, self._processes = temporary_bytes, processes
        self._numbers = itertools.count()
        self._arenas: weakref.WeakValueDictionary[int, Arena] = weakref.WeakValueDictionary()
        self._first_arena: Arena | None = None
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._layers: dict[Isolation, tuple[str, ...]] = {}
        self._holder: Holder | None = None
        self.not_held = ""
        """Why inputs on a GPU are not kept back until the clock starts; empty where they are, or it was not tried."""

    @property
    def arena(self) -> Arena:
        """The pool's own arena, made when first asked for."""
        if self._first_arena is None:
            self._first_arena = self.new_arena(self._arena_bytes)
        return self._first_arena

    @property
    def isolation(self) -> Isolation:
        """The kind of file isolation in use: `bubblewrap`, `landlock` or `none`."""
        return self._zygotes.kind

    @property
    def layers(self) -> tuple[str, ...]:
        """Name the isolation layers that a probe worker found to hold, once for a kind of isolation."""
        if self.isolation not in self._layers:
            candidate = Candidate(
                sources=(SourceFile(path="probe.py", text="def nothing(): ...\n"),),
                language="torch",
                entry="probe.py:nothing",
            )
            with self.worker(Payload(candidate, device=self.device)) as worker:
                self._layers[self.isolation] = active_layers(worker, self.isolation)
        return self._layers[self.isolation]

    @property
    def promises(self) -> tuple[str, ...]:
        """Name what the layers that hold keep together: what may be relied on here, and nothing else."""
        return promises(self.layers)

    def new_arena(self, size_bytes: int) -> Arena:
        """Make another arena whose slots this pool's workers can be bound to; the caller closes it."""
        arena = Arena(size_bytes)
        self._arenas[arena.number] = arena
        return arena

    def prepare(self, baselines: Sequence[Candidate] = (), languages: Sequence[str] = ()) -> None:
        """Let zygotes import ahead, while other work goes on: those of candidates, then that of our own baselines."""
        needs = [_needs(c, trusted=True) for c in baselines]
        ours = [(True, max(needs, key=len))] if needs else []
        for key in dict.fromkeys([*((False, PRELOADED.get(name, ())) for name in languages), *ours]):
            self._zygotes.begin(key)

    def worker(self, payload: Payload, deadline_s: float = 60.0) -> Worker:
        """Start a fresh worker and load the payload.

        Raises:
            WorkerFailure: where the candidate does not load; the worker is gone.
            WorkerError: where no worker can be started at all.
        """
        if not payload.trusted and (asked := set(RUNTIME_FLAGS) & set(payload.candidate.flags)):
            said = f"flag {min(asked)!r} is for baselines: a candidate is code of its own, and follows its weights"
            raise WorkerFailure(FailureKind.ERROR, said)
        worker = self._ready(payload, deadline_s)
        try:
            worker.load(payload, self.threads, deadline_s)
            self._lend(worker, payload)
        except BaseException:
            worker.kill()
            raise
        self._workers.add(worker)
        return worker

    def taken_by_others_us(self) -> float:
        """Look for a moment whether something uses a GPU that the judge holds; 0 where it holds none.

        Returns:
            Microseconds that something had it; where it did not answer, those that were waited. No candidate may be
            there.
        """
        if self._holder is None:
            return 0.0
        begun = time.perf_counter()
        try:
            return sum(self._holder.sentry.look().lost_us for _ in range(_LOOKS))
        except DriverError:
            return 1e6 * (time.perf_counter() - begun)

    def close(self) -> None:
        """Kill every worker and zygote and remove what was staged."""
        for worker in list(self._workers):
            worker.kill()
        self._zygotes.close()
        for arena in list(self._arenas.values()):
            arena.close()

    def finish(self, deadline_s: float) -> str:
        """Kill every worker, let zygotes and what they are under end, and return what these printed.

        Raises:
            WorkerError: one failed or did not end in time; nothing of it is left.
        """
        for worker in list(self._workers):
            worker.kill()
        return self._zygotes.finish(deadline_s)

    def _lend(self, worker: Worker, payload: Payload) -> None:
        """Lend a worker on a GPU memory of ours; whether that can be done is found out with one that we trust."""
        if not worker.on_gpu or self.not_held:
            return
        if self._holder is None and payload.trusted:
            try:
                holder = open_holder(payload.device)
                worker.try_borrowing(holder, self.arena)
                self._holder = holder
            except DriverError as error:
                self.not_held = str(error)
            except WorkerFailure as failure:
                if not failure.alive:
                    raise
                self.not_held = failure.message
        if self._holder is not None:
            worker.borrow(self._holder)

    def _ready(self, payload: Payload, deadline_s: float) -> Worker:
        """Start a worker whose layers are closed and which has seen nothing of the candidate yet."""
        worker = self._start(payload)
        try:
            worker.make_ready(deadline_s)
        except WorkerFailure as failure:
            if self._zygotes.degrade():
                return self._ready(payload, deadline_s)
            said = (failure.output.strip().splitlines() or ["it said nothing"])[-1]
            raise WorkerError(
                f"a worker did not close itself in by {self.isolation!r}: {failure.message}; {said[:200]}; "
                "set KERNELWRIGHT_SANDBOX to another kind"
            ) from None
        return worker

    def _start(self, payload: Payload) -> Worker:
        staged = self._stage(payload)
        try:
            return self._fork(payload, staged)
        except WorkerError:  # the zygote may have died since it last answered: once more, with another
            return self._fork(payload, staged)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise

    def _fork(self, payload: Payload, staged: Path) -> Worker:
        zygote = self._zygotes.ready(self._key(payload))
        confinement = self._confinement(payload, staged)
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        try:
            child, pidfd = zygote.fork(confinement, theirs.fileno(), write)
        except BaseException:
            ours.close()
            os.close(read)
            raise
        finally:
            theirs.close()
            os.close(write)
        connection = Connection(zygote, Channel(ours, read, pidfd), child, pidfd, staged)
        return Worker(connection, self._arena_numbered)

    def _key(self, payload: Payload) -> Key:
        """Say by whom a worker is forked: what we trust, by the zygote that has imported most already.

        What needs nothing more than all do is forked by the first that was started, where that is no trusted one.
        """
        needs = _needs(payload.candidate, trusted=payload.trusted)
        if not payload.trusted and not needs:
            return next((key for key in self._zygotes.keys[:1] if not key[0]), (False, ()))
        wider = [
            key for key in self._zygotes.keys if key[0] and payload.trusted and set(needs) <= set(key[1])
        ]
        return max(wider, key=lambda key: len(key[1]), default=(payload.trusted, needs))

    def _stage(self, payload: Payload) -> Path:
        staged = self._zygotes.staging / f"{next(self._numbers)}-{os.urandom(8).hex()}"
        (staged / "tmp").mkdir(parents=True)
        if payload.artefact is None:
            (staged / "build").mkdir()
        elif Path(payload.artefact).is_dir():
            shutil.copytree(payload.artefact, staged / "build")
        else:
            raise InputError(f"artefact {payload.artefact!r} is not a folder; expected what `build` returned")
        for path in (staged / "build", *(staged / "build").rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return staged

    def _confinement(self, payload: Payload, staged: Path) -> Confinement:
        inside = Path(STAGING_FOLDER) / staged.name if self.isolation == "bubblewrap" else staged
        own_user = self.isolation == "bubblewrap" and os.geteuid() == 0 and not payload.trusted
        return Confinement(
            isolation=self._zygotes.kind,
            staged=str(inside),
            trusted=payload.trusted,
            gpu=_cuda.is_gpu(payload.device) or payload.candidate.language in ("opencl", "wgsl"),
            memory_bytes=self._memory_bytes,
            temporary_bytes=self._temporary_bytes,
            processes=self._processes,
            uid=_FIRST_UID + next(self._numbers) % _UIDS if own_user and _others_may_read() else None,
            writable=(str(self._zygotes.baselines),) if payload.trusted else (),
        )

    def _arena_numbered(self, number: int) -> Arena:
        arena = self._arenas.get(number)
        if arena is None:
            raise InputError(f"slot of arena {number}, which this pool did not make; use `new_arena`")
        return arena


def _needs(candidate: Candidate, *, trusted: bool) -> tuple[str, ...]:
    """Name what is imported before the fork; of what we do not trust as little as is certain to be used."""
    if trusted and set(COMPILE_FLAGS) & set(candidate.flags):
        return COMPILER
    return PRELOADED.get(candidate.language, ())


def _others_may_read() -> bool:
    """Tell whether a user without rights of ours could read Python, its packages and our own source."""
    import torch

    paths = (sys.prefix, sys.base_prefix, os.__file__, torch.__file__, __file__, str(Path(__file__).parent))
    with contextlib.suppress(OSError):
        return all(Path(path).stat().st_mode & 0o004 for path in paths)
    return False
