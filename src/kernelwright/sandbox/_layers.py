"""Find out which layers hold, by letting a worker try and by looking at it from outside."""

import os
import socket
import tempfile
from pathlib import Path

from ._environment import environment
from ._worker import Worker

_PROBED = ("read-only", "private-tmp", "no-network", "seccomp", "pid-namespace", "environment")
LAYERS = ("process-group", "rlimits", *_PROBED, "frozen-read", "no-capabilities")
"""Every layer but the kind of file isolation."""


def active_layers(worker: Worker, kind: str) -> tuple[str, ...]:
    """Name the layers around `worker` that a trial confirmed; `kind` counts if our files are closed to it."""
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_text("of the judge")
        found = worker.probe(
            {"secret": str(secret), "port": server.getsockname()[1], "variables": _own_variables()}
        )
    layers = []
    if _leads_session(worker.pid):
        layers.append("process-group")
    if _limited(worker.pid):
        layers.append("rlimits")
    if kind != "none" and found.get("secret") is True:
        layers.append(kind)
    layers += [name for name in _PROBED if found.get(name) is True]
    if worker.reads_frozen:
        layers.append("frozen-read")
    if not _capable(worker.pid):
        layers.append("no-capabilities")
    return tuple(layers)


def _own_variables() -> list[str]:
    """Name the judge's variables that no worker is given on purpose and bubblewrap does not set."""
    return sorted(os.environ.keys() - environment(1, "cache").keys() - {"PWD", "TMPDIR", "TRITON_HOME"})


def _leads_session(pid: int) -> bool:
    return os.getsid(pid) == pid and os.getpgid(pid) == pid


def _limited(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    found = {line[:26].strip(): line[26:].split()[0] for line in lines[1:]}
    return found.get("Max core file size") == "0" and found.get("Max address space") != "unlimited"


def _capable(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16) != 0
    return True
