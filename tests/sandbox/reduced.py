"""A judge on a machine with less: takes layers away from itself, then lets candidates break each promise, and tells.

Run as a program, with what to take away in JSON; prints what the pool promises and what was broken. What is taken away
is taken away for good, from this process and all that it starts, as by a kernel that lacks it or a container that
forbids it: the product's own code runs unchanged, but for the version of Landlock, which no process can lower.
"""

import ctypes
import errno
import json
import os
import platform
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FORBIDDEN = {
    "seccomp": {"prctl": (22, errno.EINVAL), "seccomp": (None, errno.ENOSYS)},
    "landlock": {"landlock_create_ruleset": (None, errno.ENOSYS)},
    "landlock's last step": {"landlock_restrict_self": (None, errno.EPERM)},
    "namespaces": {
        "unshare": (None, errno.EPERM),
        "setns": (None, errno.EPERM),
        "clone3": (None, errno.ENOSYS),
    },
    "mounts": {
        "mount": (None, errno.EPERM),
        "pivot_root": (None, errno.EPERM),
        "umount2": (None, errno.EPERM),
    },
}
"""System calls that fail once a layer is gone: of all arguments or one value of the first, and with which error."""
NUMBERS = {
    "prctl": (157, 167), "seccomp": (317, 277), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446), "unshare": (272, 97), "setns": (308, 268), "clone3": (435, 435),
    "mount": (165, 40), "pivot_root": (155, 41), "umount2": (166, 39), "clone": (56, 220),
}  # fmt: skip
"""Numbers on x86-64 and 64-bit ARM. Source: Linux, syscall_64.tbl and include/uapi/asm-generic/unistd.h."""
CONTAINER = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
"""Capabilities that containers have by default. Source: Docker, "Runtime privilege and Linux capabilities"."""
OLD_LANDLOCK = "import kernelwright.system.landlock as l; l.landlock_version = lambda: 1"

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
    "the judge's environment is not seen": lambda _: "os.environ['OF_THE_JUDGE']",
    "memory is bounded": lambda _: "bytearray(1 << 40)",
}
"""Of each promise what a candidate does that breaks it: it ends in an exception where the promise is kept."""


def take_away(names: list[str]) -> None:
    """Forbid the system calls of these layers to this process and its children."""
    wanted = [(name, *rule) for layer in names for name, rule in FORBIDDEN.get(layer, {}).items()]
    if not wanted:
        return
    column = ("x86_64", "aarch64").index(platform.machine())
    code = []
    for name, first, error in wanted:
        refuse = _op(0x06, 0x00050000 | error)
        rule = [refuse] if first is None else [_op(0x20, 16), _op(0x15, first, 0, 1), refuse, _op(0x20, 0)]
        code += [_op(0x15, NUMBERS[name][column], 0, len(rule)), *rule]
    if "namespaces" in names:
        rule = [_op(0x20, 16), _op(0x45, 0x7E020000, 0, 1), _op(0x06, 0x00050000 | errno.EPERM), _op(0x20, 0)]
        code += [_op(0x15, NUMBERS["clone"][column], 0, len(rule)), *rule]
    text = b"".join([_op(0x20, 0), *code, _op(0x06, 0x7FFF0000)])

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)
    if libc.prctl(22, 2, ctypes.byref(Program(len(text) // 8, text)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel took no filter")


def keep_capabilities(kept: tuple[int, ...]) -> None:
    """Give up all capabilities but these, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in set(range(64)) - set(kept):
        libc.prctl(24, number, 0, 0, 0)
    low = sum(1 << number for number in kept)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(low, low, 0, 0, 0, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def with_old_landlock(folder: Path) -> None:
    """Have zygotes started that know of no version of Landlock but the first."""
    from kernelwright.sandbox import _process

    python = folder / "python"
    code = f"{OLD_LANDLOCK}; import sys; from kernelwright.sandbox import _zygote as z; z.main(sys.argv[3:])"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    python.chmod(0o755)
    _process.sys = SimpleNamespace(executable=str(python))  # type: ignore[attr-defined]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def main(asked: dict[str, Any]) -> None:
    """Take away, attack, print."""
    if "capabilities" in asked["without"]:
        keep_capabilities(CONTAINER)
    take_away(asked["without"])
    with tempfile.TemporaryDirectory() as folder:
        if "new Landlock" in asked["without"]:
            with_old_landlock(Path(folder))
        print(json.dumps(_attack(Path(folder), asked["sandbox"])))


def _attack(folder: Path, sandbox: str) -> dict[str, Any]:
    import torch

    from kernelwright.config import Settings
    from kernelwright.records import Candidate, SourceFile
    from kernelwright.sandbox import Payload, Pool, WorkerFailure

    secret = folder / "task.py"
    secret.write_text("expected")
    (folder / "baselines").mkdir()
    os.environ["OF_THE_JUDGE"] = "1"
    settings = Settings.from_environment({"KERNELWRIGHT_SANDBOX": sandbox, "KERNELWRIGHT_CACHE": str(folder)})
    broken = []
    with Pool(settings, arena_bytes=1 << 20, memory_bytes=1 << 30) as pool:
        slot = pool.arena.place(torch.ones(1))
        for name, attempt in ATTEMPTS.items():
            source = SourceFile(path="kernel.py", text=f"{HEAD}{attempt(secret)}\n    return x\n")
            candidate = Candidate(sources=(source,), language="torch", entry="kernel.py:run")
            with pool.worker(Payload(candidate)) as worker:
                try:
                    worker.call([worker.bind((slot,), ())])
                    broken.append(name)
                except WorkerFailure:
                    continue
        return {
            "isolation": pool.isolation,
            "layers": pool.layers,
            "promises": pool.promises,
            "broken": broken,
        }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
