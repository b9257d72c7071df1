"""Records why a run ended, whatever ended it.

Covers: every exception that reaches the run, signals included; a store that cannot be written, when the reason
goes into the run's lock; an earlier process that died silently, which the next process on the run records.
Does not cover: what kills a process at once (SIGKILL, a crash in compiled code): `Store.ending` reports it as gone.
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
    """Hold a run's lock while it runs, and record why it ended if it does not end normally."""
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
            with _signals_ignored():
                _record_end(store, lock, run, status, end_of(error))
            raise


def _record_end(store: Store, lock: RunLock, run: Run, status: RunStatus, reason: str) -> None:
    try:
        store.append_event(run.id, {"event": "error", "run": run.id, "message": reason})
        store.finish_run(run.id, status, reason=reason)
    except StoreError:
        lock.leave(reason)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Keep a second signal from interrupting the record of the first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal mask covers this thread only: another thread would receive the signal, and Python would handle it here.
    before = {number: signal.signal(number, lambda *_: None) for number in _ASKED_TO_END}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
