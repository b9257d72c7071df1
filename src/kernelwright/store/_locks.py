"""Locks between processes, based on `flock`: the kernel releases them however their holder dies."""

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ..errors import BusyError, StoreError

_POLL_S = 0.05
_ROOM = 2048
"""Bytes preallocated in a run's lock file, so that its final message fits even on a full disk."""


class DeviceLock:
    """Allows one timing section at a time on a device, across runs and stores.

    It is held while timing, not while building. Reentrant within a thread.

    Covers: all runs of this user on this machine.
    Does not cover: other users, containers with their own file system, anything that is not Kernelwright.
    """

    def __init__(self, folder: Path, device: str) -> None:
        self.path = folder / f"{device}.lock"
        self._depth = 0
        self.waited_s = 0.0
        """Seconds spent waiting so far."""

    @contextmanager
    def hold(
        self,
        on_wait: Callable[[str], None] | None = None,
        *,
        left_s: Callable[[], float] = lambda: math.inf,
    ) -> Iterator[None]:
        """Hold the device.

        Args:
            on_wait: Called once with a sentence if another run holds it.
            left_s: Seconds left to wait, polled.

        Raises:
            BusyError: another run holds it, and no time is left.
        """
        if self._depth:
            yield
            return
        file = _open(self.path)
        try:
            self._take(file, on_wait, left_s)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
        finally:
            os.close(file)

    def _take(self, file: int, on_wait: Callable[[str], None] | None, left_s: Callable[[], float]) -> None:
        start = time.monotonic()
        told = on_wait is None
        while not _try(file):
            if not told and on_wait is not None:
                on_wait(f"another run (process {_holder(file)}) is timing on this device; waiting for it")
                told = True
            if left_s() <= 0:
                raise BusyError(
                    f"process {_holder(file)} held the device until the time was up; `kernelwright resume` goes on"
                )
            time.sleep(_POLL_S)
        self.waited_s += time.monotonic() - start
        _sign(file)


@dataclass(frozen=True)
class Owner:
    """The process that holds a run, or last held it."""

    pid: int
    """Its process id."""
    ticks: int
    """Its start time in ticks since boot; together with the id it identifies the process uniquely."""
    since: str
    """When it acquired the run, UTC, ISO 8601."""
    words: str = ""
    """Why it ended, if it could record that only here and not in the store."""

    @classmethod
    def here(cls) -> "Owner":
        """Return this process."""
        pid = os.getpid()
        return cls(pid, _started(pid), datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def alive(self) -> bool:
        """Whether it is still running; a different process with the same id does not count."""
        return _started(self.pid) == self.ticks


class RunLock:
    """Marks a run as running while its process lives, and records its last owner after that."""

    def __init__(self, folder: Path, run: str) -> None:
        self.path = folder / f"{run}.lock"
        self._file = -1

    @contextmanager
    def hold(self) -> Iterator[Owner | None]:
        """Hold the run and yield its previous owner; raises `StoreError` if another process holds it."""
        file = _open(self.path)
        try:
            if not _try(file):
                raise StoreError(self._taken(_owner(file)))
            before, self._file = _owner(file), file
            _write(file, Owner.here())
            yield before
        finally:
            self._file = -1
            os.close(file)

    def leave(self, words: str) -> None:
        """Record in the lock file why the run ended, if the store cannot be written; the lock must be held."""
        _write(self._file, replace(Owner.here(), words=words))

    def held(self) -> bool:
        """Return whether a process holds the run now; a child that outlived its owner does not count."""
        if not self.path.exists():
            return False
        file = _open(self.path)
        try:
            owner = _owner(file)
            return not _try(file) and (owner is None or owner.alive)
        finally:
            os.close(file)

    def owner(self) -> Owner | None:
        """Return the current or last owner. None if there was none, or the disk was full."""
        if not self.path.exists():
            return None
        file = _open(self.path)
        try:
            return _owner(file)
        finally:
            os.close(file)

    def _taken(self, owner: Owner | None) -> str:
        run = self.path.stem
        if owner is not None and not owner.alive:
            return (
                f"process {owner.pid}, which had run {run!r}, is dead and a child of it is ending; try again"
            )
        return (
            f"run {run!r} is going on in process {owner.pid if owner else 'unknown'}; wait for it or stop it"
        )


def _started(pid: int) -> int:
    """Return a process's start time in ticks since boot; -1 if there is no such process, or it is a zombie."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if state in {"Z", "X"} else int(fields[18])


def _write(file: int, owner: Owner) -> None:
    """Write the owner into a run's lock file, in the preallocated space; the lock is held in any case."""
    line = json.dumps(asdict(replace(owner, words=owner.words[: _ROOM // 8])))
    with suppress(OSError):
        os.pwrite(file, line.encode().ljust(_ROOM), 0)


def _owner(file: int) -> Owner | None:
    try:
        return Owner(**json.loads(os.pread(file, _ROOM, 0)))
    except (OSError, ValueError, TypeError):
        return None


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(
            f"the lock {path} cannot be opened ({error.strerror}); fix its permissions, or choose another folder with "
            "KERNELWRIGHT_CACHE or --store"
        ) from error


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(file: int) -> None:
    """Write the holder's name if the disk has space; the lock is held in any case."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)


def _holder(file: int) -> str:
    return os.pread(file, 20, 0).decode() or "unknown"
