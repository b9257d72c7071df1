"""The judge's hold on one zygote: start it, ask it for workers, end it."""

import contextlib
import copy
import fcntl
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

from ..errors import WorkerError
from . import _bubblewrap, _inspection
from ._confinement import MESSAGE_BYTES, Confinement, Nesting

START_S = 120.0
"""Seconds that a zygote may take to import everything."""
_ANSWER_S, _END_S = 30.0, 5.0
_MOST_SAID = 1 << 22


class Zygote:
    """A running zygote. Requests are served one at a time; any thread may ask.

    It starts on its own; `wait` for it before the first request.
    """

    def __init__(
        self,
        isolation: str,
        staging: Path,
        environment: dict[str, str],
        cache: Path | None,
        preload: tuple[str, ...],
        *,
        under: tuple[str, ...] = (),
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        options = json.dumps({"preload": preload, "leave_network": isolation == "landlock"})
        self._process: subprocess.Popen[bytes] | _Descendant
        line = [*under, sys.executable, "-m", f"{__package__}._zygote", str(theirs.fileno()), options]
        if isolation == "bubblewrap":
            line = _bubblewrap.command(staging, cache, line, under=bool(under))
        self._control = ours
        self._lock = threading.Lock()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        with theirs:
            self._process = subprocess.Popen(
                line, env=environment, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output,
                pass_fds=(theirs.fileno(),), start_new_session=True, cwd="/",
            )  # fmt: skip
            if not under:  # a tool that dies by a signal would leave what it started
                _end_at_hang_up(theirs, self._process.pid)
        self._end_s = 0.0 if under else _END_S
        self.nesting: Nesting | None = None
        """How its workers get a PID namespace; none until it was waited for."""

    def split(self, environment: dict[str, str], preload: tuple[str, ...]) -> "Zygote":
        """Return another zygote, forked from this one, which was waited for: what this one imported it has already.

        It ends with this one. It starts on its own, as any does.

        Raises:
            WorkerError: this one is gone.
        """
        other = copy.copy(self)
        other._lock, other.nesting = threading.Lock(), None
        other._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        other._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps({"preload": preload, "environment": environment}).encode()
        with theirs:
            _, pidfd = self._asked(request, theirs.fileno(), other._output.fileno())
        other._process = _Descendant(pidfd)
        return other

    def wait(self, limit_s: float = START_S) -> None:
        """Wait until it has imported everything; raises `WorkerError` where it does not come to that."""
        if self.nesting is None:
            try:
                self.nesting = self._answer(max(limit_s, 0.0))[0]["nesting"]
            except WorkerError:
                self.close()
                raise

    @property
    def alive(self) -> bool:
        """Whether it can still fork."""
        return self._control.fileno() >= 0 and self._process.poll() is None

    def fork(self, confinement: Confinement, channel: int, output: int) -> tuple[int, int]:
        """Start a worker; returns the zygote's number for it and a descriptor of its process."""
        return self._asked(confinement.to_json().encode(), channel, output)

    def _asked(self, request: bytes, channel: int, output: int) -> tuple[int, int]:
        """Return the number and a descriptor of the process that was forked as a request wants it."""
        with self._lock:
            try:
                socket.send_fds(self._control, [request], [channel, output])
                answer, descriptors = self._answer(_ANSWER_S)
            except (OSError, WorkerError) as error:
                self.close()
                raise WorkerError(f"the zygote is gone: {error}") from None
        return answer["child"], descriptors[0]

    def status(self, child: int) -> int | None:
        """Return the exit status of a worker that ended (negative: the signal), none where not known."""
        with self._lock, contextlib.suppress(OSError, WorkerError):
            self._control.send(json.dumps({"status": child}).encode())
            status: int | None = self._answer(_ANSWER_S)[0]["status"]
            return status
        return None

    def forget(self, child: int) -> None:
        """Let the zygote drop its record of a worker."""
        self.status(child)

    def close(self) -> None:
        """Hang up; the zygote kills its workers and ends, at once where it still imports or is under a tool."""
        if self._control.fileno() < 0:
            return
        self._hang_up(self._end_s)
        self._output.close()

    def finish(self, deadline_s: float) -> str:
        """Hang up, wait for it and what it is under to end, and return what was printed.

        Raises:
            WorkerError: it failed, or was killed because it did not end in time.
        """
        ended, said = self._hang_up(deadline_s), self._said(_MOST_SAID)
        self._output.close()
        last = (said.splitlines() or ["it said nothing"])[-1][:300]
        if not ended:
            raise WorkerError(f"it did not end within {deadline_s:.0f} s and was killed: {last}")
        if self._process.returncode != 0:
            raise WorkerError(f"it ended with status {self._process.returncode}: {last}")
        return said

    def _hang_up(self, limit_s: float) -> bool:
        """Tell whether it ended by itself; if not it is killed, with all that it started."""
        self._control.close()
        try:
            self._process.wait(max(limit_s, 0.0))
        except subprocess.TimeoutExpired:
            pidfd = os.pidfd_open(self._process.pid)
            _inspection.kill_tree(self._process.pid, pidfd)
            os.close(pidfd)
            self._process.wait()
            return False
        return True

    def _answer(self, deadline_s: float) -> tuple[dict[str, Any], list[int]]:
        self._control.settimeout(deadline_s)
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1)
        except OSError as error:
            raise WorkerError(f"the zygote does not answer ({error}): {self._said()}") from None
        if not data:
            raise WorkerError(f"the zygote did not start or died: {self._said()}")
        return json.loads(data), descriptors

    def _said(self, most: int = 2000) -> str:
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), most, max(0, size - most)).decode(errors="replace").strip()


class _Descendant:
    """A process that a zygote forked, which reaps it; known by a descriptor. Behaves like a `Popen`."""

    returncode = 0

    def __init__(self, pidfd: int) -> None:
        self.pid, self._pidfd = _inspection.pid_of(pidfd), pidfd
        weakref.finalize(self, os.close, pidfd)

    def poll(self) -> int | None:
        """Return none while it runs, and 0 then: how it ended is not ours to know."""
        return 0 if select.select([self._pidfd], [], [], 0.0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if not select.select([self._pidfd], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("zygote", timeout or 0.0)
        return self.returncode


def _end_at_hang_up(theirs: socket.socket, process: int) -> None:
    """Have a process signalled, which ends it, when our end closes: also where we are killed while it imports."""
    fcntl.fcntl(theirs, fcntl.F_SETOWN, process)
    fcntl.fcntl(theirs, fcntl.F_SETFL, fcntl.fcntl(theirs, fcntl.F_GETFL) | os.O_ASYNC)
