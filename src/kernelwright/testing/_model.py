"""A local model server that replays scripted answers in the wire formats of real ones."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Says:
    """An answer: streamed in pieces if the client requests a stream."""

    text: str
    """What the model writes."""
    input_tokens: int = 100
    """Tokens reported as read."""
    output_tokens: int = 50
    """Tokens reported as written."""
    cached_tokens: int = 0
    """Tokens read from the cache."""
    stop: str = "end"
    """`end`, or `length` if it was cut off."""
    pieces: int = 3
    """Number of pieces in a stream."""
    breaks_off: bool = False
    """Whether the connection is closed in the middle of the stream."""
    stays_open: bool = False
    """Whether a complete stream is neither ended nor disconnected until the server is closed."""


@dataclass(frozen=True)
class Refuses:
    """An HTTP error."""

    status: int
    """Its status."""
    message: str = "as scripted"
    """The error message."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers, such as `retry-after`."""


@dataclass(frozen=True)
class Sends:
    """Raw bytes with status 200: garbage."""

    body: bytes
    """The bytes."""
    kind: str = "text/event-stream"
    """The content type."""


@dataclass(frozen=True)
class Hangs:
    """No answer until the server is closed."""


Turn = str | Says | Refuses | Sends | Hangs
"""The answer to one request; a text is short for `Says(text)`."""


@dataclass(frozen=True)
class Asked:
    """One received request."""

    path: str
    """`/v1/chat/completions` or `/v1/messages`."""
    headers: Mapping[str, str]
    """Header names in lower case."""
    body: Mapping[str, Any]
    """The JSON body."""

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.body.get("model", ""))

    @property
    def text(self) -> str:
        """All text sent to the model, including the system prompt."""
        turns = [*_system(self.body), *self.body.get("messages", ())]
        return "\n".join(_text(turn.get("content", "")) for turn in turns)

    @property
    def last(self) -> str:
        """The last message sent to the model."""
        return _text(self.body["messages"][-1]["content"])


