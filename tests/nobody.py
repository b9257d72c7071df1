"""Run a command as a user without rights, to whom this Python and this project are readable wherever they lie.

Where a folder above them is closed to others (`/root`), it is covered, in a mount namespace of this process alone, by
an empty one in which nothing but they are found.
"""

import ctypes
import os
import sys
from pathlib import Path

NOBODY = 65534
_NEWNS, _BIND, _RECURSIVE, _PRIVATE = 0x20000, 4096, 16384, 1 << 18


def expose(paths: set[Path]) -> None:
    """Let others find these paths, as this process and its children see the machine from now on."""
    closed = {top for path in paths if (top := _closed_above(path))}
    if not closed:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWNS) != 0 or libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace")
    hidden = {
        path: os.open(path, os.O_PATH)
        for path in paths
        if closed & set(path.parents) and not paths & set(path.parents)
    }
    for top in closed:
        _mount(libc, b"tmpfs", top, b"tmpfs", 0, b"mode=755")
    for path, descriptor in hidden.items():
        path.mkdir(parents=True, exist_ok=True)
        _mount(libc, f"/proc/self/fd/{descriptor}".encode(), path, None, _BIND | _RECURSIVE, None)


def _closed_above(path: Path) -> Path | None:
    """Return the outermost folder above `path` that others may not enter."""
    return next((p for p in reversed(path.parents) if not p.stat().st_mode & 0o001), None)


def _mount(
    libc: ctypes.CDLL, source: bytes, on: Path, kind: bytes | None, flags: int, data: bytes | None
) -> None:
    if libc.mount(source, str(on).encode(), kind, flags, data) != 0:
        raise OSError(ctypes.get_errno(), f"mount on {on}")


def main(command: list[str]) -> None:
    """Become nobody and run the command in the place of this process."""
    own = {Path(p).resolve() for p in (sys.prefix, sys.base_prefix, *filter(None, sys.path))}
    expose({p for p in own if p.is_dir()} | {Path(__file__).resolve().parents[1]})
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.chdir("/")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
