"""Runs the command line as a child process: reads its lines of JSON, waits for its end, or kills it.

Covers: a command that is cancelled (its process group is killed, and every worker with it), one that fails (its
error sentence is raised), one that hangs when asked to stop.
Does not cover: a time limit for commands; the caller may cancel them.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import JsonValue

Line = dict[str, JsonValue]
"""One line of a command's output."""

OnLine = Callable[[Line], Awaitable[None]]
"""Called with every line of a command before its result, and with an empty one periodically while there is none."""

PROGRAM = (sys.executable, "-P", "-m", "kernelwright")
"""The program that every tool runs; files in its working directory cannot shadow a module."""
_HEARTBEAT_S = 2.0
_MOST_LINE_BYTES = 64 << 20
_GRACE_S = 10.0


class Command:
    """A running Kernelwright command with JSON output."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._process = process
        self._lines = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def start(cls, arguments: Sequence[str], *, asks: bool = False) -> "Command":
        """Start a command in its own process group; one that `asks` reads requests from its input."""
        return cls(
            await anyio.open_process(
                [*PROGRAM, *arguments, "--json"],
                stdin=subprocess.PIPE if asks else subprocess.DEVNULL,
                stderr=None,
                start_new_session=True,
            )
        )

    async def line(self) -> Line:
        """Wait for the next line.

        Raises:
            ToolError: the command reports an error, or ended without output.
        """
        try:
            text = await self._lines.receive_until(b"\n", _MOST_LINE_BYTES)
        except (
            anyio.IncompleteRead,
            anyio.EndOfStream,
            anyio.ClosedResourceError,
            anyio.BrokenResourceError,
        ):
            code = await self._process.wait()
            raise ToolError(
                f"the command ended with exit code {code} and no result; see the server's log"
            ) from None
        line: Line = json.loads(text)
        if line["event"] == "error":
            raise ToolError(str(line["message"]))
        return line

    async def until(self, event: str, on_line: OnLine) -> Line:
        """Wait for the line of that event; `on_line` receives those before it, and periodically an empty one."""
        while True:
            with anyio.move_on_after(_HEARTBEAT_S) as waited:
                line = await self.line()
                if line["event"] == event:
                    return line
            await on_line({} if waited.cancelled_caught else line)

    async def ask(self, **request: JsonValue) -> None:
        """Send one request."""
        assert self._process.stdin is not None
        with contextlib.suppress(anyio.BrokenResourceError):
            await self._process.stdin.send(json.dumps(request).encode() + b"\n")

    async def finished(self) -> None:
        """Wait for it to end by itself, without a time limit; its input, if any, is closed first."""
        if self._process.stdin is not None:
            await self._process.stdin.aclose()
        with anyio.move_on_after(_GRACE_S):
            await self._process.wait()

    async def end(self) -> None:
        """End it: ask first, then kill its whole group if it does not exit."""
        with anyio.CancelScope(shield=True):
            if self._process.returncode is None:
                _signal(self._process.pid, signal.SIGTERM)
                with anyio.move_on_after(_GRACE_S):
                    await self._process.wait()
            _signal(self._process.pid, signal.SIGKILL)
            await self._process.aclose()

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self._process.returncode is None


@asynccontextmanager
async def running(arguments: Sequence[str]) -> AsyncIterator[Command]:
    """Run a command for as long as the context lasts."""
    command = await Command.start(arguments)
    try:
        yield command
        await command.finished()
    except ToolError:
        await command.finished()
        raise
    finally:
        await command.end()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