class ScriptedModel:
    """A loopback server of OpenAI's chat completions and Anthropic's messages, streaming or not.

    The script is a sequence of turns, the last repeated, or a function of the request.

        with ScriptedModel(["hello", Refuses(429, headers={"retry-after": "3"}), "goodbye"]) as server:
            name = server.name()        # local:scripted@http://127.0.0.1:PORT/v1
            ...
        assert "softmax" in server.asked[0].text

    Covers: the wire behaviour of real servers, including errors, cut connections, silence and keep-alive.
    Does not cover: judging the request; a test reads `asked`.
    """

    def __init__(self, script: Sequence[Turn] | Callable[[Asked], Turn]) -> None:
        self.asked: list[Asked] = []
        """Every request, in the order they came."""
        self._script = script
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._open: set[socket.socket] = set()
        self.connections = 0
        """Connections opened; clients reuse one for many requests."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):  # the client may have gone
                    connection.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        """The server's address, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def name(self, model: str = "scripted") -> str:
        """Return the model's name for `--model`: local and free."""
        return f"local:{model}@{self.url}/v1"

    def turn(self, asked: Asked) -> Turn:
        """Record a request and return the scripted answer."""
        with self._lock:
            number = len(self.asked)
            self.asked.append(asked)
        if callable(self._script):
            return self._script(asked)
        return self._script[min(number, len(self._script) - 1)]

    def opened(self, connection: socket.socket) -> None:
        """Record a connection, to be closed with the server."""
        with self._lock:
            self.connections += 1
            self._open.add(connection)

    def ended(self, connection: socket.socket) -> None:
        """Forget a connection."""
        with self._lock:
            self._open.discard(connection)

    def wait_closed(self) -> None:
        """Wait until the server is closed."""
        self._closed.wait()


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer is sent at once, not its headers first
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            model.opened(self.connection)

        def handle(self) -> None:
            with suppress(ConnectionError):  # a client may go at any time
                super().handle()

        def finish(self) -> None:
            model.ended(self.connection)
            super().finish()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            turn = model.turn(Asked(self.path, headers, body))
            match turn:
                case Hangs():
                    model.wait_closed()
                    self.close_connection = True
                case Refuses():
                    error = {"error": {"type": "scripted", "message": turn.message}}
                    self._send(json.dumps(error).encode(), "application/json", turn.status, turn.headers)
                case Sends():
                    self._send(turn.body, turn.kind)
                case _:
                    self._say(turn if isinstance(turn, Says) else Says(turn), body)

        def _say(self, turn: Says, body: Mapping[str, Any]) -> None:
            chat = self.path.endswith("/chat/completions")
            if not body.get("stream"):
                whole = _chat_whole(turn, body) if chat else _message_whole(turn, body)
                self._send(json.dumps(whole).encode(), "application/json")
                return
            data = "".join(_chat_stream(turn, body) if chat else _message_stream(turn, body)).encode()
            # A cut: fewer bytes come than were promised.
            promised = {"content-length": str(len(data))} if turn.breaks_off else {}
            self.close_connection |= turn.breaks_off
            if turn.stays_open:
                data, promised = (
                    data.replace(b"data: [DONE]\n\n", b""),
                    {"content-length": str(2 * len(data))},
                )
            self._send(
                data[: len(data) // 2] if turn.breaks_off else data, "text/event-stream", 200, promised
            )
            if turn.stays_open:
                self.wfile.flush()
                model.wait_closed()
                self.close_connection = True

        def _send(
            self, data: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None
        ) -> None:
            self.send_response(status)
            for name, value in {
                "content-length": str(len(data)),
                "content-type": kind,
                **(headers or {}),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _chat_whole(turn: Says, body: Mapping[str, Any]) -> dict[str, Any]:
    reason = "length" if turn.stop == "length" else "stop"
    message = {"role": "assistant", "content": turn.text}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**_chat_head(body, "chat.completion"), "choices": [choice], "usage": _chat_usage(turn)}


def _chat_stream(turn: Says, body: Mapping[str, Any]) -> Iterator[str]:
    head = _chat_head(body, "chat.completion.chunk")
    for piece in _cut(turn):
        choice = {"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}
        yield _event({**head, "choices": [choice], "usage": None})
    reason = "length" if turn.stop == "length" else "stop"
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": None})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _chat_usage(turn)})
    yield "data: [DONE]\n\n"


def _chat_head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": body["model"]}


def _chat_usage(turn: Says) -> dict[str, Any]:
    return {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
    }


def _message_whole(turn: Says, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_message_head(turn, body),
        "content": [{"type": "text", "text": turn.text}],
        "stop_reason": "max_tokens" if turn.stop == "length" else "end_turn",
        "usage": {**_message_usage(turn), "output_tokens": turn.output_tokens},
    }


def _message_stream(turn: Says, body: Mapping[str, Any]) -> Iterator[str]:
    yield _event({"type": "message_start", "message": _message_head(turn, body)}, "message_start")
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield _event(start, "content_block_start")
    for piece in _cut(turn):
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        yield _event(delta, "content_block_delta")
    yield _event({"type": "content_block_stop", "index": 0}, "content_block_stop")
    reason = "max_tokens" if turn.stop == "length" else "end_turn"
    end = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}
    yield _event({**end, "usage": {"output_tokens": turn.output_tokens}}, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


def _message_head(turn: Says, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": _message_usage(turn),
    }  # fmt: skip


def _message_usage(turn: Says) -> dict[str, int]:
    return {
        "input_tokens": turn.input_tokens - turn.cached_tokens,
        "cache_read_input_tokens": turn.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }


def _cut(turn: Says) -> Iterator[str]:
    size = max(1, -(-len(turn.text) // turn.pieces))
    yield from (turn.text[i : i + size] for i in range(0, len(turn.text), size))


def _event(data: Mapping[str, Any], name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def _system(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"content": body["system"]}] if "system" in body else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)
