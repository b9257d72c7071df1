"""Namespaces and mounts of one worker, by system call: its own processes, files and IPC.

Covers: seeing or signalling other processes, leaving processes behind (all die with the worker, which is the
first of its PID namespace), process numbers used up, files of other workers, writable kernel settings.
Does not cover: CPU and memory bandwidth, which workers share with everybody.
"""

import ctypes
import os
from pathlib import Path

_NEWNS, _NEWIPC, _NEWPID, _NEWNET = 0x20000, 0x08000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = (
    1, 2, 4, 32, 4096, 16384, 1 << 18,
)  # fmt: skip
_LAST_CAPABILITY = 63
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 24, 47

BUILD_FOLDER = "/build"
"""Where a worker in bubblewrap finds its artefact."""
SCRATCH_FOLDER = "/scratch"
"""Where a worker in bubblewrap has its private temporary folder; /tmp points there."""
STAGING_FOLDER = "/staging"
"""Where a zygote in bubblewrap finds what the judge prepared for its workers."""


def isolate_next_child() -> bool:
    """Let the next forked child be the first process of a fresh PID namespace."""
    return bool(_libc().unshare(_NEWPID) == 0)


def leave_network() -> bool:
    """Move this process to a network namespace that has no interface."""
    return bool(_libc().unshare(_NEWNET) == 0)


def return_to(namespace: int) -> bool:
    """Let further children start in the PID namespace of descriptor `namespace` again."""
    return bool(_libc().setns(namespace, _NEWPID) == 0)


def mount_private(staged: Path, temporary_bytes: int, processes: int) -> bool:
    """Give this process its own /proc, /scratch, /dev/shm and /build, and hide what is staged for others."""
    if _libc().unshare(_NEWNS | _NEWIPC) != 0 or not _mount("none", "/", "", _MS_REC | _MS_PRIVATE):
        return False
    size = f"size={temporary_bytes},mode=1777"
    done = [
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV),
        _mount("tmpfs", SCRATCH_FOLDER, "tmpfs", _MS_NOSUID | _MS_NODEV, size),
        _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, size),
        _mount(str(staged / "build"), BUILD_FOLDER, "", _MS_BIND | _MS_REC),
        _read_only(BUILD_FOLDER),
        _mount("tmpfs", STAGING_FOLDER, "tmpfs", _MS_RDONLY, "size=4k"),
    ]
    limit_processes(processes)
    done += [_mount("/proc/sys", "/proc/sys", "", _MS_BIND) and _read_only("/proc/sys")]
    return all(done)


def mount_proc() -> bool:
    """Give this process a /proc of its own PID namespace, changing nothing else."""
    if _libc().unshare(_NEWNS | _NEWIPC) != 0 or not _mount("none", "/", "", _MS_REC | _MS_PRIVATE):
        return False
    return _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV)


def limit_processes(processes: int) -> bool:
    """Bound the process numbers of this PID namespace (Linux 6.14; no effect before)."""
    if os.getpid() != 1:
        return False
    try:
        Path("/proc/sys/kernel/pid_max").write_text(str(processes))
    except OSError:
        return False
    return True


def drop_privileges(uid: int | None) -> bool:
    """Become `uid` (none: stay) and give up every capability for good; returns whether none is left."""
    libc = _libc()
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc.capset(header, nothing)
    libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0)
    return _effective_capabilities() == 0


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return -1


def _read_only(path: str) -> bool:
    return _mount("none", path, "", _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> bool:
    result = _libc().mount(
        source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None
    )
    return bool(result == 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
