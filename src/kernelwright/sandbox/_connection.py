"""One live worker process and the only way to talk to it: ask, wait, kill.

Covers: every request ends by its deadline, or the worker's process and all below it are killed; replies are
bound to their request by a random number; what nobody asked for is a failure.
Does not cover: what the replies mean.
"""

import contextlib
import math
import secrets
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import _inspection
from ._channel import Channel, Message, encode
from ._freeze import Freezer
from ._process import Zygote
from ._stalled import Stall
from ._types import FailureKind, WorkerFailure

_END_S = 5.0
_STATUS_TRIES = 20
_MESSAGE_CHARACTERS = 500


class Connection:
    """A worker's process, channel and staged files."""

    def __init__(self, zygote: Zygote, channel: Channel, child: int, pidfd: int, staged: Path) -> None:
        self._zygote, self._channel, self._child, self._pidfd = zygote, channel, child, pidfd
        self.staged = staged
        """The folder that was prepared for it, as the judge sees it."""
        self.pid = _inspection.pid_of(pidfd)
        """Process id, as the judge sees it."""
        self.freezer = Freezer(self.pid, pidfd)
        """Stops the process and what is below it; every request lets it run again."""
        self.watches_stalls = False
        """Whether a request is given up where nothing of the worker is at work; known once it loads."""
        self.dead = False
        """Whether it was killed or ended."""

    def ask(self, message: Message, deadline_s: float, descriptors: tuple[int, ...] = ()) -> Message:
        """Send a request and return its reply."""
        number = self.begin(message, deadline_s, descriptors)
        return self.expect(number, time.monotonic() + deadline_s, self.stall())

    def stall(self, busy_s: float = math.inf) -> Stall | None:
        """Return what sees that a request will not be answered, where that can be told from outside."""
        return Stall(self.pid, busy_s) if self.watches_stalls else None

    def begin(self, message: Message, deadline_s: float, descriptors: tuple[int, ...] = ()) -> int:
        """Send a request and return its number."""
        if self.dead:
            raise WorkerFailure(FailureKind.CRASHED, "the worker was killed or ended before")
        number = secrets.randbits(52)
        with self._ending():
            self._channel.require_silence()
            self.freezer.thaw()
            deadline = time.monotonic() + deadline_s
            self._channel.send(encode({**message, "id": number}), deadline, descriptors)
        return number

    def expect(self, number: int, deadline: float, stall: Stall | None = None) -> Message:
        """Return the reply to a request; an error that the worker reports is raised."""
        with self._ending():
            return self._checked(self._channel.receive(deadline, stall), number)

    def expect_frozen(
        self,
        number: int,
        deadline: float,
        stall: Stall | None = None,
        struck: Callable[[], None] = lambda: None,
    ) -> tuple[Message, int]:
        """Return the reply and the nanosecond of `time.perf_counter_ns` by which the worker was stopped.

        The signal goes out before the clock is read and before the reply is even parsed; then `struck` is called.
        """
        with self._ending():
            body = self._channel.receive_body(deadline, stall)
            self.freezer.strike()
            stopped_ns = time.perf_counter_ns()
            struck()
            if not self.freezer.settle():
                unstopped = f"the worker could not be stopped after its reply: {self.freezer.at_work()}"
                raise self._failure(FailureKind.PROTOCOL, unstopped)
            return self._checked(self._channel.parse(body), number), stopped_ns

    def rest(self) -> None:
        """Stop the worker until the next request."""
        if not self.dead and not self.freezer.freeze():
            raise self.reject(f"the worker could not be stopped: {self.freezer.at_work()}")

    def send_raw(self, data: bytes, deadline: float) -> None:
        """Send bytes that were encoded before."""
        with self._ending():
            self._channel.send(data, deadline)

    def reject(self, message: str) -> WorkerFailure:
        """Kill the worker for an answer that makes no sense; returns what to raise."""
        failure = self._failure(FailureKind.PROTOCOL, message)
        self.kill()
        return failure

    def kill(self) -> None:
        """Kill the process and all that it started, and remove its files."""
        if self.dead:
            return
        self.dead = True
        if self._zygote.nesting == "none":
            _inspection.kill_tree(self.pid, self._pidfd)
        else:
            _inspection.kill(self._pidfd)
        select.select([self._pidfd], [], [], _END_S)
        self._zygote.forget(self._child)
        self._channel.close()
        shutil.rmtree(self.staged, ignore_errors=True)

    def _checked(self, reply: Message, number: int) -> Message:
        if reply.get("id") != number:
            raise self._failure(FailureKind.PROTOCOL, f"a reply to no request: {str(reply)[:80]}")
        if "error" in reply:
            raise self._reported(reply)
        return reply

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except WorkerFailure as failure:
            if failure.alive:
                raise
            explained = self._explain(failure)
            self.kill()
            raise explained from None

    def _explain(self, failure: WorkerFailure) -> WorkerFailure:
        if failure.kind is not FailureKind.CRASHED:
            return failure
        for _ in range(_STATUS_TRIES):
            status = self._zygote.status(self._child)
            if status is not None:
                break
            time.sleep(0.01)
        if status is None:
            return failure
        if status == -signal.SIGKILL:
            return self._failure(
                FailureKind.OUT_OF_MEMORY, "the kernel killed the worker, as it does when memory ends"
            )
        if status < 0:
            return self._failure(FailureKind.CRASHED, f"the worker ended by {signal.Signals(-status).name}")
        return self._failure(FailureKind.CRASHED, f"the worker exited with status {status}")

    def _reported(self, reply: Message) -> WorkerFailure:
        try:
            kind = FailureKind(str(reply["error"]))
        except ValueError:
            kind = FailureKind.PROTOCOL
        return self._failure(kind, str(reply.get("message", ""))[:_MESSAGE_CHARACTERS])

    def _failure(self, kind: FailureKind, message: str) -> WorkerFailure:
        return WorkerFailure(kind, message, self._channel.tail)
