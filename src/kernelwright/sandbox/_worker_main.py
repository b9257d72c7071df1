"""The worker's main loop: read a request, do it, answer. Everything here runs in the candidate's process.

Covers: the candidate's exceptions, `SystemExit` included, become answers.
Does not cover: a candidate that takes this process over. Nothing said here is evidence: bytes are compared,
clocks are read and processes are counted by the judge.
"""

import json
import os
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from ._caller_first import let_starters_go_first, reply
from ._channel import Message, encode
from ._confinement import Confinement
from ._cuda import is_gpu
from ._lockdown import close, default_signals, take_descriptors
from ._probe import probe
from ._self_report import WITNESS
from ._threads import thread_memory
from ._watch import Watch
from ._worker_state import WorkerState

_CHANNEL = 3
_MESSAGE_CHARACTERS = 500


def live(confinement: Confinement, channel: int, output: int) -> NoReturn:
    """Be a worker until the judge hangs up; never returns."""
    try:
        take_descriptors(channel, output)
        os.setsid()
        default_signals()
        build = close(confinement)
        Worker(socket.socket(fileno=_CHANNEL), build).serve()
    except BaseException:  # noqa: BLE001 - the worker's edge: said on stderr, shown as a crash
        traceback.print_exc()
    os._exit(70)


class Worker:
    """The inside end of the channel and the operations that the judge may ask for."""

    def __init__(self, sock: socket.socket, build: str) -> None:
        self._sock = sock
        self._build = build
        self._buffer = bytearray()
        self._descriptors: list[int] = []
        self._holder = WorkerState()
        self._operations: dict[str, Callable[[Any], Message]] = {
            "ready": lambda _: {},
            "load": self._load,
            "map": self._map,
            "call": self._call,
            "probe": probe,
            "audit": lambda _: WITNESS.report(),
            "seed": lambda m: _seed(m["value"]),
            "segments": lambda _: {"segments": self._holder.segments()},
            "lend": lambda m: self._holder.lend(m["arena"], self._descriptors.pop(), m["bytes"]),
            "bind": lambda m: {"numbers": self._holder.bind(m["sets"], m["outputs"], late=m["late"])},
            "push": lambda m: self._holder.push(m["set"]),
            "pull": lambda m: self._holder.pull(m["set"]),
            "call_late": lambda m: self._holder.call_late(m["set"]),
            "fetch": lambda m: self._holder.fetch(m["index"], m["capacity"]),
            "facts": lambda m: self._holder.facts(m["index"]),
            "state": lambda m: self._holder.state(m["capacity"]),
            "set_state": lambda m: self._holder.set_state(
                m["tensors"], in_place=m["in_place"], own=frozenset(m["own"])
            ),
            "rename": lambda m: self._holder.rename(m["names"], m["packings"]),
            "prepare": lambda _: self._holder.prepare(),
            "unmap": lambda m: self._holder.unmap(m["arena"]),
            "watch": lambda m: self._watch().turn(m["mode"]),
            "seen": lambda _: self._watch().report(),
            "thread_memory": lambda m: {"span": thread_memory(m["library"])},
            "counters": lambda m: self._holder.counters(m["by"]),
            "modelled": lambda m: self._holder.modelled(m["registers"]),
            "elapse": lambda m: self._holder.elapse(m["seconds"], m["threads"]),
            "release": lambda _: self._holder.release(),
        }

    def serve(self) -> NoReturn:
        """Answer requests one after the other."""
        while True:
            request = self._receive()
            try:
                answer = self._operations[request["op"]](request)
            except BaseException as error:  # noqa: BLE001 - the worker's edge: a candidate may raise anything
                answer = {"error": _kind(error), "message": _describe(error)}
            self._send({**answer, "id": request["id"]})

    def _load(self, request: Any) -> Message:
        if torch.get_num_threads() != request["threads"]:
            torch.set_num_threads(request["threads"])
        torch.set_grad_enabled(False)
        _seed(int.from_bytes(os.urandom(7), "little"))
        if is_gpu(request["device"]):
            torch.backends.cudnn.allow_tf32 = False  # torch ships with it on, for convolutions
        let_starters_go_first()
        WITNESS.remember_settings()
        return self._holder.load(request, Path(self._build))

    def _watch(self) -> Watch:
        if self._holder.watch is None:
            raise RuntimeError("this worker is not watched")
        return self._holder.watch

    def _map(self, request: Any) -> Message:
        self._holder.map(request["arena"], self._descriptors.pop(), request["bytes"])
        return {}

    def _call(self, request: Any) -> Message:
        """Prepare the calls, say so, and run them at the word `go`, which is what the judge times."""
        plan = self._holder.plan(request["sets"])
        ready = encode({"ready": len(plan), "id": request["id"]})
        self._sock.sendall(ready)
        go = self._receive()
        if go.get("go") != request["go"]:
            raise RuntimeError("expected the word to go")
        places = self._holder.run(plan)
        return {"done": len(plan), "go": go["go"], "places": places, "device_us": self._holder.device_us}

    def _receive(self) -> Any:
        while True:
            size = int.from_bytes(self._buffer[:4], "little")
            if len(self._buffer) >= 4 + size and len(self._buffer) >= 4:
                body = bytes(self._buffer[4 : 4 + size])
                del self._buffer[: 4 + size]
                return json.loads(body)
            data, descriptors, _, _ = socket.recv_fds(self._sock, 1 << 16, 4)
            if not data:
                os._exit(0)
            self._buffer += data
            self._descriptors += descriptors

    def _send(self, message: Message) -> None:
        if "done" in message:  # the reply to a call: outputs are read as they are now
            reply(self._sock, encode(message))
        else:
            self._sock.sendall(encode(message))


def _seed(value: int) -> Message:
    torch.manual_seed(value)
    return {}


def _kind(error: BaseException) -> str:
    text = str(error)
    if text.lstrip().startswith("Unsupported:"):
        return "unsupported"
    exhausted = ("can't allocate memory", "out of memory", "bad_alloc", "Cannot allocate memory")
    if isinstance(error, MemoryError) or any(words in text for words in exhausted):
        return "out-of-memory"
    return "error"


def _describe(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text}"[:_MESSAGE_CHARACTERS]
