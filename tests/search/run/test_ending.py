"""Whatever ends a run leaves a reason: in the store, or in the run's lock where the store cannot be written."""

import os
import signal
import subprocess
import sys

import pytest
from tests import forked

from kernelwright.errors import StoreError, WorkerError
from kernelwright.records import Budget, RunStatus
from kernelwright.search import ended_in_words
from kernelwright.store import Store
from kernelwright.testing import planted_task


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as store:
        yield store


@pytest.fixture
def run(store):
    return store.create_run(planted_task(), device="cpu-1", budget=Budget(), seed=0)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt("SIGHUP"), RunStatus.INTERRUPTED, "interrupted by SIGHUP"),
        (KeyboardInterrupt(), RunStatus.INTERRUPTED, "interrupted by SIGINT"),
        (BrokenPipeError(32, "Broken pipe"), RunStatus.INTERRUPTED, "nobody reads its output"),
        (GeneratorExit(), RunStatus.INTERRUPTED, "its caller left it"),
        (MemoryError(), RunStatus.FAILED, "no memory was left"),
        (
            ZeroDivisionError("division by zero"),
            RunStatus.FAILED,
            "ZeroDivisionError: division by zero (test_",
        ),
        (SystemExit(7), RunStatus.FAILED, "something asked to exit with code 7"),
        (WorkerError("no worker starts"), RunStatus.FAILED, "no worker starts"),
        (OSError(28, "No space left on device"), RunStatus.FAILED, "No space left"),
    ],
)
def test_every_exception_leaves_its_reason(store, run, error, status, words):
    with pytest.raises(type(error)), ended_in_words(store, run):
        raise error
    kept = store.run(run.id)
    assert kept.status is status and words in kept.reason
    assert store.ending(kept) == (status, kept.reason)
    assert store.events(run.id)[-1] == {"event": "error", "run": run.id, "message": kept.reason}


def test_a_store_that_cannot_be_written_has_the_reason_in_the_lock(store, run, monkeypatch):
    def full(*_, **__):
        raise StoreError("the disk is full")

    with pytest.raises(ZeroDivisionError), ended_in_words(store, run):
        monkeypatch.setattr(store, "append_event", full)
        raise ZeroDivisionError("in the end")
    assert store.run(run.id).status is RunStatus.RUNNING
    status, reason = store.ending(store.run(run.id))
    assert status is RunStatus.INTERRUPTED and reason.startswith("ZeroDivisionError: in the end")


def test_a_lock_has_its_room_from_the_beginning(store, run):
    lock = store.run_lock(run.id)
    with lock.hold():
        room = lock.path.stat().st_size
        lock.leave("x" * 10_000)
        assert lock.path.stat().st_size == room
    assert lock.owner().words.startswith("xxx")


KILLED = """
import os, signal, sys
from kernelwright.search import ended_in_words
from kernelwright.store import Store
with Store(sys.argv[1]) as store, ended_in_words(store, store.run("last")):
    if sys.argv[2] == "child" and os.fork() == 0:
        sys.stdin.read()  # outlives its parent, with the lock it inherited
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("left", ["nothing", "child"])
def test_a_killed_run_says_which_process_died_and_its_successor_writes_that_down(store, run, left):
    command = [sys.executable, "-c", KILLED, str(store.folder), left]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as died:
        assert died.wait(60) == -signal.SIGKILL
        status, reason = store.ending(store.run(run.id))
        assert status is RunStatus.INTERRUPTED
        assert f"its process {died.pid}, which had it since 20" in reason and "died without a word" in reason
        if left == "child":
            with pytest.raises(StoreError, match="a child of it is ending"), ended_in_words(store, run):
                pass
    if left == "nothing":
        with ended_in_words(store, run):
            assert store.ending(store.run(run.id)) == (RunStatus.RUNNING, "")
        assert store.events(run.id)[0]["message"] == reason


def test_a_number_used_again_is_another_process(store, run):
    lock = store.run_lock(run.id)
    with lock.hold():
        owner = lock.owner()
        assert owner.alive and owner.pid == os.getpid()
    assert not type(owner)(owner.pid, owner.ticks + 1, owner.since).alive


INTERRUPTED_TWICE = """
import os, signal, sys
from kernelwright.search import ended_in_words
from kernelwright.store import Store
with Store({folder!r}) as store:
    write = store.append_event
    def signalled(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        write(*arguments)
    store.append_event = signalled
    try:
        with ended_in_words(store, store.run("last")):
            raise KeyboardInterrupt("SIGTERM")
    except KeyboardInterrupt as error:
        print("caught", error)
"""


def test_a_second_signal_does_not_cut_off_what_is_said_of_the_first(store, run, tmp_path):
    done = forked.run(["-c", INTERRUPTED_TWICE.format(folder=str(store.folder))], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "caught SIGTERM\n"), done.stderr
    assert store.run(run.id).reason == "interrupted by SIGTERM"


def test_a_run_taken_up_again_has_no_reason_of_before(store, run):
    with pytest.raises(ZeroDivisionError), ended_in_words(store, run):
        raise ZeroDivisionError
    with ended_in_words(store, run):
        assert store.ending(store.run(run.id)) == (RunStatus.RUNNING, "")
