"""One agent at work: started, served by the judge, ended, and what it said kept without secrets.

Where bubblewrap is here the agent sees the machine read-only, but for its workspace and its own settings, and
neither the store nor other processes; its end is the end of everything it started.

Covers: deadlines, interrupts, agents that fork, detach themselves, print without end, or crash.
Does not cover: the network, which an agent needs; files that the user can read, where the agent looks for them;
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
"""Variable by which an agent's processes are known wherever they went."""
_POLL_S = 0.05
_MOST_OUTPUT_BYTES = 64 << 20
_KEY = re.compile(
    r"\b(?:sk|pk|ghp|gho|hf|xox[abp])[-_][A-Za-z0-9_-]{12,}|\bAKIA[A-Z0-9]{16}\b|(?i:bearer )[\w.~+/=-]{16,}"
)
_LEAST_SECRET = 8
_VIEW = ("--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--unshare-pid")
"""What bubblewrap is told to let an agent see: all of the machine, read-only, and no process but its own."""


@dataclass(frozen=True)
class Attempt:
    """How an agent's work ended."""

    ended: Literal["done", "deadline", "interrupted", "output"]
    """`output`: it printed more than is kept and was killed."""
    code: int
    """Exit code; negative: the signal that ended it."""
    output: str
    """What it said, without secrets."""


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
    """Run an agent to its end, or kill it and all it started.

    Args:
        command: Its command line.
        workspace: The folder it works in.
        environment: All the variables it gets.
        secrets: What must not stand in its transcript.
        deadline_s: Wall seconds that it has.
        interrupted: Whether the run was interrupted.
        serve: Called again and again to answer what it asks; given what says when to stop.
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
    """Put bubblewrap around a command: all read-only but the workspace and what is writable, and some hidden."""
    line = [shutil.which("bwrap") or "bwrap", *_VIEW, "--die-with-parent"]
    for folder in hidden:
        line += ["--tmpfs", str(folder.resolve())]
    for path in (*writable, workspace):
        if path.exists():
            line += ["--bind", str(path), str(path)]
    return [*line, "--chdir", str(workspace), "--", *command]


def can_confine() -> bool:
    """Tell whether bubblewrap is here and works."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return False
    try:
        tried = subprocess.run([bwrap, *_VIEW, "true"], capture_output=True, timeout=10, check=False)
        return tried.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def scrubbed(text: str, secrets: Sequence[str]) -> str:
    """Take secrets out of a text: those that are known, and what looks like a key.

    Example:
        >>> scrubbed("key hunter2hunter2, sk-abcdefghijklmnop", ["hunter2hunter2"])
        'key [secret], [secret]'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, "[secret]")
    return _KEY.sub("[secret]", text)


def _kill(process: "subprocess.Popen[bytes]", workspace: Path) -> None:
    """Kill the agent's process group, then whatever still carries its mark, until nothing new appears."""
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
