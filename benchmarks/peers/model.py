"""A scripted model in a process of its own: it takes no time from whoever asks it, and notes when it was asked."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from kernelwright.testing import Asked, ScriptedModel


@dataclass
class Served:
    """A scripted model that can be asked."""

    url: str
    """Its address, without a path."""
    asked_s: list[float] = field(default_factory=list)
    """When each question came, on the monotonic clock; there once the context is left."""

    @property
    def name(self) -> str:
        """The model's name for `--model`: local, free of charge."""
        return f"local:scripted@{self.url}/v1"


@contextmanager
def served(script: Callable[[int], str]) -> Iterator[Served]:
    """Answer the n-th question, from 0, with `script(n)`; the script is a module's function."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, script), daemon=True)
    process.start()
    try:
        found = Served(here.recv())
        yield found
        here.send("end")
        found.asked_s = here.recv()
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, script: Callable[[int], str]) -> None:
    asked_s: list[float] = []

    def answer(asked: Asked) -> str:
        del asked
        asked_s.append(time.monotonic())
        return script(len(asked_s) - 1)

    with ScriptedModel(answer) as server:
        pipe.send(server.url)
        pipe.recv()
        pipe.send(asked_s)
