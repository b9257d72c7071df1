"""Move → Reply by a coding agent in a workspace of its own."""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from pydantic import JsonValue

from ...config import Settings, passed, secrets
from ...errors import InputError, MissingToolError, NotFoundError, TaskError, known_names
from ...records import Candidate
from ...store import Calls, Store
from .._feedback import shown
from .._protocol import Move, Reply, Request
from ._attempt import Attempt, can_confine, confined, run_agent
from ._judge import PROGRAM, Judge
from ._protocol import Agent, Job, Spend
from ._queue import Queue
from ._workspace import Workspace, candidate_of, idea_of
from .command import Command

_MOST_SAID = 300
"""Characters kept of what an agent says went wrong."""
_MINUTES, _JUDGEMENTS = 15.0, 20
_GROUP = "kernelwright.agents"
_PASSED = ("PATH", "HOME", "USER", "LANG", "LC_*", "TERM", "SHELL", "TZ", "SSL_CERT_*", "*_PROXY", "*_proxy")
_PROMPT = "Read README.md in this folder and do the job it describes, to its end, without asking anything."


def make_agent(name: str) -> Agent:
    """Make an agent by its name; what is no name of one is taken as a command line.

    Raises:
        NotFoundError: there is neither an agent nor a program of that name.
    """
    points = {point.name: point for point in entry_points(group=_GROUP)}
    if name in points:
        made: Agent = points[name].load()()
        return made
    words = name.split()
    if not words or shutil.which(words[0]) is None:
        raise NotFoundError(
            f"no agent is called {name!r}, and it is no command that is here; {known_names(name, points)}"
        )
    return Command(name)


class AgentEditor:
    """Carries out moves by a coding agent: `draft`, `improve`, `repair`.

    The run's options name it: `agent` (`claude`, `codex`, or a command line), `agent_minutes` and
    `agent_judgements`, for each move. What it leaves is a candidate like any other; what it was told by the judge
    while it worked is in the store, so that nothing is judged twice.

    Covers: agents that edit the harness (void), hang, fork, crash, print anything, or leave what is no kernel;
    a cap on money (an agent that cannot keep to one is not started under one).
    Does not cover: see `_attempt.py` for what an agent may see.
    """

    name = "agent"
    operators: Sequence[str] = ("draft", "improve", "repair")

    def __init__(
        self,
        *,
        program: Sequence[str] = PROGRAM,
        make: Callable[[str], Agent] = make_agent,
        confine: bool = True,
    ) -> None:
        """Make an editor.

        Args:
            program: The program whose `judge` answers the agent.
            make: Makes an agent by its name.
            confine: Whether to put bubblewrap around agents, where it is here.
        """
        self._program, self._make, self._confine = tuple(program), make, confine

    def edit(self, move: Move, request: Request) -> Reply:
        """Carry out one move.

        Raises:
            InputError: the agent cannot be held to the run's cap on money.
            NotFoundError: there is no such agent.
            MissingToolError: its program is not here.
        """
        agent = self._make(str(request.options.get("agent") or "claude"))
        with tempfile.TemporaryDirectory(prefix="kernelwright-agent-", ignore_cleanup_errors=True) as folder:
            return _Session(agent, move, request, Path(folder), self._program, self._confine).reply()


