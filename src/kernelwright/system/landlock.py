"""Landlock: unprivileged limits on file access by path, TCP, and signals outside the process's own domain.

It confines processes that handle untrusted code: workers, and the compilers that read its source.

Covers: reading and writing outside the given paths, TCP (ABI 4), signals and abstract sockets to processes
outside (ABI 6), tracing processes outside.
Does not cover: UDP and other sockets (seccomp does), metadata such as `stat`, files already open.
Source: Linux, Documentation/userspace-api/landlock.rst.
"""

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_LIST = 8
_READ = 1 | 4 | _LIST
_FILE_BITS = 1 | 2 | 4 | 1 << 14 | 1 << 15
_PR_SET_NO_NEW_PRIVS = 38
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
_CONFIGURATION = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
    "/etc/OpenCL", "/etc/nsswitch.conf",
)  # fmt: skip
_PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages; an environment may include those of another."""
_DEVICES = ("/sys/devices/system", "/sys/fs/cgroup")
_GPU_FILES = ("/sys/bus/pci", "/sys/devices", "/sys/module/nvidia", "/sys/class/drm", "/proc/driver/nvidia")


def readable_paths() -> tuple[str, ...]:
    """Return the paths that untrusted code needs to read: the system, Python, its packages, and this package."""
    python = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    python |= {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    python |= {path for path in sys.path if _holds_packages(Path(path))}
    package = str(Path(__file__).resolve().parents[1])
    return present((*_SYSTEM, *sorted(python), package, *_CONFIGURATION, *_DEVICES))


def _holds_packages(folder: Path) -> bool:
    """Tell whether an installer put packages there; after `pip install --target` the folder's name does not say."""
    return folder.name in _PACKAGES or next(folder.glob("*.dist-info"), None) is not None


def graphics_nodes() -> tuple[str, ...]:
    """Return the device files of GPUs, which their drivers read and write."""
    return tuple(str(path) for kind in ("nvidia*", "dri*", "kfd") for path in Path("/dev").glob(kind))


def gpu_paths() -> tuple[str, ...]:
    """Return the device nodes and driver files of the GPUs that are present."""
    nodes = graphics_nodes()
    return present((*nodes, *_GPU_FILES)) if nodes else ()


def present(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths that exist."""
    return tuple(path for path in paths if Path(path).exists())


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32)]


def landlock_version() -> int:
    """Return the kernel's Landlock ABI version; 0 if it has none."""
    found: int = _syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    return max(0, found)


def close_files(readable: Iterable[str], writable: Iterable[str], listed: Iterable[str] = ()) -> bool:
    """Restrict this thread and what it starts to these paths; return whether the kernel enforces all of it.

    Of `listed` folders only the file names can be read, at any depth, and nothing else.
    """
    version = landlock_version()
    if version < 1:
        return False
    handled = _handled_files(version)
    rules = _Ruleset(handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow(ruleset, path, _READ)
        for path in listed:
            _allow(ruleset, path, _LIST)
        for path in writable:
            _allow(ruleset, path, handled)
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(_syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _handled_files(version: int) -> int:
    handled = (1 << 13) - 1
    for since, bit in ((2, 13), (3, 14), (5, 15)):
        if version >= since:
            handled |= 1 << bit
    return handled


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        bits = access if os.path.isdir(path) else access & _FILE_BITS  # noqa: PTH112
        rule = _PathBeneath(bits, descriptor)
        _syscall(_ADD, ruleset, 1, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _syscall(*arguments: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(*arguments))
