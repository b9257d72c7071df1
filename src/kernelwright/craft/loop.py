"""A model and the tools of a session, turn by turn.

The model reads the task, the manual and what the tools answered, and writes text. A fence marked `asm` holds a whole
program, which is written, assembled, run and measured. A fence marked `json` calls one tool:
`{"tool": "trace", "start": 0, "count": 20}`. The loop ends when the model says DONE, or after so many turns.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..llm import Message
from .judging import CraftVerdict
from .session import Answer, Session

_FENCE = re.compile(r"```(asm|json)\n(.*?)```", re.DOTALL)
_MOST_ANSWER = 6000
_ARGUMENTS = {"run": {"seed"}, "trace": {"start", "count"}}


class Asks(Protocol):
    """A model: the conversation so far → what it says next."""

    def __call__(self, messages: Sequence[Message]) -> str:
        """Answer the last message."""
        ...


@dataclass(frozen=True)
class CraftRun:
    """What came of a loop."""

    verdict: CraftVerdict | None
    """The best verdict of a submission; None if nothing right was submitted."""
    text: str
    """The program it belongs to."""
    turns: int
    """Answers of the model."""
    calls: tuple[tuple[str, bool, str], ...]
    """Every call of a tool: its name, whether all was well, its message."""


def improve(
    session: Session, asks: Asks, *, turns: int = 20, on_call: Callable[[str, Answer], None] | None = None
) -> CraftRun:
    """Let a model write and improve a program with the tools.

    Args:
        session: The task, the instruction set, and the tools.
        asks: The model.
        turns: Most answers of the model.
        on_call: Called with each call's name and answer.
    """
    messages = [
        Message("system", _system(session), stable=True),
        Message("user", task_text(session), stable=True),
    ]
    calls: list[tuple[str, bool, str]] = []
    said = 0
    while said < turns:
        text = asks(messages)
        said += 1
        answers: dict[str, Answer] = {}
        for name, answer in _perform(session, text):
            calls.append((name, bool(answer["ok"]), str(answer["message"])))
            answers[f"{len(answers)} {name}"] = answer
            if on_call:
                on_call(name, answer)
        if not answers and "DONE" in text:
            break
        messages += [Message("assistant", text), Message("user", _told(answers))]
    return CraftRun(session.best, session.best_text, said, tuple(calls))


def _perform(session: Session, text: str) -> list[tuple[str, Answer]]:
    """Do what an answer of the model asks for."""
    done: list[tuple[str, Answer]] = []
    for kind, body in _FENCE.findall(text):
        if kind == "json":
            done.append(_call(session, body))
            continue
        done.append(("write", session.write(body)))
        if done[-1][1]["ok"]:
            done.append(("run", session.run()))
        if done[-1][1]["ok"]:
            done.append(("submit", session.submit()))
        if done[-1][1]["ok"]:
            done.append(("measure", session.measure()))
    return done


def _call(session: Session, body: str) -> tuple[str, Answer]:
    try:
        given = json.loads(body)
    except json.JSONDecodeError as error:
        return "call", {"ok": False, "message": f"the json fence cannot be read: {error}"}
    given = dict(given) if isinstance(given, Mapping) else {}
    name = given.pop("tool", None)
    tools = {n: t for n, t in session.tools.items() if n != "write"}
    if name not in tools:
        return "call", {"ok": False, "message": f"no tool is called {name!r}; there are {', '.join(tools)}"}
    wrong = [
        k for k, v in given.items() if k not in _ARGUMENTS.get(name, set()) or type(v) is not int or v < 0
    ]
    if wrong:
        taken = ", ".join(sorted(_ARGUMENTS.get(name, set()))) or "nothing"
        message = f"{name} cannot use {', '.join(map(repr, wrong))}; expected whole numbers for {taken}"
        return name, {"ok": False, "message": message}
    return name, tools[name](**given)


def _told(answers: Mapping[str, Answer]) -> str:
    if not answers:
        return "No fence marked asm or json was found. Write a program, call a tool, or say DONE."
    return json.dumps(answers)[:_MOST_ANSWER]


def _system(session: Session) -> str:
    return (
        "You write assembly programs for an instruction set that you do not know; its manual follows. Answer with one "
        "fence marked asm that holds a whole program: it is assembled, run, judged on hidden sizes and measured. "
        'A fence marked json calls a tool: {"tool": "trace", "start": 0, "count": 40}, {"tool": "run", "seed": 3}, '
        '{"tool": "measure"}. Make it right first, then fast. Say DONE when you cannot improve it.\n\n'
        + session.backend.manual()
    )


def task_text(session: Session) -> str:
    """Say what is to be computed, on which sizes, and where everything is."""
    task = session.task
    ranges = "; ".join(f"{n} from {low} to {high}" for n, (low, high, _) in task.sizes.items())
    return (
        f"Task {task.name}: {task.text}.\nSizes: {ranges}. The program must be right for all of them.\n"
        f"At the start: {session.backend.contract(task)}.\nMake it cost few {session.backend.unit}."
    )