class _Session:
    """One move under way."""

    def __init__(
        self,
        agent: Agent,
        move: Move,
        request: Request,
        folder: Path,
        program: tuple[str, ...],
        confine: bool,
    ) -> None:
        self._agent, self._move, self._request, self._folder = agent, move, request, folder
        self._program, self._confine = program, confine
        asked_s = float(str(request.options.get("agent_minutes") or _MINUTES)) * 60
        self._deadline_s = max(1.0, min(asked_s, request.left_s()))
        self._judgements = int(str(request.options.get("agent_judgements") or _JUDGEMENTS))
        self._numbers = iter(range(1_000_000))

    def reply(self) -> Reply:
        """Let the agent work and take what it leaves."""
        path = self._folder / "workspace"
        path.mkdir()
        task, bounds = self._request.problem.task, self._request.bounds
        told = [json.dumps(vars(shown(e, task, bounds)), default=list) for e in self._move.parents]
        workspace = Workspace(
            path,
            self._move,
            self._request,
            judgements=self._judgements,
            minutes=self._deadline_s / 60,
            told=told,
        )
        with Queue(path) as queue, self._judge() as judge:
            attempt, spend = self._work(path, queue, judge)
            notes: dict[str, JsonValue] = {
                "agent": self._agent.name, "ended": attempt.ended, "exit_code": attempt.code, "judged": judge.judged,
                "usage": dict(spend.usage),
            }  # fmt: skip
        edited = workspace.edited()
        if edited:
            failure = f"the agent changed {', '.join(edited)}, which it must not; its work is void"
            return Reply(notes=notes, usd=spend.usd, failure=failure)
        try:
            candidate = self._candidate(workspace.left())
        except TaskError as error:
            said = f"; it says: {spend.failure[:_MOST_SAID]}" if spend.failure else ""
            failure = f"the agent ended ({attempt.ended}{said}): {error}"
            return Reply(notes=notes, usd=spend.usd, failure=failure)
        return Reply(proposals=(candidate,), notes=notes, usd=spend.usd)

    def _work(self, path: Path, queue: Queue, judge: Judge) -> tuple[Attempt, Spend]:
        """Start the agent on the run's money, and settle what it cost."""
        if self._request.store is None:
            attempt = self._attempt(path, queue, judge, None)
            return attempt, self._agent.spend(attempt.output)
        with Store(self._request.store) as store:
            cap = store.run(self._request.run).budget.usd
        if cap is not None and not self._agent.says_usd:
            raise InputError(
                f"agent {self._agent.name!r} does not say what it costs, so it cannot be held to --usd {cap:g}; "
                "leave --usd out, or choose claude"
            )
        with Calls(self._request.store) as calls:
            left = None if cap is None else max(0.0, cap - calls.spent_usd(self._request.run))
            call = calls.reserve(
                self._request.run, key=f"agent {self._move.number}", who=f"agent:{self._agent.name}",
                purpose=f"{self._move.number} {self._move.operator}", usd=left or 0.0, cap_usd=cap,
                request=(path / "TASK.md").read_text(),
            )  # fmt: skip
            attempt = self._attempt(path, queue, judge, left)
            spend = self._agent.spend(attempt.output)
            unknown = left is not None and not spend.usd
            calls.settle(call, left or 0.0 if unknown else spend.usd, usage=spend.usage, reply=attempt.output)
        return attempt, spend

    def _attempt(self, path: Path, queue: Queue, judge: Judge, usd: float | None) -> Attempt:
        command = self._agent.command(Job(_PROMPT, path, usd, self._move.model))
        if shutil.which(command[0]) is None:
            raise MissingToolError(
                f"agent {self._agent.name!r} is not here: no program {command[0]!r}; install it"
            )
        environment = passed((*_PASSED, *self._agent.environment)) | {"TMPDIR": str(path / ".tmp")}
        (path / ".tmp").mkdir()
        if self._confine and Settings.from_environment().sandbox != "none" and can_confine():
            home = Path(environment.get("HOME", "/"))
            store = self._request.store
            hidden = [store] if store is not None and store.exists() else []
            command = confined(
                command, path, hidden=hidden, writable=[home / name for name in self._agent.home]
            )

        def serve(stop: Callable[[], bool]) -> None:
            for name, files in queue.requests():
                queue.answer(name, json.dumps(self._answer(files, judge, stop)))

        return run_agent(
            command, path, environment=environment, secrets=secrets(), deadline_s=self._deadline_s,
            interrupted=self._request.cancelled, serve=serve,
        )  # fmt: skip

    def _answer(
        self, files: dict[str, str] | None, judge: Judge, stop: Callable[[], bool]
    ) -> dict[str, JsonValue]:
        if files is None:
            return {"event": "error", "message": "that is no request; run ./judge as it is"}
        scratch = self._folder / "asked" / str(next(self._numbers))
        try:
            candidate_of(files, self._request.problem.task, scratch)
        except TaskError as error:
            return {
                "event": "error",
                "message": str(error)
                .replace(f"{scratch}/", "candidate/")
                .replace(str(scratch), "candidate/"),
            }
        return judge.ask(scratch, stop)

    def _candidate(self, files: dict[str, str]) -> Candidate:
        made = candidate_of(files, self._request.problem.task, self._folder / "left")
        words = idea_of(files) or self._move.goal or f"{self._move.operator} by {self._agent.name}"
        return made.model_copy(
            update={
                "proposer": f"agent:{self._agent.name}",
                "parents": tuple(e.candidate.key for e in self._move.parents),
                "reason": words,
            }
        )

    def _judge(self) -> Judge:
        options = self._request.options
        baselines = options.get("baselines", ())
        arguments = [f"run:{self._request.run}", "--device", str(options.get("device") or "cpu")]
        for name in baselines if isinstance(baselines, tuple) else ():
            arguments += ["--baseline", str(name)]
        if self._request.store is not None:
            arguments += ["--store", str(self._request.store)]
        return Judge(self._program, arguments, most=self._judgements)
