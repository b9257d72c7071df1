"""The Ray actor on a node: starts an evaluator process and hands it jobs.

The process has torch, the device and the cores; Ray's threads stay out of it, for it forks workers.
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from ._job import Job


class EvaluatorDied(RuntimeError):
    """The evaluator's process ended in the middle of a job, or did not start."""


class Actor:
    """Owns one evaluator process."""

    def __init__(self, asked: dict[str, object], *, owner: int | None = None) -> None:
        """Start it with the niceness of the owner, by default of this process's parent, which is Ray's on the node."""
        asked = asked | {"behind": not as_fast_as(owner or os.getppid())}
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kernelwright.cluster._evaluator", str(theirs.fileno()), json.dumps(asked)],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._done = "", ("", "")
        kind, self._place = self._receive()
        if kind != "ready":
            raise EvaluatorDied(self._place)

    def describe(self) -> str:
        """Return the evaluator's `Place`."""
        return self._place

    def work(self, job: Job, *files: bytes) -> tuple[str, str]:
        """Do a job, or return its answer again; it is `("answer", text)` or `("failed", reason)`."""
        if self._done[0] != job.key:
            try:
                self._connection.send((job, files))
            except OSError:
                raise EvaluatorDied(self._how()) from None
            self._done = job.key, self._receive()
        return self._done[1]

    def _receive(self) -> tuple[str, str]:
        try:
            kind, text = self._connection.recv()
        except (EOFError, OSError):
            raise EvaluatorDied(self._how()) from None
        return str(kind), str(text)

    def _how(self) -> str:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "the evaluator's process closed its connection"
        return f"the evaluator's process ended with exit code {code}"


def as_fast_as(pid: int) -> bool:
    """Give this process the niceness of another, and return whether it now is no higher.

    Ray starts its workers at a niceness of 15, so that whatever else a node does comes first; the node's own process
    has the niceness that its owner chose.

    Example:
        >>> as_fast_as(os.getpid())
        True
    """
    wanted = os.getpriority(os.PRIO_PROCESS, pid)
    for thread in Path("/proc/self/task").iterdir():  # Linux keeps a niceness for each thread
        with suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), min(wanted, _niceness(int(thread.name))))
    return _niceness(0) <= wanted


def _niceness(thread: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread)
