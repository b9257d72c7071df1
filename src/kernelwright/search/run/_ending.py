"""How a run ends: whatever ends it leaves a reason in the store.

Covers: every exception that reaches the run, signals included; a store that cannot be written, where the reason
goes into the run's lock; an earlier process that died without a word, which the next one on the run writes down.
Does not cover: what ends a process at once (SIGKILL, a crash in compiled code): `Store.ending` tells that it is gone.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import StoreError, end_of
from ...records import Run, RunStatus
from ...store import RunLock, Store, death_of

_ASKED_TO_END = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU})


@contextmanager
def ended_in_words(store: Store, run: Run) -> Iterator[None]:
    """Hold a run while it goes on, and leave behind why it ended if it does not end well."""
    lock = store.run_lock(run.id)
    with lock.hold() as before:
        try:
            if before is not None and store.run(run.id).status is RunStatus.RUNNING:
                store.append_event(run.id, {"event": "error", "run": run.id, "message": death_of(before)})
            store.finish_run(run.id, RunStatus.RUNNING)
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt | BrokenPipeError | GeneratorExit)
            status = RunStatus.INTERRUPTED if stopped else RunStatus.FAILED
            with _undisturbed():
                _leave(store, lock, run, status, end_of(error))
            raise


def _leave(store: Store, lock: RunLock, run: Run, status: RunStatus, reason: str) -> None:
    try:
        store.append_event(run.id, {"event": "error", "run": run.id, "message": reason})
        store.finish_run(run.id, status, reason=reason)
    except StoreError:
        lock.leave(reason)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no second signal cut off what is written about the first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A mask would be this thread's alone: another would take the signal, and Python act on it here.
    before = {number: signal.signal(number, lambda *_: None) for number in _ASKED_TO_END}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
