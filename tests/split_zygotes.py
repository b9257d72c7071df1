"""Zygotes of pools that need not import torch: each is forked from one that has, as pools fork those of baselines.

To import torch takes three seconds of a processor, with its compiler seven, and most tests that judge open a pool of
their own, which starts a zygote. `REAL` folders start them as they start for users.

Covers: zygotes under Landlock whose workers cannot reach them; they have all that others have but the time of imports.
Does not cover: bubblewrap, machines without Landlock, zygotes under a tool; these start as they do for users.
"""

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from kernelwright.errors import WorkerError
from kernelwright.sandbox._environment import environment, physical_cores
from kernelwright.sandbox._process import Zygote, _Descendant
from kernelwright.sandbox._zygote import COMPILER
from kernelwright.sandbox._zygotes import Key, Zygotes
from kernelwright.system.compile_cache import remove_incomplete

REAL = {"adversarial", "benign", "gpu", "sandbox", "system"}
"""Folders of tests in which every pool starts zygotes of its own."""
_start = Zygotes._start
_imported: dict[tuple[object, ...], Zygote] = {}
_lock = threading.RLock()
_owner = [os.getpid()]
"""The process that asks them; another that was forked from it starts its own."""


@contextlib.contextmanager
def split_zygotes() -> Iterator[None]:
    """Fork what pools start meanwhile from zygotes of this process, one for each environment and set of modules."""
    with mock.patch.object(Zygotes, "_start", _split):
        yield


def import_ahead() -> None:
    """Start one for processes that are forked from this one, one after the other."""
    _having_imported(physical_cores(), ())


def inherit() -> None:
    """Fork zygotes from those of the process that this one was forked from, until it ends."""
    _owner[0] = os.getpid()
    for zygote in _imported.values():
        atexit.unregister(zygote.close)
        pidfd = os.pidfd_open(zygote._process.pid)
        zygote._process = _Descendant(pidfd)  # `Popen` tells of own children alone
    Zygotes._start = _split  # type: ignore[method-assign]  # for as long as this process lives


def _split(pool: Zygotes, key: Key) -> None:
    trusted, preload = key
    if (
        pool.kind != "landlock"
        or pool._under
        or (trusted and preload != COMPILER)
        or os.getpid() != _owner[0]
    ):
        return _start(pool, key)
    zygote = _having_imported(pool.threads, preload)
    if zygote is None:
        return _start(pool, key)
    if trusted:
        pool.baselines.mkdir(parents=True, exist_ok=True)
        remove_incomplete(pool.baselines)
    surroundings = environment(pool.threads, str(pool.baselines) if trusted else None)
    if key in pool._running:
        pool._running.pop(key).close()
    with contextlib.suppress(WorkerError):
        pool._running[key] = zygote.split(surroundings, preload)
        return None
    return _start(pool, key)


def _having_imported(threads: int, preload: tuple[str, ...]) -> Zygote | None:
    """Return a zygote that has the modules; none where its workers could reach what is forked from it."""
    if preload == COMPILER:
        preload = COMPILER[:-1]  # the last comes with them, and only who has a cache compiles once
    surroundings = environment(threads, None)
    kind = (preload, *sorted(surroundings.items()))
    with _lock, contextlib.suppress(WorkerError):
        if kind not in _imported or not _imported[kind].alive:
            plain = _having_imported(threads, ()) if preload else None
            _imported[kind] = (
                plain.split(surroundings, preload)
                if plain
                else Zygote("landlock", Path("/"), surroundings, None, preload)
            )
            atexit.register(_imported[kind].close)
        _imported[kind].wait()
        return _imported[kind] if _imported[kind].nesting != "none" else None
    return None
