"""The bubblewrap command around a zygote: what of the machine it and its workers can see.

Covers: the user's files, the store, tasks, other sources (absent), the system, Python and Kernelwright's own
package (read-only), the network (absent), other processes (absent).
Does not cover: the kernel's own attack surface; see the seccomp filter.
"""

import glob
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from ._namespaces import BUILD_FOLDER, SCRATCH_FOLDER, STAGING_FOLDER

CACHE_FOLDER = "/cache"
"""Where a trusted zygote in bubblewrap finds its compile cache."""
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
_CONFIGURATION = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
    "/etc/OpenCL", "/etc/nsswitch.conf",
)  # fmt: skip
_PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages; an environment may take in those of another."""
_DEVICES = ("/sys/devices/system", "/sys/fs/cgroup")
_GPU_FILES = ("/sys/bus/pci", "/sys/devices", "/sys/module/nvidia", "/sys/class/drm", "/proc/driver/nvidia")


def readable_paths() -> tuple[str, ...]:
    """Name what a worker needs to read: the system, Python, its packages, and this package."""
    python = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    python |= {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    python |= {path for path in sys.path if Path(path).name in _PACKAGES}
    package = str(Path(__file__).resolve().parents[1])
    return _present((*_SYSTEM, *sorted(python), package, *_CONFIGURATION, *_DEVICES))


def gpu_paths() -> tuple[str, ...]:
    """Name the device nodes and driver files of the GPUs that are present."""
    nodes = [*glob.glob("/dev/nvidia*"), *glob.glob("/dev/dri*"), *glob.glob("/dev/kfd")]  # noqa: PTH207
    return _present((*nodes, *_GPU_FILES)) if nodes else ()


def _present(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if Path(path).exists())


def bubblewrap() -> str | None:
    """Return the path of `bwrap`, or none."""
    return shutil.which("bwrap")


def command(staging: Path, cache: Path | None, inner: list[str]) -> list[str]:
    """Compose the command that runs `inner` inside, with `cache` writable where there is one."""
    line = [bubblewrap() or "bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    line += ["--unshare-cgroup-try", "--new-session"]
    if os.geteuid() != 0:
        line += ["--unshare-user", "--cap-add", "ALL"]
    line += ["--proc", "/proc", "--dev", "/dev", "--dir", SCRATCH_FOLDER]
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
