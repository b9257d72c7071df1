"""What is promised is kept on each set of layers: taken away one by one, so that one machine shows them all."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelwright.config import Settings
from kernelwright.sandbox import PROMISES, Pool, WorkerFailure, _process, promises
from kernelwright.system.landlock import landlock_version

from .conftest import call_once

WITHOUT = {
    "nothing": "",
    "seccomp": "c.close_system_calls = lambda **_: False",
    "landlock": "c.close_files = lambda *_: False",
    "new-landlock": "import kernelwright.system.landlock as l; l.landlock_version = lambda: 1",
    "namespaces": "z.isolate_next_child = z.leave_network = lambda: False",
    "all": (
        "z.isolate_next_child = z.leave_network = lambda: False; "
        "c.close_files = c.close_system_calls = lambda *_, **__: False"
    ),
}
"""What is taken away, and how a zygote is brought to go without it."""

LOST = {
    "nothing": set(),
    "seccomp": {"system calls that reach out are refused", "no network"},
    "landlock": {
        "files of the judge cannot be read",
        "only the private folder can be written",
        "a baseline's compile cache is not seen by candidates",
    },
    "new-landlock": {"only the private folder can be written"},
    "namespaces": {"nothing is left alive", "workers do not reach each other"},
}
LOST["all"] = LOST["seccomp"] | LOST["landlock"] | LOST["namespaces"]

HEAD = "import ctypes, os, socket\nlibc = ctypes.CDLL(None)\ndef run(x):\n    "
ATTEMPTS: dict[str, Callable[[Path], str]] = {
    "files of the judge cannot be read": lambda secret: f"open({str(secret)!r})",
    "only the private folder can be written": lambda secret: f"os.truncate({str(secret)!r}, 8)",
    "a baseline's compile cache is not seen by candidates": lambda secret: (
        f"os.listdir({str(secret.parent / 'baselines')!r})"
    ),
    "system calls that reach out are refused": lambda _: "assert libc.personality(0x0040000) != -1",
    "no network": lambda _: "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "nothing is left alive": lambda _: "assert os.getpid() != 1",
    "the judge's environment is not seen": lambda _: "os.environ['PYTEST_CURRENT_TEST']",
    "memory is bounded": lambda _: "bytearray(1 << 40)",
}
"""Of each promise what a candidate does that breaks it: it ends in an exception where the promise is kept."""


@pytest.fixture(params=WITHOUT)
def reduced(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Pool]:
    if not landlock_version() and request.param != "all":
        pytest.skip("no Landlock here")
    code = (
        "import sys; from kernelwright.sandbox import _closing as c, _zygote as z\n"
        f"{WITHOUT[request.param]}\nz.main(sys.argv[3:])"
    )
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    python.chmod(0o755)
    monkeypatch.setattr(_process, "sys", SimpleNamespace(executable=str(python)))
    environ = {
        "KERNELWRIGHT_SANDBOX": "landlock" if landlock_version() else "none",
        "KERNELWRIGHT_CACHE": str(tmp_path),
    }
    with Pool(Settings.from_environment(environ), arena_bytes=1 << 20, memory_bytes=1 << 30) as pool:
        pool.arena.place(torch.ones(1))
        yield pool


def test_a_promise_is_listed_and_kept_or_it_is_neither(
    reduced: Pool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    secret = tmp_path / "task.py"
    secret.write_text("expected")
    (tmp_path / "baselines").mkdir(exist_ok=True)
    lost = LOST[request.node.callspec.params["reduced"]]
    assert set(PROMISES) - set(reduced.promises) - {"answers are read from a stopped process"} == lost
    broken = {name for name, attempt in ATTEMPTS.items() if _succeeds(reduced, attempt(secret))}
    assert not broken & set(reduced.promises), "promised, and broken by a candidate"
    assert broken == lost & set(ATTEMPTS), "kept, and not promised"


def _succeeds(pool: Pool, attempt: str) -> bool:
    try:
        call_once(pool, f"{HEAD}{attempt}\n    return x\n")
    except WorkerFailure:
        return False
    return True


def test_every_promise_needs_a_layer() -> None:
    assert promises(()) == ()
    assert set(ATTEMPTS) < set(PROMISES)
