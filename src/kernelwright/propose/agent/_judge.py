"""Our judge for an agent's questions: a process of our own program outside the workspace, with the run's task.

Covers: a judge that hangs or dies (it is killed, and a question is answered with why); too many questions.
Does not cover: what is told beyond `kernelwright judge --screen`, which says nothing of hidden workloads.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...system.resources import Resource

PROGRAM = (sys.executable, "-P", "-m", "kernelwright")
"""The program that judges; no file of the folder that it is started in takes the place of a module."""

_POLL_S = 0.1
Answer = dict[str, Any]
"""What the judge says, as it is told to the agent."""


class Judge(Resource):
    """Screens candidates for one agent, a fixed number of times; started when it is first asked."""

    def __init__(self, program: Sequence[str], arguments: Sequence[str], *, most: int) -> None:
        """Prepare.

        Args:
            program: The program to run.
            arguments: What `judge` is given besides the candidate.
            most: How many questions are answered.
        """
        self._line = [*program, "judge", *arguments, "-", "--json"]
        self._most = most
        self._process: subprocess.Popen[bytes] | None = None
        self._said: queue.Queue[bytes] = queue.Queue()
        self.judged = 0
        """Questions that were answered so far."""

    def ask(self, candidate: Path, stop: Callable[[], bool]) -> Answer:
        """Screen what lies in a folder; gives up, and kills the judge, as soon as `stop` says so."""
        if self.judged >= self._most:
            return {
                "event": "error",
                "message": f"all {self._most} judgements are used; leave the best and end",
            }
        self.judged += 1
        process = self._process or self._start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps({"candidate": str(candidate), "screen": True}).encode() + b"\n")
            process.stdin.flush()
        return self._answer(stop)

    def close(self) -> None:
        """Kill the judge, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(BrokenPipeError):
                process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self._process, self._said = process, queue.Queue()
        threading.Thread(target=_read, args=(process, self._said), daemon=True).start()
        return process

    def _answer(self, stop: Callable[[], bool]) -> Answer:
        while not stop():
            try:
                line = self._said.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if not line:
                self.close()
                return {"event": "error", "message": "the judge ended without an answer; ask once more"}
            said: Answer = json.loads(line)
            if said["event"] in {"result", "error"}:
                return said
        self.close()
        return {"event": "error", "message": "time is up"}


def _read(process: "subprocess.Popen[bytes]", said: "queue.Queue[bytes]") -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError):
        for line in process.stdout:
            said.put(line)
    said.put(b"")
