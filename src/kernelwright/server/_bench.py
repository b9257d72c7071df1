"""The judge of the current task, kept warm between judgements in a process that can be killed."""

import anyio
from pydantic import JsonValue

from ._command import Command, Line, OnLine


class Bench:
    """One judge at a time; a judgement for another task closes the previous judge.

    Cancelling a judgement kills the judge. Finished judgements are in the store, and the next judgement of the same
    task continues the same run.
    """

    def __init__(self, common: tuple[str, ...]) -> None:
        """Prepare; `common` are flags passed to every command."""
        self._common = common
        self._turn = anyio.Lock()
        self._command: Command | None = None
        self._busy = False
        self._task: tuple[str, ...] = ()
        self.run = ""
        """The run of the judgements; empty before the first."""
        self.judged = 0
        """Judgements made for the current task."""

    @property
    def standing(self) -> dict[str, JsonValue]:
        """Return the current task, run and state of the judge."""
        alive = self._command is not None and self._command.alive
        busy = self._turn.locked()
        state = "judging" if busy else "warm" if alive else "cold"
        return {"task": self._task[0] if self._task else None, "run": self.run or None,
                "judged": self.judged, "judge": state}  # fmt: skip

    async def judge(
        self, task: tuple[str, ...], candidate: str, *, screen: bool, on_line: OnLine, verbose: bool = False
    ) -> Line:
        """Judge a candidate; `task` is the task and its flags."""
        async with self._turn:
            command = await self._opened(task, on_line)
            try:
                self._busy = True
                await command.ask(candidate=candidate, screen=screen, verbose=verbose)
                result = await self._until(command, "result", on_line)
            except anyio.get_cancelled_exc_class():
                await self._drop()
                raise
            finally:
                self._busy = False
            self.judged += 1
            return result

    async def _opened(self, task: tuple[str, ...], on_line: OnLine) -> Command:
        if self._command is not None and self._command.alive and self._task == task:
            return self._command
        await self.close()
        if self._task != task:
            self._task, self.run, self.judged = task, "", 0
        again = ("--run", self.run) if self.run else ()
        command = await Command.start(("judge", *task, "-", *again, *self._common), asks=True)
        try:
            await self._until(command, "ready", on_line)
        except BaseException:
            await command.end()
            raise
        self._command = command
        return command

    async def _until(self, command: Command, event: str, on_line: OnLine) -> Line:
        async def follow(line: Line) -> None:
            self.run = str(line.get("run") or self.run)
            await on_line(line)

        return await command.until(event, follow)

    async def close(self) -> None:
        """End the judge, if there is one; a judgement under way is killed."""
        if self._command is not None and not self._busy:
            await self._command.finished()
        await self._drop()

    async def _drop(self) -> None:
        command, self._command = self._command, None
        if command is not None:
            await command.end()
