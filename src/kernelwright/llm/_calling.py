"""Client of the process that calls models: starts it, sends it calls, cancels them, ends it."""

import json
import select
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from .. import errors
from ._failure import CallFailed, FailureKind
from ._protocol import Completion, Limits, Message, Provider, Schema

_GRACE_S = 5.0
"""How long after its deadline a call may still report its result."""
_LOOK_MS = 100


class Caller:
    """A separate process for calls to models, started when first needed and restarted if it died.

    Covers: calls from any number of threads at once; a process that dies during a call (the call may have been
    billed); calls that are cancelled or too late: their connections are closed, and if no other call is under way
    the process is ended, so that a silent server notices too; an owner that dies (the process ends by itself);
    an interrupt at the terminal, which does not reach it.
    Does not cover: providers that keep state in the owner's process.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: _Process | None = None

    def start(self) -> None:
        """Start the process if it is not running."""
        with self._lock:
            self._running()

    def close(self) -> None:
        """End the process and the calls under way; a second call does nothing."""
        with self._lock:
            if self._process is not None:
                self._process.end()
                self._process = None

    @contextmanager
    def connection(self) -> Iterator["_Connection"]:
        """Yield a connection for one call; it is closed if the call fails."""
        with self._lock:
            process = self._running()
            connection = process.idle.pop() if process.idle else process.connect()
            process.busy += 1
        try:
            yield connection
        except BaseException:
            connection.close()
            with self._lock:
                process.busy -= 1
                if not process.busy:
                    process.end()
            raise
        with self._lock:
            process.busy -= 1
            process.idle.append(connection)

    def _running(self) -> "_Process":
        if self._process is not None and not self._process.alive:
            self._process.end()
            self._process = None
        if self._process is None:
            self._process = _Process()
            weakref.finalize(self, self._process.end)
        return self._process


class Called:
    """A provider whose calls are made by the caller process."""

    def __init__(self, provider: Provider, prices: Sequence[str], caller: Caller) -> None:
        """Wrap a provider.

        Args:
            provider: A provider made here; the process makes its own by the same name.
            prices: The user's prices, as `make_provider` takes them.
            caller: The process.
        """
        self.name = provider.name
        self.price = provider.price
        self._prices = list(prices)
        self._caller = caller

    def complete(self, messages: Sequence[Message], schema: Schema | None, limits: Limits) -> Completion:
        """Ask once.

        Raises:
            CallFailed: there is no answer; if the process died or is late, it may have been billed.
        """
        question = {
            "model": self.name, "prices": self._prices, "messages": [vars(message) for message in messages],
            "schema": schema, "output_tokens": limits.output_tokens, "deadline_s": limits.deadline_s,
        }  # fmt: skip
        try:
            with self._caller.connection() as connection:
                answer = connection.ask(question, limits)
        except _Late:
            raise self._failed(f"no answer within {limits.deadline_s:.0f} s", FailureKind.TIMEOUT) from None
        except _GivenUp:
            raise self._failed("given up", FailureKind.STOPPED) from None
        except OSError as error:
            words = f"the process that calls models ended in mid-call ({error})"
            raise self._failed(words, FailureKind.UNREACHABLE) from None
        if "completion" in answer:
            return Completion.model_validate(answer["completion"])
        if "failure" in answer:
            raise CallFailed(
                answer["failure"], FailureKind(answer["kind"]), billed=answer["billed"],
                retry_after_s=answer["retry_after_s"],
            )  # fmt: skip
        raise getattr(errors, answer["type"], errors.ModelError)(answer["error"])

    def _failed(self, words: str, kind: FailureKind) -> CallFailed:
        return CallFailed(f"{self.name}: {words}", kind, billed=True)


class _GivenUp(Exception):
    pass


class _Late(Exception):
    pass


class _Process:
    """One running instance of the process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Not in our folder, whose files could shadow modules, and without the terminal's interrupts; its output is
        # discarded.
        line = [sys.executable, "-P", "-m", f"{__package__}._caller", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        self.idle: list[_Connection] = []
        self.busy = 0
        """Calls under way."""

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def connect(self) -> "_Connection":
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return _Connection(ours)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._control.close()
        while self.idle:
            self.idle.pop().close()


class _Connection:
    """Carries one question and its answer at a time."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket, self._answers = ours, ours.makefile("rb")
        self._ready = select.poll()
        self._ready.register(ours, select.POLLIN)

    def ask(self, question: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        limit_s = limits.deadline_s + _GRACE_S
        ends_s = time.monotonic() + limit_s
        self._socket.settimeout(limit_s)
        try:
            self._socket.sendall(json.dumps(question).encode() + b"\n")
            while not self._ready.poll(_LOOK_MS):
                if limits.cancelled():
                    raise _GivenUp
                if time.monotonic() > ends_s:
                    raise _Late
            line = self._answers.readline()
        except TimeoutError:
            raise _Late from None
        if not line.endswith(b"\n"):
            raise ConnectionError("it hung up")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
