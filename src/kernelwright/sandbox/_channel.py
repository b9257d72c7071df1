"""Length-prefixed JSON messages over a socket: the only thing judge and worker say to each other.

Covers: malformed, oversized, late and unsolicited messages (each a `WorkerFailure`), endless output (read
and dropped but for its end). No pickle, no code.
Does not cover: a candidate that answers in the harness's place from inside the process; what it says is
then checked like any answer, and bytes are compared by the judge.
"""

import array
import json
import os
import select
import socket
import time

from ._stalled import LOOK_S, Stall
from ._types import FailureKind, WorkerFailure

Message = dict[str, object]
"""A JSON object."""

MAX_REPLY_BYTES = 4 << 20
"""The longest message a worker may send."""
_TAIL_BYTES = 8192
_HEADER = 4


def encode(message: Message) -> bytes:
    """Serialise a message with its length in front.

    Example:
        >>> encode({})
        b'\\x02\\x00\\x00\\x00{}'
    """
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(_HEADER, "little") + body


class Channel:
    """The judge's end: sends requests, waits for the reply, drains what the worker prints."""

    def __init__(self, sock: socket.socket, output: int, pidfd: int) -> None:
        self._sock, self._output, self._pidfd = sock, output, pidfd
        self._buffer = bytearray()
        self._tail = bytearray()
        sock.setblocking(False)
        os.set_blocking(output, False)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(output, select.POLLIN)

    @property
    def tail(self) -> str:
        """The end of what the worker printed, for people."""
        self._drain()
        return self._tail.decode(errors="replace")

    def send(self, data: bytes, deadline: float, descriptors: tuple[int, ...] = ()) -> None:
        """Send an encoded message before `deadline` (seconds of `time.monotonic`)."""
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            sent = self._sock.sendmsg([data], ancillary if descriptors else [])
            while sent < len(data):
                self._await_writable(deadline)
                sent += self._sock.send(data[sent:])
        except BlockingIOError:
            raise self._failure(FailureKind.TIMEOUT, "the worker does not read its channel") from None
        except OSError as error:
            raise self._failure(FailureKind.CRASHED, f"the worker closed its channel ({error})") from None

    def receive(self, deadline: float, stall: Stall | None = None) -> Message:
        """Return the next message, or raise the `WorkerFailure` that stands for its absence."""
        return self.parse(self.receive_body(deadline, stall))

    def receive_body(self, deadline: float, stall: Stall | None = None) -> bytes:
        """Return the next message as it came, for `parse`; `stall` may see earlier that none will come."""
        while True:
            size = int.from_bytes(self._buffer[:_HEADER], "little")
            if len(self._buffer) >= _HEADER and size > MAX_REPLY_BYTES:
                raise self._failure(FailureKind.PROTOCOL, f"a message of {size} bytes was announced")
            if len(self._buffer) >= _HEADER and len(self._buffer) >= _HEADER + size:
                body = bytes(self._buffer[_HEADER : _HEADER + size])
                del self._buffer[: _HEADER + size]
                return body
            self._wait(deadline, stall)

    def require_silence(self) -> None:
        """Raise where the worker said something that nobody asked for."""
        self._read(must=False)
        if self._buffer:
            raise self._failure(FailureKind.PROTOCOL, "the worker sent a message that nobody asked for")

    def close(self) -> None:
        """Close the judge's descriptors."""
        self._sock.close()
        for descriptor in (self._output, self._pidfd):
            os.close(descriptor)

    def parse(self, body: bytes) -> Message:
        """Read a message's JSON object."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            raise self._failure(FailureKind.PROTOCOL, f"not JSON: {body[:80]!r}") from None
        if not isinstance(message, dict):
            raise self._failure(FailureKind.PROTOCOL, f"not a JSON object: {body[:80]!r}")
        return message

    def _wait(self, deadline: float, stall: Stall | None) -> None:
        remaining = deadline - time.monotonic()
        look_s = remaining if stall is None else min(remaining, LOOK_S)
        events = self._poll.poll(look_s * 1000) if look_s > 0 else []
        if not events and time.monotonic() >= deadline:
            raise self._failure(FailureKind.TIMEOUT, "no answer before the deadline")
        if not events and stall is not None and (why := stall.reason()):
            raise self._failure(FailureKind.TIMEOUT, why)
        for descriptor, event in events:
            if descriptor != self._output:
                self._read(must=True)
            elif not self._drain() and event & select.POLLHUP:
                self._poll.unregister(self._output)

    def _read(self, *, must: bool) -> None:
        try:
            data = self._sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._buffer += data
        elif must:
            raise self._failure(FailureKind.CRASHED, "the worker's process ended")

    def _drain(self) -> bool:
        try:
            data = os.read(self._output, 1 << 16)
        except OSError:
            return False
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return bool(data)

    def _await_writable(self, deadline: float) -> None:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([], [self._sock], [], remaining)[1]:
            raise BlockingIOError

    def _failure(self, kind: FailureKind, message: str) -> WorkerFailure:
        return WorkerFailure(kind, message, self.tail)
