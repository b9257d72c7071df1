"""A page on this machine, and what it sends back."""

import json
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from ._program import Plain

_MOST_BYTES = 256 << 20
_TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm", ".json": "application/json"}
_RUNTIME, _PEER = "/onnxruntime/", "/peer/"


@dataclass(frozen=True)
class Peer:
    """Another library that a page compares its kernels with."""

    module: Path
    """A JavaScript module. Its `open(place, task, inputs)` returns `{name, version, call}` for a task's name and its
    inputs (`{name, floats}` each), or null where the library has no form of the task; `call` copies the inputs in and
    gives the outputs. `floats`, if there, brings what a call gives into the order of the task's outputs."""
    folders: tuple[Path, ...]
    """Where the files lie that the module loads from `place`."""

    def file(self, name: str) -> Path:
        """Return the file of a name: the module as `peer.mjs`, or one of the folders'."""
        found = (folder / name for folder in self.folders if (folder / name).is_file())
        return self.module if name == "peer.mjs" else next(found, self.module.parent / "none")


class Answers(Protocol):
    """What a page asks its server for, and what becomes of what it sends."""

    def fresh(self, index: int) -> bytes:
        """Return the floats of fresh inputs."""

    def outputs(self, index: int, content: bytes) -> None:
        """Take what the served kernels made of them."""


class Server:
    """Serves a folder on a port of this machine; `result` waits for what the page found."""

    def __init__(
        self,
        folder: Path,
        answers: Answers,
        *,
        port: int = 0,
        runtime: Path | None = None,
        peer: Peer | None = None,
    ) -> None:
        self._results: queue.Queue[dict[str, Plain]] = queue.Queue()
        handler = partial(
            _Handler,
            directory=str(folder),
            answers=answers,
            give=self._results.put,
            runtime=runtime,
            peer=peer,
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def result(
        self, timeout_s: float | None, running: Callable[[], bool] = lambda: True
    ) -> dict[str, Plain] | None:
        """Wait for the result of a page; none after the time, or where `running` says that nothing will come."""
        waited, each = 0.0, 0.25
        while timeout_s is None or waited < timeout_s:
            try:
                return self._results.get(timeout=each)
            except queue.Empty:
                waited += each
                if not running():
                    return None
        return None


class _Handler(SimpleHTTPRequestHandler):
    """Files of the folder, onnxruntime-web's, fresh inputs, and what is sent back."""

    def __init__(
        self, *request: Any, directory: str, answers: Answers, give: Callable[[dict[str, Plain]], None],
        runtime: Path | None, peer: Peer | None,
    ) -> None:  # fmt: skip
        self._answers, self._give, self._runtime, self._peer = answers, give, runtime, peer
        super().__init__(*request, directory=directory)

    def end_headers(self) -> None:
        """Isolate the page, which gives it a finer clock, and let nothing be kept."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def guess_type(self, path: object) -> str:
        """Name the types that a system may not know."""
        return _TYPES.get(Path(str(path)).suffix) or super().guess_type(str(path))

    def translate_path(self, path: str) -> str:
        """Find the files of onnxruntime-web, and of another library, in their own folders."""
        name = Path(path.partition("?")[0]).name
        if path.startswith(_RUNTIME) and self._runtime is not None:
            return str(self._runtime / name)
        if path.startswith(_PEER) and self._peer is not None:
            return str(self._peer.file(name))
        return super().translate_path(path)

    def do_GET(self) -> None:
        """Serve a file, or fresh inputs."""
        index = self._index("/fresh/")
        if index is None:
            super().do_GET()
        else:
            self._reply(self._answers.fresh(index))

    def do_POST(self) -> None:
        """Take outputs or the result."""
        length = int(self.headers.get("Content-Length", 0))
        if not 0 < length <= _MOST_BYTES:
            return self.send_error(413)
        content, index = self.rfile.read(length), self._index("/outputs/")
        if index is not None:
            self._answers.outputs(index, content)
        elif self.path != "/result":
            return self.send_error(404)
        self._reply(b"")
        if index is None:
            self._give(json.loads(content))

    def _index(self, prefix: str) -> int | None:
        number = self.path.removeprefix(prefix)
        return int(number) if self.path.startswith(prefix) and number.isdigit() else None

    def _reply(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
