"""The process that does jobs on a node: pinned to its own cores, without Ray.

    python -m kernelwright.cluster._evaluator DESCRIPTOR ASKED

Covers: an owner that dies: this process and what it started end at once.
Does not cover: a job that never ends; the judge has its own deadlines.
"""

import json
import os
import select
import signal
import socket
import sys
import threading
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from ..config import Settings
from ..devices import detect
from ..errors import KernelwrightError, fault_of
from ._cores import Cores, noise
from ._files import unpacked
from ._job import Job, Place, Workplace, versions


def main(arguments: list[str]) -> None:
    """Do one job after the other until the owner closes the connection."""
    connection, asked = Connection(int(arguments[0])), json.loads(arguments[1])
    settings = Settings.from_environment()
    try:
        cores = Cores(asked["cores"], settings.cache / "locks")
        place = Place(
            name=asked["name"], node=asked["node"], host=socket.gethostname(), device=detect(asked["device"]),
            cores=cores.names, alone=cores.alone, noise=noise(), behind=asked["behind"],
            versions=versions(),
        )  # fmt: skip
    except (KernelwrightError, OSError) as error:
        connection.send(("failed", str(error)))
        return
    workplace = Workplace(place, settings.cache / "cluster")
    threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
    connection.send(("ready", place.to_json()))
    while True:
        job, files = connection.recv()
        connection.send(_answer(job, files, workplace))


def _end_with(descriptor: int) -> None:
    """Wait until the owner closed its end, and end with all that was started; what it sends wakes nobody here."""
    owner = select.poll()
    owner.register(descriptor, select.POLLRDHUP)
    owner.poll()
    os.killpg(0, signal.SIGKILL)


def _answer(job: Job, files: tuple[bytes, ...], workplace: Workplace) -> tuple[str, str]:
    try:
        home: Path = workplace.cache / "files"
        workplace.files = {name: unpacked(data, home) for name, data in zip(job.files, files, strict=True)}
        module, _, name = job.function.partition(":")
        return "answer", getattr(import_module(module), name)(job.text, workplace)
    except KernelwrightError as error:
        return "failed", str(error)
    except Exception as error:  # noqa: BLE001 - the worker's edge: whatever a job raises is its answer
        return "failed", fault_of(error)


if __name__ == "__main__":
    main(sys.argv[1:])
