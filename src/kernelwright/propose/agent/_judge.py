"""Answers an agent's judgement requests with a Kernelwright process outside the workspace, on the run's task.

Covers: a judge that hangs or dies (it is killed, and the request is answered with the reason); too many requests.
Does not cover: more than `kernelwright judge --screen` reports, which reveals nothing of hidden workloads.
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
"""The judge's command line; files in its working directory cannot shadow a module."""

_POLL_S = 0.1
Answer = dict[str, Any]
"""The judge's answer as the agent receives it."""


class Judge(Resource):
    """Screens candidates for one agent, a limited number of times; started on the first request."""

    def __init__(self, program: Sequence[str], arguments: Sequence[str], *, most: int) -> None:
        """Prepare; the process starts on the first request.

        Args:
            program: The program to run.
            arguments: Arguments of `judge` other than the candidate.
            most: How many requests are answered.
        """
        self._line = [*program, "judge", *arguments, "-", "--json"]
        self._most = most
        self._process: subprocess.Popen[bytes] | None = None
        self._said: queue.Queue[bytes] = queue.Queue()
        self.judged = 0
        """Requests answered so far."""

    def ask(self, candidate: Path, stop: Callable[[], bool]) -> Answer:
        """Screen the candidate in a folder; gives up and kills the judge as soon as `stop` returns true."""
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
        """Kill the judge if it is running."""
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
