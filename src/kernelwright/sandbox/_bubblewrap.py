"""The bubblewrap command around a zygote: what of the machine it and its workers can see.

Covers: the user's files, the store, tasks, other sources (absent), the system, Python and Kernelwright's own
package (read-only), the network (absent), other processes (absent).
Does not cover: the kernel's own attack surface; see the seccomp filter.
"""

import os
import shutil
from pathlib import Path

from ..system.landlock import gpu_paths, readable_paths
from ._namespaces import BUILD_FOLDER, SCRATCH_FOLDER, STAGING_FOLDER

CACHE_FOLDER = "/cache"
"""Where a trusted zygote in bubblewrap finds its compile cache."""


def bubblewrap() -> str | None:
    """Return the path of `bwrap`, or none."""
    return shutil.which("bwrap")


def command(staging: Path, cache: Path | None, inner: list[str], *, under: bool = False) -> list[str]:
    """Compose the command that runs `inner` inside, with `cache` writable where there is one.

    Where the zygote is under a tool, that has a folder for its own files, which each worker's own hides, and dies with
    the command.
    """
    line = [bubblewrap() or "bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    line += ["--unshare-cgroup-try", "--new-session"]
    if os.geteuid() != 0:
        line += ["--unshare-user", "--cap-add", "ALL"]
    line += ["--proc", "/proc", "--dev", "/dev", "--tmpfs" if under else "--dir", SCRATCH_FOLDER]
    line += ["--die-with-parent"] if under else []
    readable = readable_paths()
    if not any(path.startswith("/tmp/") for path in readable):
        line += ["--symlink", SCRATCH_FOLDER, "/tmp"]
    for folder in _parents((*readable, *gpu_paths())):
        line += ["--perms", "0755", "--dir", folder]
    for path in readable:
        line += _bind(path)
    for path in gpu_paths():
        line += ["--dev-bind", path, path]
    line += ["--dir", BUILD_FOLDER, "--ro-bind", str(staging), STAGING_FOLDER]
    if cache is not None:
        line += ["--bind", str(cache), CACHE_FOLDER]
    return [*line, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--", *inner]


def _parents(paths: tuple[str, ...]) -> list[str]:
    """Name the folders that bubblewrap would make closed to other users, outermost first."""
    above = {str(parent) for path in paths for parent in Path(path).parents}
    return sorted(f for f in above - {"/", "/dev", "/proc"} if not any(f.startswith(f"{p}/") for p in paths))


def _bind(path: str) -> list[str]:
    if os.path.islink(path):  # noqa: PTH114
        return ["--symlink", os.readlink(path), path]  # noqa: PTH115
    return ["--ro-bind", path, path]
