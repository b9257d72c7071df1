"""Run a compiler with a deadline, in its own process group, with limits on memory and output.

Covers: compilers that hang, fork, print without end, or exhaust memory or disk; API keys in the environment, which no
compiler receives; sources that include the judge's files, or flags that write there, if the kernel has Landlock.
Does not cover: machines without Landlock (`doctor` reports it); names of the judge's files, which drivers may list.
"""

import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..config import without_secrets
from ..errors import WorkerError
from ..system.landlock import close_files, gpu_paths, graphics_nodes, landlock_version, readable_paths
from ..system.waiting import PATIENCE, waits_ns

OUTPUT_LIMIT = 20_000
"""Characters kept of a compiler's output."""
_MEMORY_LIMIT_BYTES = 32 << 30
_FILE_LIMIT_BYTES = 1 << 30
_MACHINE = ("/proc/cpuinfo", "/proc/meminfo")
"""What CPU drivers need."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_LOOK_S = 1.0
"""Least seconds between two looks at how long it waited: a look takes a processor too."""
_PARTS = ("bin", "lib", "lib64", "libexec", "include", "share", "nvvm", "targets", "*-linux-*")


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    returncode: int
    """Exit code; negative: the signal that ended it."""
    output: str
    """Standard output and error together, cut at `limit` characters."""
    timed_out: bool
    """Whether it was killed at the deadline."""
    time_s: float
    """Wall seconds, until nobody writes output any more."""
    processor_s: float = 0.0
    """Processor seconds of the command and of those that it waited for."""


def run_tool(
    command: Sequence[str | Path],
    *,
    deadline_s: float,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    limit: int = OUTPUT_LIMIT,
    closed: bool = False,
    readable: Sequence[Path] = (),
    stdin: Path | None = None,
) -> Finished:
    """Run a command to its end, or kill its whole process group after `deadline_s` seconds.

    Args:
        command: Words; the first names a program.
        deadline_s: Seconds, without those that it waits for a processor; those count from three times as many.
        folder: Working folder; the current one by default.
        env: Variables added to this process's without the secret ones.
        limit: Characters of output to keep.
        closed: Whether it may read only the system, Python's packages, its own installation and `folder`,
            and write only `folder` and GPUs. For tools that read untrusted sources.
        readable: More folders that it may read.
        stdin: A file to read from; nothing by default.

    Example:
        >>> run_tool(["echo", "hello"], deadline_s=10).output
        'hello\\n'
    """
    started = time.monotonic()
    words = [str(word) for word in command]
    given = {**without_secrets(), **(env or {})}
    place = folder or Path.cwd()
    with (stdin or Path(os.devnull)).open("rb") as source:
        if closed:
            process = _start_closed(words, place, given, readable, source)
        else:
            process = _start(words, place, given, source)
    _limit_resources(process.pid)
    assert process.stdout is not None
    chunks: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(process.stdout, chunks, limit), daemon=True)
    reader.start()
    timed_out = False
    try:
        timed_out = not _ended(process, deadline_s)
    finally:
        _kill_group(process.pid)
        spent = _reaped(process)
        reader.join(timeout=5.0)
        if not reader.is_alive():
            process.stdout.close()
    output = b"".join(chunks).decode(errors="replace")[:limit]
    return Finished(process.returncode, output, timed_out, time.monotonic() - started, spent)


def installation(program: str) -> tuple[str, ...]:
    """Name the folders of a compiler outside the system's: its installation, but no home directory around it."""
    home = Path(shutil.which(program) or program).resolve().parent.parent
    return tuple(str(path) for part in _PARTS for path in home.glob(part))


def _start(words: list[str], folder: Path, env: dict[str, str], source: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words, cwd=folder, env=env, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def _ended(process: subprocess.Popen[bytes], deadline_s: float) -> bool:
    """Wait until the process has ended; return False if the deadline came first.

    It is not reaped, so that its processor time can be asked for, except where a sandbox allows no descriptor of it.
    """
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            descriptor = -1
        else:
            stack.callback(os.close, descriptor)
        left_s = deadline_s
        while left_s > 0:
            if _ends_within(process, descriptor, left_s):
                return True
            waited_s = min(_waited_s(process.pid), PATIENCE * deadline_s)
            left_s = begun + deadline_s + waited_s - time.monotonic()
            left_s = max(left_s, min(deadline_s, _LOOK_S)) if left_s > 0 else left_s
    return False


def _ends_within(process: subprocess.Popen[bytes], descriptor: int, seconds: float) -> bool:
    if descriptor < 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
            return True
        return False
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _waited_s(group: int) -> float:
    """Return the most seconds that a process of a group has waited for a processor; 0 where the system does not say."""
    longest_ns = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            if int(stat.read_text().rpartition(")")[2].split()[2]) == group:
                longest_ns = max([longest_ns, *waits_ns(int(stat.parent.name)).values()])
    return longest_ns / 1e9


def _reaped(process: subprocess.Popen[bytes]) -> float:
    """Reap the process and return its processor seconds; 0 where it was reaped before."""
    if process.returncode is not None:
        return 0.0
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _start_closed(
    words: list[str], folder: Path, env: dict[str, str], more: Sequence[Path], source: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start it from a thread that Landlock restricts first: the rules hold for a thread and its children."""
    folder = folder.resolve()
    readable = (*readable_paths(), *gpu_paths(), *_MACHINE, *installation(words[0]), *map(str, more))
    writable = (str(folder), *_DEVICES, *graphics_nodes())
    env = {**env, "TMPDIR": str(folder), "CCACHE_DISABLE": "1"}

    def start() -> subprocess.Popen[bytes]:
        if landlock_version() and not close_files(readable, writable, listed=["/"]):
            raise WorkerError("the compiler could not be closed in by Landlock")
        return _start(words, folder, env, source)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(start).result()


def _drain(stream: IO[bytes], chunks: list[bytes], limit: int) -> None:
    kept = 0
    while data := stream.read(65536):
        if kept < limit:
            chunks.append(data[: limit - kept])
            kept += len(chunks[-1])


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _limit_resources(pid: int) -> None:
    if not hasattr(resource, "prlimit"):
        return
    limits = ((resource.RLIMIT_AS, _MEMORY_LIMIT_BYTES), (resource.RLIMIT_FSIZE, _FILE_LIMIT_BYTES))
    for kind, amount in limits:
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            hard = resource.prlimit(pid, kind)[1]
            most = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
            resource.prlimit(pid, kind, (most, hard))
