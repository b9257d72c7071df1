"""Runs one agent: starts it, serves its requests to the judge, ends it, and keeps its output without secrets.

If bubblewrap is available, the agent sees the machine read-only, except its workspace and its own settings, and
neither the store nor other processes; when it ends, everything it started ends too.

Covers: deadlines, interrupts, agents that fork, detach themselves, print endlessly, or crash.
Does not cover: the network, which an agent needs; files that the user can read, if the agent looks for them;
without bubblewrap also files that the user can write, and the store.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

MARK = "KERNELWRIGHT_WORKSPACE"
"""Environment variable that identifies an agent's processes, even detached ones."""
_POLL_S = 0.05
_MOST_OUTPUT_BYTES = 64 << 20
_KEY = re.compile(
    r"\b(?:sk|pk|ghp|gho|hf|xox[abp])[-_][A-Za-z0-9_-]{12,}|\bAKIA[A-Z0-9]{16}\b|(?i:bearer )[\w.~+/=-]{16,}"
)
_LEAST_SECRET = 8
_VIEW = ("--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--unshare-pid")
"""Bubblewrap's arguments for an agent's view: the whole machine, read-only, and only its own processes."""


@dataclass(frozen=True)
class Attempt:
    """How an agent's work ended."""

    ended: Literal["done", "deadline", "interrupted", "output"]
    """`output`: it printed more than the limit and was killed."""
    code: int
    """Exit code; negative: the signal that ended it."""
    output: str
    """Its output, without secrets."""


def run_agent(
    command: Sequence[str],
    workspace: Path,
    *,
    environment: Mapping[str, str],
    secrets: Sequence[str],
    deadline_s: float,
    interrupted: Callable[[], bool],
    serve: Callable[[Callable[[], bool]], None],
) -> Attempt:
    """Run an agent to its end, or kill it and everything it started.

    Args:
        command: Its command line.
        workspace: The folder it works in.
        environment: All its environment variables.
        secrets: Strings that must not appear in its transcript.
        deadline_s: Its wall seconds.
        interrupted: Whether the run was interrupted.
        serve: Called repeatedly to answer its requests, with a function that returns whether to stop.
    """
    ends = time.monotonic() + deadline_s
    log = workspace.parent / "output"
    ended: Literal["done", "deadline", "interrupted", "output"] = "done"

    def over() -> bool:
        return time.monotonic() >= ends or interrupted()

    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=workspace, env={**environment, MARK: str(workspace)}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            while process.poll() is None:
                if over():
                    ended = "interrupted" if interrupted() else "deadline"
                    break
                if log.stat().st_size > _MOST_OUTPUT_BYTES:
                    ended = "output"
                    break
                serve(lambda: over() or process.poll() is not None)
                time.sleep(_POLL_S)
        finally:
            _kill(process, workspace)
    text = log.read_bytes()[:_MOST_OUTPUT_BYTES].decode(errors="replace")
    return Attempt(ended, process.returncode, scrubbed(text, secrets))


def confined(
    command: Sequence[str], workspace: Path, *, hidden: Sequence[Path], writable: Sequence[Path]
) -> list[str]:
    """Wrap a command in bubblewrap: all read-only except the workspace and writable paths, and some paths hidden."""
    line = [shutil.which("bwrap") or "bwrap", *_VIEW, "--die-with-parent"]
    for folder in hidden:
        line += ["--tmpfs", str(folder.resolve())]
    for path in (*writable, workspace):
        if path.exists():
            line += ["--bind", str(path), str(path)]
    return [*line, "--chdir", str(workspace), "--", *command]


def can_confine() -> bool:
    """Return whether bubblewrap is installed and works."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return False
    try:
        tried = subprocess.run([bwrap, *_VIEW, "true"], capture_output=True, timeout=10, check=False)
        return tried.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def scrubbed(text: str, secrets: Sequence[str]) -> str:
    """Remove secrets from a text: the known ones, and anything that looks like a key.

    Example:
        >>> scrubbed("key hunter2hunter2, sk-abcdefghijklmnop", ["hunter2hunter2"])
        'key [secret], [secret]'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, "[secret]")
    return _KEY.sub("[secret]", text)


def _kill(process: "subprocess.Popen[bytes]", workspace: Path) -> None:
    """Kill the agent's process group, then every process that carries its mark, until none is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(50):
        marked = [p for p in psutil.process_iter() if _mark_of(p) == str(workspace)]
        if not marked:
            return
        for one in marked:
            with contextlib.suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(marked, timeout=0.2)


def _mark_of(process: psutil.Process) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        mark: str | None = process.environ().get(MARK)
        return mark
    except (psutil.Error, OSError):
        return None
