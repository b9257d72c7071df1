"""The Ray driver, in a process of its own: a crash of Ray ends it and nothing else.

    python -m kernelwright.cluster._driver DESCRIPTOR ASKED

It starts an actor for each evaluator that a node has room for, and passes jobs to them. `_client.py` is the other end,
which holds what must not be lost.

Covers: nodes that come and go; actors and evaluators that die (the next one is started, later each time); an object
store that is full (waited for).
Does not cover: losing this process: the client starts another.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

from ._actor import Actor
from ._job import Job

_WATCH_S = 1.0
_MOST_PAUSE_S = 30.0
_FULL_S = 120.0
"""How long to wait for room in an object store before the node is given up for now."""
_ANSWER_S = 10.0
"""How long a head may take to accept a connection."""
_NODE_DIED = "node has died"
T = TypeVar("T")


def main(arguments: list[str]) -> None:
    """Connect and serve until the client closes the connection."""
    connection, asked = Connection(int(arguments[0])), json.loads(arguments[1])
    silent = unanswered(asked["address"])
    if silent:
        connection.send(("refused", "", silent))
        return
    import ray

    try:
        ray.init(
            address=asked["address"], log_to_driver=False, logging_level="ERROR", configure_logging=False
        )
    except Exception as error:  # noqa: BLE001 - Ray raises ConnectionError, RuntimeError, ValueError, gRPC's own ...
        connection.send(("refused", "", " ".join(str(error).split())[:500]))
        return
    _Driver(ray, connection, asked).serve()


class _Driver:
    """Evaluators by name, each with a thread that passes it jobs and waits for answers."""

    def __init__(self, ray: Any, connection: Connection, asked: dict[str, Any]) -> None:
        self._ray, self._connection, self._asked = ray, connection, asked
        self._sending, self._putting = threading.Lock(), threading.Lock()
        self._jobs: dict[str, SimpleQueue[Job]] = {}
        self._failures: dict[str, int] = {}
        self._data: dict[str, bytes] = {}
        self._refs: dict[str, Any] = {}

    def serve(self) -> None:
        """Receive jobs and folders."""
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            while True:
                kind, name, content = self._connection.recv()
                if kind == "file":
                    self._data[name] = content
                elif name in self._jobs:
                    self._jobs[name].put(content)
        except (EOFError, OSError):
            os._exit(0)

    def _watch(self) -> None:
        """Start evaluators where there is room, and tell the client that the cluster is there."""
        while True:
            for node in self._ray.nodes():
                for name, resources in slots(node, self._asked["device"], self._asked["cores"]):
                    if name not in self._jobs:
                        self._jobs[name] = SimpleQueue()
                        work = threading.Thread(target=self._staff, args=(name, node, resources), daemon=True)
                        work.start()
            self._send("alive", "", "")
            time.sleep(_WATCH_S)

    def _staff(self, name: str, node: dict[str, Any], resources: dict[str, float]) -> None:
        """Start an evaluator and pass it jobs until it or its node is gone."""
        pause_s = min(_MOST_PAUSE_S, 2.0 ** self._failures.get(name, -10))
        time.sleep(pause_s if pause_s >= 1 else 0)
        actor = None
        try:
            actor = self._start(node, resources, self._asked | {"name": name, "node": node["NodeID"]})
            self._send("place", name, self._ray.get(actor.describe.remote()))
            self._failures.pop(name, None)
            while True:
                job = self._jobs[name].get()
                self._send("done", name, (job.key, *self._answer(actor, job)))
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, this evaluator is given up
            self._failures[name] = self._failures.get(name, -1) + 1
            reason = " ".join(str(getattr(error, "cause", None) or error).split())
            self._send("lost", name, (_NODE_DIED not in reason, reason[:300]))
        finally:
            if actor is not None:
                self._ray.kill(actor)
            del self._jobs[name]

    def _answer(self, actor: Any, job: Job) -> tuple[str, str]:
        files = [self._ref(file) for file in job.files]
        kind, text = self._patiently(lambda: self._ray.get(actor.work.remote(job, *files)))
        return kind, text

    def _ref(self, name: str) -> Any:
        """Return the object of a folder, put into the object store once."""
        with self._putting:
            if name not in self._refs:
                self._refs[name] = self._patiently(lambda: self._ray.put(self._data[name]))
            return self._refs[name]

    def _start(self, node: dict[str, Any], resources: dict[str, float], asked: dict[str, Any]) -> Any:
        """Create an evaluator's actor on one node; it waits there until its resources are free."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
        options = self._ray.remote(Actor).options(
            num_cpus=resources["CPU"], num_gpus=resources.get("GPU", 0), resources=others, max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        )  # fmt: skip
        return options.remote({**asked, "cores": int(resources["CPU"])})

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call again while the object store is full."""
        end = time.monotonic() + _FULL_S
        while True:
            try:
                return call()
            except (self._ray.exceptions.ObjectStoreFullError, self._ray.exceptions.OutOfDiskError):
                if time.monotonic() > end:
                    raise
                time.sleep(1)

    def _send(self, kind: str, name: str, content: object) -> None:
        with self._sending:
            self._connection.send((kind, name, content))


def unanswered(address: str) -> str:
    """Say that nothing answers at an address, for which Ray would wait for minutes; empty where something does.

    Example:
        >>> unanswered("ray://127.0.0.1:1")
        'nothing answers at 127.0.0.1:1 (Connection refused)'
    """
    if address == "auto":
        return ""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except OSError as error:
        return f"nothing answers at {host}:{port} ({error.strerror or error})"
    return ""


def slots(node: dict[str, Any], device: str | None, cores: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Name the evaluators that a node has room for, with what each takes of its resources.

    A CPU's evaluator takes `cores`, or all that the node has; a GPU's takes the GPU and its share of the cores.

    Example:
        >>> node = {"NodeID": "a1", "Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}}
        >>> list(slots(node, "cpu", 4))
        [('a1-0', {'CPU': 4}), ('a1-1', {'CPU': 4})]
        >>> list(slots(node, "cuda", 0))
        [('a1-0', {'CPU': 4, 'GPU': 1}), ('a1-1', {'CPU': 4, 'GPU': 1})]
        >>> list(slots({**node, "Resources": {"CPU": 4.0, "amd": 1.0}}, "hip", 0))
        [('a1-0', {'CPU': 4, 'amd': 1})]
    """
    if not node["Alive"]:
        return
    has = node["Resources"]
    kind = (device or ("cuda" if has.get("GPU") else "cpu")).partition(":")[0]
    unit = "" if kind == "cpu" else "amd" if kind == "hip" and "amd" in has else "GPU"
    units, cpus = int(has.get(unit, 0)), int(has.get("CPU", 0))
    each = cores or cpus // max(units, 1)
    count = min(units, cpus // max(each, 1)) if unit else cpus // max(each, 1)
    for number in range(count):
        yield f"{node['NodeID'][:12]}-{number}", {"CPU": each, **({unit: 1} if unit else {})}


if __name__ == "__main__":
    main(sys.argv[1:])
