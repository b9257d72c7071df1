"""Items → answers, by several child processes; one that hangs or dies costs its own item only."""

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

Row = dict[str, Any]
_TAIL = 2000
"""Characters of a dead child's errors that are kept."""


def answered(
    module: str,
    items: Sequence[Row],
    *,
    children: int,
    until: float,
    each_s: float,
    words: Sequence[str] = (),
) -> Iterator[Row]:
    """Yield each item with its answer, in the order in which they come.

    A child runs `python -m module WORDS`, reads an item a line and writes its answer a line (`serve`). Items that no
    child took before `until` (by `time.monotonic`) have no answer.

    Args:
        module: What a child runs.
        items: What to answer, first come first served.
        children: How many processes.
        until: When to stop; children that still work are killed.
        each_s: Seconds an item may take, the first one of a child twice as many.
        words: Arguments of the child.
    """
    waiting: queue.SimpleQueue[Row] = queue.SimpleQueue()
    found: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    threads = [
        threading.Thread(target=_feed, args=([module, *words], waiting, found, until, each_s), daemon=True)
        for _ in range(children)
    ]
    for thread in threads:
        thread.start()
    left = len(threads)
    while left:
        row = found.get()
        if row is None:
            left -= 1
        else:
            yield row


def serve(answer: Any) -> None:
    """Answer items from standard input until it ends; what else is printed goes to standard error."""
    lines, out = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in lines:
        row = answer(json.loads(line))
        out.write(json.dumps(row) + "\n")
        out.flush()
        if row.get("fatal"):
            return


def _feed(
    run: Sequence[str], waiting: "queue.SimpleQueue[Row]", found: "queue.SimpleQueue[Row | None]", until: float,
    each_s: float,
) -> None:  # fmt: skip
    child, fresh = None, True
    try:
        while time.monotonic() < until:
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                break
            if child is None or child.is_over:
                child, fresh = _Child(run), True
            limit = min(until, time.monotonic() + (2 if fresh else 1) * each_s)
            answer = child.ask(item, limit)
            if answer["status"] == "hung" and limit == until:
                answer["status"] = "not finished"
            found.put({**item, **answer})
            fresh = False
    finally:
        if child is not None:
            child.end()
        found.put(None)


class _Child:
    def __init__(self, run: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            [sys.executable, "-m", *run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            start_new_session=True,
        )  # fmt: skip
        self.is_over = False
        self._read = b""

    def ask(self, item: Row, until: float) -> Row:
        """Return the answer; a status `hung` or `died` where there is none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(item).encode() + b"\n")
            self._process.stdin.flush()
            while b"\n" not in self._read:
                left = until - time.monotonic()
                ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, left))
                if not ready:
                    self.end()
                    return {"status": "hung", "why": f"no answer in time; {self._tail()}"}
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    self.end()
                    return {"status": "died", "why": f"exit {self._process.poll()}: {self._tail()}"}
                self._read += data
        except BrokenPipeError:
            self.end()
            return {"status": "died", "why": f"exit {self._process.poll()}: {self._tail()}"}
        line, _, self._read = self._read.partition(b"\n")
        answer: Row = json.loads(line)
        if answer.pop("fatal", False):
            self.end()
        return answer

    def end(self) -> None:
        """Kill the child and what it started."""
        self.is_over = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _tail(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-_TAIL:]
