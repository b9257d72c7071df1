"""The MCP tools: each runs one command with its arguments and returns its result."""

import itertools
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from ._bench import Bench
from ._command import Line, OnLine, running

Task = Annotated[
    str, Field(description="`file.py`, `file.py:symbol`, a definition's JSON, or a folder", min_length=1)
]
Run = Annotated[str, Field(description="A run's id, a beginning of it, or `last`", min_length=1)]
MaxElements = Annotated[int | None, Field(description="Shrink sizes until all tensors together fit", ge=1)]
Counters = Annotated[
    bool, Field(description="Also let profilers count: cache misses, branches, vectors ...; seconds more")
]
Verbose = Annotated[
    bool, Field(description="Say all that is known; by default only what is worth its tokens")
]
Candidate = Annotated[
    str, Field(description="Path of the candidate: a source file, `file:symbol`, or a folder")
]
Source = Annotated[str, Field(description="The candidate's text, in place of a path")]
File = Annotated[
    str, Field(description="Name for `source`; its suffix says the language: .cpp, .py, .cu, .cl")
]
Following = Context[None, Any]

_MOST_ROWS, _LATEST = 20, 5


class Tools:
    """The tools and their state between calls: one warm judge, and the submitted sources."""

    def __init__(self, store: Path) -> None:
        """Prepare; nothing is started yet."""
        self._store = store
        self._common = ("--store", str(store))
        self._bench = Bench(self._common)
        self._folder = tempfile.TemporaryDirectory(prefix="kernelwright-mcp-")
        self._numbers = itertools.count()

    def all(self) -> Sequence[Callable[..., Awaitable[Line]]]:
        """Return every tool, in the order of the workflow."""
        return (
            self.describe_task, self.bound, self.profile, self.search_lessons, self.judge, self.submit, self.export,
            self.optimize, self.status, self.list_runs, self.show_run,
        )  # fmt: skip

    async def rest(self) -> None:
        """End the warm judge; the next judgement starts another."""
        await self._bench.close()

    def close(self) -> None:
        """Remove the written files; nothing is judged after that."""
        self._folder.cleanup()

    async def describe_task(
        self, task: Task, ctx: Following, max_elements: MaxElements = None, verbose: Verbose = False
    ) -> Line:
        """Describe a task: reference, search workloads, contract, and the languages to write it in."""
        more = ("--verbose",) if verbose else ()
        return await self._result(ctx, "describe", *_task(task, max_elements), *more)

    async def bound(self, task: Task, ctx: Following, max_elements: MaxElements = None) -> Line:
        """Return how fast the task could be on this device, from its measured peaks, and which resource binds it."""
        return await self._rows("bounds", ctx, "bound", *_task(task, max_elements))

    async def profile(
        self, task: Task, ctx: Following, max_elements: MaxElements = None, counters: Counters = False
    ) -> Line:
        """Profile the native op: its time by operator, and profiler counters."""
        asked = ("--counters",) if counters else ()
        return await self._result(ctx, "profile", *_task(task, max_elements), *asked)

    async def search_lessons(self, query: str, ctx: Following) -> Line:
        """Find lessons of earlier runs: which edit had which measured effect, in which situation."""
        return await self._rows("lessons", ctx, "lessons", "search", query)

    async def judge(
        self,
        task: Task,
        ctx: Following,
        candidate: Candidate = "",
        source: Source = "",
        file: File = "",
        max_elements: MaxElements = None,
        verbose: Verbose = False,
    ) -> Line:
        """Verify and time a candidate on the search workloads; quick, call it as often as you like.

        Give `candidate`, or `source` and `file`. Cancel it at any time. The same candidate is never judged twice.
        """
        path = self._path(candidate, source, file)
        return await self._bench.judge(
            _task(task, max_elements), path, screen=True, verbose=verbose, on_line=_following(ctx)
        )

    async def submit(
        self,
        task: Task,
        ctx: Following,
        candidate: Candidate = "",
        source: Source = "",
        file: File = "",
        max_elements: MaxElements = None,
        verbose: Verbose = False,
    ) -> Line:
        """Put a candidate through full acceptance: hidden workloads, full timing, confirmation.

        `decision` is `improved` if it may replace the native op; `kernel` is then the folder of its package.
        For hidden workloads you learn only which check failed.
        """
        path = self._path(candidate, source, file)
        judged = await self._bench.judge(
            _task(task, max_elements), path, screen=False, verbose=verbose, on_line=_following(ctx)
        )
        if judged["decision"] != "improved":
            return {**judged, "kernel": None}
        to = self._store / "kernels" / str(judged["run"])
        exported = await self._result(ctx, "export", str(judged["run"]), "--to", str(to))
        return {**judged, "kernel": exported["kernel"]}

    async def export(self, run: Run, to: str, ctx: Following) -> Line:
        """Write the accepted kernel of a run into a folder, as a package with guard, fallback, claim and test."""
        return await self._result(ctx, "export", run, "--to", to)

    async def optimize(
        self,
        task: Task,
        ctx: Following,
        minutes: Annotated[float, Field(gt=0)] = 3.0,
        evaluations: Annotated[int | None, Field(ge=1)] = None,
        max_elements: MaxElements = None,
    ) -> Line:
        """Let Kernelwright search on its own, with its kernel library and tuner; cancel it at any time."""
        limits = ("--minutes", str(minutes), *(("--evaluations", str(evaluations)) if evaluations else ()))
        return await self._result(ctx, "optimize", *_task(task, max_elements), *limits)

    async def status(self, ctx: Following) -> Line:
        """Return the current state: the task being judged, its run, how many were judged, and the latest runs."""
        *latest, _ = await self._lines(ctx, "runs")
        return {**self._bench.standing, "runs": [*latest[:_LATEST]]}

    async def list_runs(self, ctx: Following) -> Line:
        """List the runs in the store, the newest first."""
        return await self._rows("runs", ctx, "runs")

    async def show_run(self, run: Run, ctx: Following, top: Annotated[int, Field(ge=1)] = _MOST_ROWS) -> Line:
        """Show a run: its status, its result, and its best candidates with their sources."""
        *evaluations, result = await self._lines(ctx, "show", run)
        return {**result, "evaluations": [*evaluations[:top]]}

    async def _result(self, ctx: Following, *arguments: str) -> Line:
        return (await self._lines(ctx, *arguments))[-1]

    async def _rows(self, name: str, ctx: Following, *arguments: str) -> Line:
        *rows, _ = await self._lines(ctx, *arguments)
        return {name: [*rows]}

    async def _lines(self, ctx: Following, *arguments: str) -> list[Line]:
        """Run a command to its end and return its lines; the last is the result."""
        lines: list[Line] = []
        follow = _following(ctx)

        async def keep(line: Line) -> None:
            if line:
                lines.append(line)
            await follow(line)

        async with running((*arguments, *self._common)) as command:
            result = await command.until("result", keep)
        return [*lines, result]

    def _path(self, candidate: str, source: str, file: str) -> str:
        """Return the path of a candidate, writing its source first if that was given."""
        if bool(candidate) == bool(source):
            raise ToolError("give either `candidate`, a path, or `source` with `file`, its name")
        if candidate:
            return candidate
        if not file or Path(file).name != file:
            raise ToolError(f"`file` is {file!r}; expected a plain file name such as kernel.cpp or kernel.py")
        path = Path(self._folder.name) / str(next(self._numbers)) / file
        path.parent.mkdir()
        path.write_text(source, encoding="utf-8")
        return str(path)


def _task(task: str, max_elements: int | None) -> tuple[str, ...]:
    if task.startswith("-"):
        raise ToolError(f"task {task!r} is a flag; expected the path of a task")
    return (task, *(("--max-elements", str(max_elements)) if max_elements else ()))


def _following(ctx: Following) -> OnLine:
    """Report every line, and that the command is still running, as progress, measured in seconds since the start."""
    begun, words = monotonic(), "starting"

    async def follow(line: Line) -> None:
        nonlocal words
        words = _words(line) or words
        await ctx.report_progress(round(monotonic() - begun, 3), None, words)

    return follow


def _words(line: Line) -> str:
    said = line.get("message") or line.get("reason") or ""
    return f"{line['event']}: {said}".removesuffix(": ") if line else ""
