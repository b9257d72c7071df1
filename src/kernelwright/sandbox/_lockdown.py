"""Close a worker in, from the inside, before it has seen any of the candidate.

Covers: what each layer's own module says; here: session, descriptors, limits, environment, folders, user.
Does not cover: layers that the kernel refused; `close` returns those that it granted, and the judge reports
only what a probe confirmed.
"""

import ctypes
import os
import resource
import signal
from pathlib import Path

from ..system.landlock import close_files, gpu_paths, graphics_nodes, readable_paths
from ._confinement import Confinement
from ._namespaces import (
    BUILD_FOLDER,
    SCRATCH_FOLDER,
    drop_privileges,
    limit_processes,
    mount_private,
    mount_proc,
)
from ._seccomp import close_system_calls

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_FILE_BYTES = 4 << 30
_DESCRIPTORS = 1024
_CHANNEL = 3
_VIEW = "machine"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")


def close(confinement: Confinement) -> str:
    """Apply every layer in order; returns the artefact's folder as the worker sees it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    build, temporary = _place(confinement)
    # Triton would keep what it compiles where HOME was when it was imported, before the fork.
    os.environ["TMPDIR"] = os.environ["HOME"] = os.environ["TRITON_HOME"] = temporary
    os.chdir(temporary)
    os.umask(0o077)
    _limit(confinement)
    if confinement.isolation != "none":
        _restrict(confinement, build, temporary)
    return build


def take_descriptors(channel: int, output: int) -> None:
    """Leave stdin empty, stdout and stderr to the judge's pipe, the channel at 3, and nothing else."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    channel = os.dup(channel) if channel <= _CHANNEL else channel
    output = os.dup(output) if output <= _CHANNEL else output
    for source, target in ((nothing, 0), (output, 1), (output, 2), (channel, _CHANNEL)):
        os.dup2(source, target, inheritable=target < _CHANNEL)
    os.closerange(_CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))


def default_signals() -> None:
    """Undo what the zygote or Python set up: every signal as in a new process but SIGPIPE."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _place(confinement: Confinement) -> tuple[str, str]:
    staged = Path(confinement.staged)
    if confinement.isolation == "bubblewrap" and mount_private(
        staged, confinement.temporary_bytes, confinement.processes
    ):
        return BUILD_FOLDER, SCRATCH_FOLDER
    first = os.getpid() == 1
    if first:
        mount_proc()  # CUDA's driver looks for its own process by number
    if confinement.isolation == "landlock":
        _view_machine(staged / _VIEW)
        if first:
            limit_processes(confinement.processes)
    return str(staged / "build"), str(staged / "tmp")


def _view_machine(view: Path) -> None:
    """Make a root for hwloc, which opens its root to find /proc and /sys there, and must not list ours.

    Without one PoCL finds no memory and aborts.
    """
    view.mkdir()
    for name in ("proc", "sys"):
        (view / name).symlink_to(f"/{name}")
    os.environ |= {"HWLOC_FSROOT": str(view), "HWLOC_THISSYSTEM": "1"}


def _limit(confinement: Confinement) -> None:
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_NOFILE, _DESCRIPTORS)
    _set_limit(resource.RLIMIT_FSIZE, _FILE_BYTES)
    if not confinement.gpu:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _set_limit(resource.RLIMIT_AS, pages * os.sysconf("SC_PAGESIZE") + confinement.memory_bytes)
    if confinement.uid is not None:
        _set_limit(resource.RLIMIT_NPROC, confinement.processes)


def _set_limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _restrict(confinement: Confinement, build: str, temporary: str) -> None:
    drop_privileges(confinement.uid)
    libc = ctypes.CDLL(None)  # becoming another user cleared both of these
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if confinement.isolation == "landlock":
        # CUDA's driver names its threads in /proc/PID/task/TID/comm, and does not start where it cannot. Of /proc and
        # /sys nothing else may be written: a worker of root's could, capabilities or not.
        seen, written = (
            (gpu_paths(), (*graphics_nodes(), f"/proc/{os.getpid()}")) if confinement.gpu else ((), ())
        )
        close_files(
            (*readable_paths(), build, "/proc", str(Path(confinement.staged) / _VIEW), *seen),
            (temporary, *_DEVICES, *written, *confinement.writable),
        )
    close_system_calls(unix_sockets=confinement.gpu)
