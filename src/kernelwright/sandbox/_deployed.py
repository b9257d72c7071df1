"""A worker that looks like somebody's program: what a candidate sees of its surroundings is not the judge's.

In place before any of the candidate is loaded, in workers that are never timed.

Covers: environment, command line, `__main__`, modules loaded, the stack below a call and while loading (a thread of the
program), where arguments lie (ordinary tensors, at other addresses), number of threads, and the clock (`_clock`).
Does not cover: the paths of its own files and folders, /proc, who the parent process is, objects that a search of the
whole process finds; style `destination` is still called by our loader, as an exported package has one too.
"""

import mmap
import os
import secrets
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ._channel import Message
from ._clock import StoppedClock

_KEPT = (
    "TRITON",
    "TORCH",
    "CUDA",
    "NVIDIA",
    "HWLOC",
    "POCL",
    "OCL",
    "PYOPENCL",
    "LD_",
    "TZ",
    "PYTHON",
    "PATH",
    "HOME",
    "TMP",
)
"""What the names of variables begin with that runtimes need, or set themselves: without PyOpenCL's own, its loader of
drivers ends the process."""
_SET = {"LANG": "en_US.UTF-8", "USER": "app", "LOGNAME": "app", "SHELL": "/bin/bash", "TERM": "xterm"}
_FILE = "/srv/app/main.py"
_MOST_SHIFT_PAGES = 1 << 14
_SHIFTS = 64
_PROGRAM = """
def handle(work, arguments, threads, answers):
    import torch

    try:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        with torch.no_grad():
            answers.append((work(*arguments), None))
    except BaseException as error:
        answers.append((None, error))
"""


class Deployed:
    """The program: it loads the candidate and calls it."""

    def __init__(self, *, clock: bool) -> None:
        self._held = _shifted()
        self._threads = torch.get_num_threads()
        _replace_environment()
        main = ModuleType("__main__")
        main.__file__ = sys.argv[0] = _FILE
        del sys.argv[1:]
        exec(compile(_PROGRAM, _FILE, "exec"), vars(main))
        self._handle = vars(main)["handle"]
        self._clock = StoppedClock() if clock else None
        package = __name__.partition(".")[0]
        self._ours = {n: m for n, m in sys.modules.items() if n == package or n.startswith(f"{package}.")}
        self._ours["__main__"] = sys.modules["__main__"]
        for name in self._ours:
            del sys.modules[name]
        sys.modules["__main__"] = main

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Let the program do something, in a thread of its own; what is raised there is raised here."""
        answers: list[tuple[Any, BaseException | None]] = []
        given = (work, arguments, self._threads, answers)
        thread = threading.Thread(target=self._handle, args=given, name="request")
        thread.start()
        thread.join()
        result, error = answers[0]
        if error is not None:
            raise error
        return result

    def elapse(self, seconds: float, threads: int) -> Message:
        """Let time pass and go on with so many threads; say whether every clock shows it."""
        self._threads = threads
        if self._clock is not None:
            self._clock.pass_s(seconds)
        return {"whole": self._clock is not None and self._clock.whole}


def own(argument: Any) -> Any:
    """Return an argument in memory of this process's own, as a program's tensors are."""
    if isinstance(argument, Tensor):
        copy = torch.empty_strided(
            argument.shape, argument.stride(), dtype=argument.dtype, device=argument.device
        )
        return copy.copy_(argument)
    return [own(a) for a in argument] if isinstance(argument, list) else argument


def _shifted() -> list[Any]:
    """Move what is mapped and allocated from now on, by what is held."""
    pages = 1 + secrets.randbelow(_MOST_SHIFT_PAGES)
    blocks = [bytes(1 + secrets.randbelow(1 << 12)) for _ in range(_SHIFTS)]
    return [mmap.mmap(-1, pages * mmap.PAGESIZE), blocks]


def _replace_environment() -> None:
    for name in [n for n in os.environ if not n.startswith(_KEPT)]:
        del os.environ[name]
    os.environ.update(_SET)
