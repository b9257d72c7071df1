"""Try from inside what each layer is to prevent, and say what was prevented."""

import contextlib
import os
import socket
from pathlib import Path
from typing import Any

from ._channel import Message
from ._seccomp import filter_works


def probe(request: Any) -> Message:
    """Attempt each thing that must fail; `request` names what is the judge's."""
    return {
        "secret": not _opens(request["secret"], os.O_RDONLY),
        "read-only": not _writes(Path(__file__).parent)
        and not _writes(Path("/usr"))
        and not _truncates(request["secret"]),
        "private-tmp": _writes(Path.cwd()) and not Path(request["secret"]).exists(),
        "no-network": not _connects(request["port"]),
        "seccomp": filter_works(),
        "pid-namespace": _alone(),
        "environment": not os.environ.keys() & set(request["variables"]),
    }


def _opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True


def _writes(folder: Path) -> bool:
    path = folder / f".probe-{os.urandom(6).hex()}"
    opened = _opens(str(path), os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        path.unlink()
    return opened


def _truncates(path: str) -> bool:
    """Cut a file to the length that it has, which Landlock refuses since its third version only."""
    try:
        os.truncate(path, os.stat(path).st_size)  # noqa: PTH116
    except OSError:
        return False
    return True


def _connects(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _alone() -> bool:
    """Tell whether this is the first process of its namespace and sees no other."""
    return os.getpid() == 1 and [e.name for e in Path("/proc").iterdir() if e.name.isdigit()] == ["1"]
