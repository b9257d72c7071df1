"""Move → Reply by a coding agent in its own workspace."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import JsonValue

from ...config import Settings, passed, secrets
from ...errors import SpentError, TaskError
from ...records import Candidate
from ...store import Calls, Store
from .._feedback import shown
from .._protocol import Move, Reply, Request
from ._attempt import Attempt, can_confine, confined, run_agent
from ._choice import PROMPT, make_agent, name_of, see_cap, see_program
from ._judge import PROGRAM, Answer, Judge
from ._protocol import Agent, Job, Spend
from ._queue import Queue
from ._workspace import Workspace, candidate_of, idea_of

_MOST_SAID = 300
"""Most characters kept of an agent's error message."""
_MINUTES, _JUDGEMENTS = 15.0, 20
_PASSED = ("PATH", "HOME", "USER", "LANG", "LC_*", "TERM", "SHELL", "TZ", "SSL_CERT_*", "*_PROXY", "*_proxy")


class AgentEditor:
    """Carries out moves with a coding agent: `draft`, `improve`, `repair`.

    The run's options name the agent, `agent` (`claude`, `codex`, or a command line), and its limits per move,
    `agent_minutes` and `agent_judgements`. Its result is a candidate like any other; the judgements it received
    while it worked are in the store, so that nothing is judged twice.

    Covers: agents that edit the harness (void), hang, fork, crash, print anything, or leave no kernel, or one worse
    than the best they had judged; a cap on money (an agent that cannot enforce one is not started under one).
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
            program: The program whose `judge` command answers the agent.
            make: Makes an agent by name.
            confine: Whether to run agents under bubblewrap, if it is installed.
        """
        self._program, self._make, self._confine = tuple(program), make, confine

    def edit(self, move: Move, request: Request) -> Reply:
        """Carry out one move.

        Raises:
            InputError: the agent cannot enforce the run's cap on money.
            NotFoundError: there is no such agent.
            MissingToolError: its program is missing.
        """
        agent = self._make(name_of(request.options))
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
        self._best: dict[str, str] | None = None
        """Files of the fastest candidate that the judge found correct."""
        self._best_speedup = 0.0

    def reply(self) -> Reply:
        """Let the agent work and return its result."""
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
            attempt, spend, usd = self._work(path, queue, judge)
            notes: dict[str, JsonValue] = {
                "agent": self._agent.name, "ended": attempt.ended, "exit_code": attempt.code, "judged": judge.judged,
                "usage": dict(spend.usage),
            }  # fmt: skip
        edited = workspace.edited()
        if edited:
            failure = f"the agent changed {', '.join(edited)}, which it must not; its work is void"
            return Reply(notes=notes, usd=usd, failure=failure)
        try:
            left = [self._candidate(workspace.left(), "left")]
        except TaskError as error:
            words = _said(attempt, spend)
            ended = f"{attempt.ended}; it says: {words}" if words else attempt.ended
            failure, left = f"the agent ended ({ended}): {self._told(error, 'left')}", []
        if self._best is not None:
            left.append(self._candidate(self._best, "best"))
        proposals = tuple({candidate.key: candidate for candidate in left}.values())
        return Reply(proposals=proposals, notes=notes, usd=usd, failure="" if proposals else failure)

    def _work(self, path: Path, queue: Queue, judge: Judge) -> tuple[Attempt, Spend, float]:
        """Start the agent on the run's budget and settle its cost, which is returned last, in USD."""
        if self._request.store is None:
            attempt = self._attempt(path, queue, judge, None)
            spend = self._agent.spend(attempt.output)
            return attempt, spend, spend.usd or 0.0
        with Store(self._request.store) as store:
            cap = store.run(self._request.run).budget.usd
        see_cap(self._agent, cap)
        with Calls(self._request.store) as calls:
            left = None if cap is None else max(0.0, cap - calls.spent_usd(self._request.run))
            if cap is not None and not left:
                raise SpentError(
                    f"agent {self._agent.name!r} is not started: all of --usd {cap:g} is spent or was set aside for "
                    "work that ended before it said its cost; allow more with --usd in a new run"
                )
            call = calls.reserve(
                self._request.run, key=f"agent {self._move.number}", who=f"agent:{self._agent.name}",
                purpose=f"{self._move.number} {self._move.operator}", usd=left or 0.0, cap_usd=cap,
                request=(path / "TASK.md").read_text(),
            )  # fmt: skip
            attempt = self._attempt(path, queue, judge, left)
            spend = self._agent.spend(attempt.output)
            usd = (left or 0.0) if spend.usd is None else spend.usd
            if spend.usd is None and usd:
                self._request.emit(
                    f"{self._agent.name} did not come to say its cost: all {usd:.4g} USD left are charged"
                )
            calls.settle(call, usd, usage=spend.usage, reply=attempt.output)
        return attempt, spend, usd

    def _attempt(self, path: Path, queue: Queue, judge: Judge, usd: float | None) -> Attempt:
        command = self._agent.command(Job(PROMPT, path, usd, self._move.model))
        see_program(self._agent, command)
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
        asked = f"asked/{next(self._numbers)}"
        try:
            candidate_of(files, self._request.problem.task, self._folder / asked)
        except TaskError as error:
            return {"event": "error", "message": self._told(error, asked)}
        answer = judge.ask(self._folder / asked, stop)
        self._hear(files, answer, judge.judged)
        return answer

    def _told(self, error: TaskError, folder: str) -> str:
        """Return what is wrong with the files of our folder, with the path replaced by the agent's."""
        place = str(self._folder / folder)
        return str(error).replace(f"{place}/", "candidate/").replace(place, "candidate/")

    def _hear(self, files: dict[str, str], answer: Answer, judged: int) -> None:
        """Keep the best judged candidate, and report its judgement."""
        speedup = answer.get("speedup")
        median = float(speedup["median"]) if speedup and answer.get("verdict") == "accepted" else 0.0
        if median > self._best_speedup:
            self._best, self._best_speedup = files, median
        said = (
            f"right, {median:.2f} times as fast"
            if median
            else answer.get("verdict", answer.get("message", ""))
        )
        self._request.emit(f"{self._agent.name} asked the judge, {judged} of {self._judgements}: {said}")

    def _candidate(self, files: dict[str, str], folder: str) -> Candidate:
        made = candidate_of(files, self._request.problem.task, self._folder / folder)
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


def _said(attempt: Attempt, spend: Spend) -> str:
    """Return an agent's error message; if it died without one, the end of its output."""
    words = [
        line.strip() for line in attempt.output.splitlines() if line.strip() and not line.startswith("{")
    ]
    last = words[-1] if words and attempt.ended == "done" and attempt.code else ""
    return (spend.failure or last)[:_MOST_SAID]
