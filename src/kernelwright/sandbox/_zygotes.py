"""The zygotes of a pool: choose the isolation, start each when it is needed, keep those that live.

It imports no torch, so that zygotes can begin to while whoever asked for them does, on another core.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from ..config import Settings
from ..errors import InputError, MissingToolError, WorkerError
from ..system.compile_cache import remove_incomplete
from ..system.landlock import landlock_version
from ..system.resources import Resource
from ._bubblewrap import CACHE_FOLDER, bubblewrap
from ._confinement import Isolation
from ._environment import environment, physical_cores
from ._process import START_S, Zygote

Key = tuple[bool, tuple[str, ...]]
"""Whether its workers are trusted, and the modules that it imports beyond what all do."""

STAGING = "kernelwright-pool-"
PRELOADED = {
    "cuda": ("kernelwright.executor.candidates", "torch.utils.cpp_extension"),
    "triton": ("triton", "kernelwright.executor.candidates"),
    "gluon": ("triton", "kernelwright.executor.candidates"),
    "cute": ("cutlass",),
    "opencl": ("pyopencl",),
    "wgsl": ("wgpu",),
}
"""Modules that a language's own zygote imports beyond what all do."""
_LEFT_AFTER_S = 60.0
_KINDS: tuple[Isolation, ...] = ("bubblewrap", "landlock", "none")


class Zygotes(Resource):
    """The processes that workers are forked from, by what they have imported. A context manager.

    Example:
        >>> with Zygotes(Settings.from_environment({})) as zygotes:
        ...     zygotes.kind in ("bubblewrap", "landlock", "none")
        True
    """

    def __init__(
        self, settings: Settings, *, threads: int = 0, under: Sequence[str] = (), start_s: float = START_S
    ) -> None:
        """Choose the isolation; each zygote starts when it is asked for.

        Args:
            settings: `sandbox` chooses the isolation, `cache` keeps the baselines' compile cache.
            threads: threads of a kernel; 0: the physical cores.
            under: a command of ours that starts each zygote, inside of its isolation: a profiler.
            start_s: seconds that a zygote may take to start.

        Raises:
            InputError: no isolation of that name.
            MissingToolError: the isolation that was asked for is not to be had here.
        """
        self.threads = threads or physical_cores()
        """Threads of a kernel, the same in every worker."""
        self.kind = _choose(settings.sandbox)
        """The kind of file isolation in use."""
        self.baselines = settings.cache / "baselines"
        """The compile cache of trusted workers."""
        self._settings, self._under, self._start_s = settings, tuple(under), start_s
        sweep(Path(tempfile.gettempdir()))
        self.staging = Path(tempfile.mkdtemp(prefix=f"{STAGING}{os.getpid()}-"))
        """Folder that zygotes see, for what their workers load."""
        self._running: dict[Key, Zygote] = {}

    @property
    def keys(self) -> tuple[Key, ...]:
        """Those that were started, in that order."""
        return tuple(self._running)

    def begin(self, key: Key = (False, ())) -> None:
        """Start a zygote unless there is one, by default that of plain candidates; it is not waited for."""
        if key not in self._running:
            self._start(key)

    def begin_for(self, language: str) -> None:
        """Start the zygote of a language's candidates, and no other, where nothing else will be forked."""
        self.begin((False, PRELOADED.get(language, ())))

    def ready(self, key: Key) -> Zygote:
        """Return a zygote that is up; a weaker kind of isolation where this one does not start, if that is ours.

        Raises:
            WorkerError: it does not start.
        """
        if key not in self._running or not self._running[key].alive:
            self._start(key)
        zygote = self._running[key]
        try:
            zygote.wait(self._start_s)
        except WorkerError:
            if not self.degrade():
                raise
            return self.ready(key)
        return zygote

    def degrade(self) -> bool:
        """Go on with the next weaker kind where the choice is ours; tell whether there was one."""
        if self._settings.sandbox != "auto" or self.kind == "none":
            return False
        self.kind = "landlock" if self.kind == "bubblewrap" and landlock_version() else "none"
        self._hang_up()
        return True

    def finish(self, deadline_s: float) -> str:
        """Let all of them end, and what they are under, and return what was printed.

        Raises:
            WorkerError: one failed or did not end in time; nothing of it is left.
        """
        said = [zygote.finish(deadline_s) for zygote in self._running.values()]
        self._running.clear()
        return "".join(said)

    def close(self) -> None:
        """End all of them and remove what was staged."""
        self._hang_up()
        shutil.rmtree(self.staging, ignore_errors=True)

    def _hang_up(self) -> None:
        for zygote in self._running.values():
            zygote.close()
        self._running.clear()

    def _start(self, key: Key) -> None:
        """Start a zygote in the place of the one that was."""
        trusted, preload = key
        if key in self._running:
            self._running.pop(key).close()
        cache = self.baselines if trusted else None
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
            remove_incomplete(cache)
        seen = CACHE_FOLDER if self.kind == "bubblewrap" else str(cache)
        surroundings = environment(self.threads, seen if cache else None)
        plain = self._running.get((False, ()))
        if (trusted or preload) and plain is not None and self._splits(plain):
            with contextlib.suppress(WorkerError):
                self._running[key] = plain.split(surroundings, preload)
                return
        self._running[key] = Zygote(self.kind, self.staging, surroundings, cache, preload, under=self._under)

    def _splits(self, plain: Zygote) -> bool:
        """Whether another zygote can be forked from that of plain candidates, which then need not import torch again.

        Not where a file system of its own was made for it, and not where its workers might reach it.
        """
        known = plain.nesting not in {None, "none"} and plain.alive
        return known and self.kind != "bubblewrap" and not self._under


def _choose(wanted: str) -> Isolation:
    if wanted == "bubblewrap" and bubblewrap() is None:
        raise MissingToolError("sandbox 'bubblewrap' needs `bwrap`; install the package bubblewrap")
    if wanted == "landlock" and not landlock_version():
        raise MissingToolError("sandbox 'landlock' needs Linux 5.13 or later with Landlock switched on")
    if wanted == "auto":
        return "bubblewrap" if bubblewrap() else "landlock" if landlock_version() else "none"
    for kind in _KINDS:
        if kind == wanted:
            return kind
    raise InputError(f"sandbox {wanted!r} is not known; expected auto, {', '.join(_KINDS)}")


def sweep(folder: Path) -> None:
    """Remove what was staged by judges that were killed: older than a minute, and their process is gone."""
    for left in folder.glob(f"{STAGING}*"):
        owner = left.name.removeprefix(STAGING).partition("-")[0]
        with contextlib.suppress(OSError):
            old = time.time() - left.stat().st_mtime > _LEFT_AFTER_S
            if old and owner.isdigit() and not psutil.pid_exists(int(owner)):
                shutil.rmtree(left, ignore_errors=True)
