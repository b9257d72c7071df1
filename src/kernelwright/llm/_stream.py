"""Reads a streamed answer through an SDK's client: its server-sent events as JSON, to the end.

The SDKs build a record for every event, and OpenAI's closes the connection after each answer; reading to the end
leaves a connection that the next question can reuse.

Covers: several data lines in an event, comments, pieces cut anywhere; errors reported mid-stream; a deadline and a
cancellation while no event ends; a server that neither ends its answer nor closes (it is dropped after a moment).
Does not cover: lines that end in a bare carriage return; event ids and retry times.

Source: WHATWG, HTML Living Standard, section 9.2 "Server-sent events".
"""

import json
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock, Timer
from types import ModuleType
from typing import Any

from ._protocol import Limits
from ._wire import Broke, Watch, timeout, transport

_END_S = 0.1
"""How long the end of the stream may take once the answer is complete."""
_MOST_BYTES = 16_000_000
"""Most bytes of one line."""


class Streams:
    """Streamed answers through one SDK client; thread-safe."""

    def __init__(self, package: ModuleType, client: Any) -> None:
        self._package, self._client = package, client
        self._patience = _Patience()

    @contextmanager
    def ask(
        self, path: str, body: Mapping[str, Any], watch: Watch, limits: Limits
    ) -> Iterator[Iterator[Any]]:
        """Ask, and yield the events of the answer; on a normal exit the rest of the stream is read.

        Raises:
            Broke: the server reported an error mid-stream.
            ValueError: the data is not an event, or not JSON.
        """
        http = transport(self._package)
        options = {"timeout": timeout(self._package, limits)}
        response = self._client.post(path, cast_to=http.Response, body=body, options=options, stream=True)
        try:
            pieces = response.iter_bytes()
            yield _events(pieces, watch)
            if not response.is_closed:
                connection = response.extensions["network_stream"].get_extra_info("socket")
                with suppress(http.HTTPError), self._patience.with_server(connection):
                    for _ in pieces:
                        pass
        finally:
            response.close()


class _Patience:
    """Closes connections to servers that keep the stream open after the answer; one timer for all streams.

    A thread per answer would cost more than the rest of reading it.
    """

    def __init__(self) -> None:
        self._since_s: dict[socket.socket, float] = {}
        self._looks = False
        self._lock = Lock()

    @contextmanager
    def with_server(self, connection: socket.socket) -> Iterator[None]:
        """Shut a connection down if it is still being read after one or two timer periods."""
        with self._lock:
            self._since_s[connection] = time.monotonic()
            self._look_later()
        try:
            yield
        finally:
            with self._lock:
                self._since_s.pop(connection, None)

    def _look_later(self) -> None:
        if self._looks:
            return
        self._looks = True
        timer = Timer(_END_S, self._look)
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        with self._lock:
            self._looks = False
            late_s = time.monotonic() - _END_S
            for connection in [c for c, since_s in self._since_s.items() if since_s <= late_s]:
                del self._since_s[connection]
                with suppress(OSError):  # it may already be closed
                    connection.shutdown(socket.SHUT_RDWR)
            if self._since_s:
                self._look_later()


def _events(pieces: Iterable[bytes], watch: Watch) -> Iterator[Any]:
    data: list[bytes] = []
    for line in _lines(pieces, watch):
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line and data:
            text = b"\n".join(data)
            if text.startswith(b"[DONE]"):
                return
            event = json.loads(text)
            if isinstance(event, dict) and (error := event.get("error")):
                raise Broke(error.get("message", "") if isinstance(error, dict) else error)
            yield event
            data.clear()


def _lines(pieces: Iterable[bytes], watch: Watch) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        watch.look()
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _MOST_BYTES:
            raise ValueError(f"a line of more than {_MOST_BYTES} bytes")
        yield from (line.removesuffix(b"\r") for line in lines)
