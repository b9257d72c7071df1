"""The process that calls models: SDKs, encryption and HTTP run in it, outside the search and judge processes.

    python -m kernelwright.llm._caller DESCRIPTOR

It receives connections over the descriptor, a socket. A question arrives on a connection as a line of JSON and its
answer is returned the same way, then the next question follows; concurrent calls use separate connections.
`_calling.py` is the other end.

Covers: an owner that dies, by whatever signal (the descriptor's other end closes, and this process ends at once);
a connection closed during a call (the call is cancelled at the next piece of the answer); whatever a provider
raises (reported without the keys of the environment).
Does not cover: a call cancelled while its server is silent: it lasts until its deadline, or until this process ends.
"""

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..config import secrets
from ..errors import KernelwrightError, fault_of
from ._failure import CallFailed
from ._models import make_provider
from ._protocol import Limits, Message, Provider
from ._wire import hide


def main(arguments: list[str]) -> None:
    """Serve every connection in a thread until the owner closes the socket."""
    control, providers = socket.socket(fileno=int(arguments[0])), _Providers()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            os._exit(0)
        connection = socket.socket(fileno=descriptors[0])
        threading.Thread(target=_serve, args=(connection, providers), daemon=True).start()


class _Providers:
    """Providers by name and price, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], Provider] = {}
        self._lock = threading.Lock()

    def get(self, name: str, prices: tuple[str, ...]) -> Provider:
        with self._lock:
            if (name, *prices) not in self._made:
                self._made[name, *prices] = make_provider(name, {"prices": prices})
            return self._made[name, *prices]


def _serve(connection: socket.socket, providers: _Providers) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    # The owner sends nothing while it waits for an answer: a readable socket then means the connection was closed.
    with connection, connection.makefile("rb") as questions:
        for line in questions:
            answer = _answer(json.loads(line), providers, lambda: bool(poll.poll(0)))
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:  # the owner no longer waits for it
                return


def _answer(question: dict[str, Any], providers: _Providers, cancelled: Callable[[], bool]) -> dict[str, Any]:
    try:
        provider = providers.get(question["model"], tuple(question["prices"]))
        messages = [Message(**message) for message in question["messages"]]
        limits = Limits(question["output_tokens"], question["deadline_s"], cancelled)
        completion = provider.complete(messages, question["schema"], limits)
        return {"completion": completion.model_dump(mode="json")}
    except CallFailed as failed:
        told = {"kind": failed.kind, "billed": failed.billed, "retry_after_s": failed.retry_after_s}
        return {"failure": str(failed), **told}
    except KernelwrightError as error:
        return {"error": str(error), "type": type(error).__name__}
    except Exception as error:  # noqa: BLE001 - a provider is third-party code
        said = f"{question['model']}: {fault_of(error)}"
        for key in secrets():
            said = hide(said, key)
        return {"error": said, "type": "ModelError"}


if __name__ == "__main__":
    main(sys.argv[1:])
