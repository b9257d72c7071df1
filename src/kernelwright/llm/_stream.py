"""One streamed answer over an SDK's client: its server-sent events as JSON, read to the end.

The SDKs make a record of every event, and OpenAI's hangs up after each answer; what is read to its end leaves a
connection that the next question uses again.

Covers: several data lines in an event, comments, pieces cut anywhere; errors told in mid-stream; a deadline and a wish
to stop while no event ends; a server that neither ends its answer nor hangs up (it is left after a moment).
Does not cover: lines that end in a carriage return alone; ids of events and times to ask again.

Source: WHATWG, HTML Living Standard, section 9.2 "Server-sent events".
"""

import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Timer
from types import ModuleType
from typing import Any

from ._protocol import Limits
from ._wire import Broke, Watch, timeout, transport

_END_S = 0.1
"""How long the end of an answer may take that has been said in full."""
_MOST_BYTES = 16_000_000
"""Of one line."""


@contextmanager
def streamed(
    package: ModuleType, client: Any, path: str, body: Mapping[str, Any], watch: Watch, limits: Limits
) -> Iterator[Iterator[Any]]:
    """Ask, and give the events of the answer; left without an error, what remains of it is read.

    Raises:
        Broke: the server told of an error in mid-stream.
        ValueError: what came is no event, or no JSON.
    """
    http = transport(package)
    response = client.post(
        path, cast_to=http.Response, body=body, options={"timeout": timeout(package, limits)}, stream=True
    )
    try:
        pieces = response.iter_bytes()
        yield _events(pieces, watch)
        if not response.is_closed:
            with suppress(http.HTTPError):
                _read_on(response, pieces)
    finally:
        response.close()


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


def _read_on(response: Any, pieces: Iterable[bytes]) -> None:
    """Read what is left, so that the connection can be used again; hang up on a server that goes on."""
    connection = response.extensions["network_stream"].get_extra_info("socket")

    def hang_up() -> None:
        with suppress(OSError):  # it may be closed by now
            connection.shutdown(socket.SHUT_RDWR)

    late = Timer(_END_S, hang_up)
    late.daemon = True
    late.start()
    try:
        for _ in pieces:
            pass
    finally:
        late.cancel()
