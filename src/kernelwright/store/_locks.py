"""Locks between processes, by `flock`: the kernel lets go of them however their holder dies."""

import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import BusyError, StoreError

_POLL_S = 0.05


class DeviceLock:
    """One timing section at a time on one device, across runs and stores.

    It is held while something is timed and not while something is built. A thread that holds it may
    take it again.

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
            on_wait: Told once, in a sentence, if another run has it.
            left_s: Seconds left to wait, asked now and then.

        Raises:
            BusyError: another run has it, and no time is left.
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


class RunLock:
    """Says that a run is going on, for as long as its process lives."""

    def __init__(self, folder: Path, run: str) -> None:
        self.path = folder / f"{run}.lock"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the run; raises `StoreError` where another process has it."""
        file = _open(self.path)
        try:
            if not _try(file):
                raise StoreError(
                    f"run {self.path.stem!r} is going on in process {_holder(file)}; wait for it or stop it"
                )
            _sign(file)
            yield
        finally:
            os.close(file)

    def held(self) -> bool:
        """Tell whether some process holds the run now."""
        if not self.path.exists():
            return False
        file = _open(self.path)
        try:
            return not _try(file)
        finally:
            os.close(file)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(
            f"the lock {path} cannot be opened ({error.strerror}); mend its permissions, or choose another folder with "
            "KERNELWRIGHT_CACHE or --store"
        ) from error


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(file: int) -> None:
    """Say who holds it, where the disk has room for that; it is held in any case."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)


def _holder(file: int) -> str:
    return os.pread(file, 20, 0).decode() or "unknown"
