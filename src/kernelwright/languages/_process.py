"""Run a compiler: with a deadline, in its own process group, with limits on memory and output.

Covers: compilers that hang, fork, print without end, or eat memory or disk; keys in the environment, which no
compiler is given.
Does not cover: a compiler that reads files it should not; its words may quote them.
"""

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..config import without_secrets

OUTPUT_LIMIT = 20_000
"""Characters kept of a compiler's output."""
_MEMORY_LIMIT_BYTES = 32 << 30
_FILE_LIMIT_BYTES = 1 << 30


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
    """Wall seconds."""


def run_tool(
    command: Sequence[str | Path],
    *,
    deadline_s: float,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    limit: int = OUTPUT_LIMIT,
) -> Finished:
    """Run a command to its end, or kill its whole process group after `deadline_s` seconds.

    Example:
        >>> run_tool(["echo", "hello"], deadline_s=10).output
        'hello\\n'
    """
    started = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env={**without_secrets(), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    _limit_resources(process.pid)
    assert process.stdout is not None
    chunks: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(process.stdout, chunks, limit), daemon=True)
    reader.start()
    timed_out = False
    try:
        process.wait(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _kill_group(process.pid)
        process.wait()
        reader.join(timeout=5.0)
        if not reader.is_alive():
            process.stdout.close()
    output = b"".join(chunks).decode(errors="replace")[:limit]
    return Finished(process.returncode, output, timed_out, time.monotonic() - started)


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
