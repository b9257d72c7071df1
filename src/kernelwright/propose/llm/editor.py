"""Move → Reply by a language model: one role per operator."""

import difflib
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from ...errors import ModelError
from ...llm import CallFailed, Completion, FailureKind, Limits, Message, Models
from ...records import Candidate
from .._feedback import shortened, shown
from .._protocol import Move, Reply, Request
from .._template import SourceTemplate
from ._answers import Answer, Building, Critique, Guidance, Plan, Reading, Summary, Testing, Toolchain
from ._asking import ask
from ._context import Context, context_of
from ._prompts import Prompts
from ._proposals import proposal_of
from ._replies import read_code

_MOST_DIFFERENCE = 8_000
_MOST_SHOWN = 8
_MOST_USELESS = 4
"""Moves in a row whose answers of one model could not be used, after which it is not asked again."""


@dataclass(frozen=True)
class Role:
    """The role that carries out an operator."""

    name: str
    """Name of the prompt."""
    answer: type[Answer] | None = None
    """Its JSON answer. None if it answers with code."""
    guided: bool = False
    """Whether it receives the request's guidance, which is then part of its prompt's version."""


ROLES: Mapping[str, Role] = {
    "draft": Role("coder", guided=True),
    "improve": Role("coder", guided=True),
    "merge": Role("coder", guided=True),
    "repair": Role("debugger"),
    "plan": Role("planner", Plan),
    "critique": Role("judge", Critique),
    "read-profile": Role("profiler-reader", Reading),
    "read-build": Role("compiler", Building),
    "write-scripts": Role("toolchain", Toolchain),
    "test": Role("tester", Testing),
    "summarise": Role("summariser", Summary),
    "evolve": Role("meta", Guidance),
}
"""The role of each operator."""


class LLMEditor:
    """Carries out moves by asking a model; thread-safe.

    `draft`, `improve`, `repair` and `merge` give a candidate or a template; the others give notes: `plan`
    `hypotheses`, `critique` `critique`, `bottleneck`, `advice` and `rating`, `read-profile` `bottleneck`,
    `evidence` and `advice`, `read-build` `cause`, `lines` and `advice`, `write-scripts` `build`, `run` and `why`,
    `test` `correct` and `risks`, `summarise` `summary` and `lessons`, `evolve` `guidance`;
    the last is not a move of a strategy. Every reply notes the `role`, the `model` and the version of the `prompt`.

    Covers: answers that cannot be used (asked once more with the complaint, then a failure), models that do not
    answer (a failure), a resumed run (the same move is answered from the ledger).
    Does not cover: whether a proposal is correct or fast, which the judge decides.
    """

    name = "llm"
    operators: Sequence[str] = tuple(operator for operator in ROLES if operator != "evolve")

    def __init__(
        self, *, prompts: Prompts | None = None, models: Models | None = None, output_tokens: int = 16_384
    ) -> None:
        """Make an editor.

        Args:
            prompts: Prompts to use instead of the shipped ones.
            models: Models to ask; by default those of the request's run.
            output_tokens: Most tokens of an answer, including reasoning, unless the run's options set it.
        """
        self.prompts = prompts or Prompts()
        self._output_tokens = output_tokens
        self._models: dict[tuple[Path | None, str], Models] = {}
        self._given = models
        self._contexts: dict[tuple[object, ...], Context] = {}
        self._useless: dict[tuple[str, str], int] = {}
        """Moves in a row that the answers of a model, of a run, could not be used for."""
        self._lock = threading.Lock()

    def edit(self, move: Move, request: Request) -> Reply:
        """Carry out one move.

        Raises:
            ModelError: the run has no model, no money is left, or no model whose answers can be used.
            InputError: the model's name or price is not known.
            MissingToolError: the model's SDK or key is missing.
        """
        role = ROLES[move.operator]
        model = self.models(request).get(self._useful(move.model, request))
        notes: dict[str, JsonValue] = {
            "role": role.name, "model": model.name,
            "prompt": self.prompts.version(role.name, request.guidance if role.guided else ""),
        }  # fmt: skip
        limits = Limits(
            output_tokens=int(str(request.options.get("output_tokens") or self._output_tokens)),
            deadline_s=min(Limits.deadline_s, max(1.0, request.left_s())),
            cancelled=request.cancelled,
            troubled=request.troubled,
        )
        try:
            answered = ask(
                model, self._messages(role, move, request), _reader(role, move, request),
                schema=role.answer.schema_to_ask() if role.answer else None, limits=limits,
                purpose=f"{move.number}.{move.sample} {move.operator}",
            )  # fmt: skip
        except CallFailed as failure:
            if failure.kind is FailureKind.KEY:
                raise
            return Reply(notes=notes, failure=str(failure))
        value = answered.value
        self._note(request.run, model.name, useful=value is not None)
        if value is None:
            complaint = f"the answer of {model.name} cannot be used: {answered.complaint}"
            return Reply(notes=notes, usd=answered.usd, failure=complaint)
        if isinstance(value, Answer):
            return Reply(notes=notes | value.model_dump(mode="json"), usd=answered.usd)
        return Reply(proposals=(value,), notes=notes, usd=answered.usd)

    def _useful(self, name: str, request: Request) -> str:
        """Return the model that is to be asked: another one of the run where this one's answers are of no use."""
        names = self.models(request).names
        wanted = name or (names[0] if names else "")
        with self._lock:
            if self._useless.get((request.run, wanted), 0) < _MOST_USELESS:
                return name
            others = [n for n in names if self._useless.get((request.run, n), 0) < _MOST_USELESS]
        if not others:
            raise ModelError(
                f"{wanted} is not asked again: its answers to {_MOST_USELESS} questions in a row could not be used"
            )
        return others[0]

    def _note(self, run: str, model: str, *, useful: bool) -> None:
        """Count the questions in a row that a model's answers could not be used for."""
        with self._lock:
            self._useless[run, model] = 0 if useful else self._useless.get((run, model), 0) + 1

    def models(self, request: Request) -> Models:
        """Return the models of a request's run, opened once.

        Raises:
            ModelError: the request belongs to no run.
        """
        if self._given is not None:
            return self._given
        if request.store is None or not request.run:
            raise ModelError("there is no run whose models could be asked; give the editor its models")
        with self._lock:
            key = request.store, request.run
            if key not in self._models:
                self._models[key] = Models.of_run(request.store, request.run, request.calls)
                weakref.finalize(self, self._models[key].close)
            return self._models[key]

    def context(self, request: Request) -> Context:
        """Return what stays the same in a run, collected once for a run and its lessons."""
        key = request.run, request.problem.task.key, tuple(request.languages), tuple(request.lessons)
        with self._lock:
            if key not in self._contexts:
                self._contexts[key] = context_of(request)
            return self._contexts[key]

    def _messages(self, role: Role, move: Move, request: Request) -> list[Message]:
        task, filtered = request.problem.task, request.options.get("figures") == "relevant"
        parents, inspirations = (
            [shown(e, task, request.bounds, relevant=filtered) for e in several[:_MOST_SHOWN]]
            for several in (move.parents, move.inspirations)
        )
        return self.prompts.messages(
            role.name, self.context(request), parents=parents, inspirations=inspirations, goal=move.goal,
            tried=move.tried, difference=_difference(move, request) if move.operator == "repair" else "",
            guidance=request.guidance,
        )  # fmt: skip


def _reader(
    role: Role, move: Move, request: Request
) -> Callable[[Completion], Answer | Candidate | SourceTemplate]:
    """Return the parser for a role's answer."""
    parents = [e.candidate for e in move.parents]

    def read(completion: Completion) -> Answer | Candidate | SourceTemplate:
        if role.answer is not None:
            return role.answer.read(completion.text)
        draft = read_code(completion.text, cut_off=completion.stop == "length")
        return proposal_of(draft, request.problem.task, request.languages, parents, move.goal)

    return read


def _difference(move: Move, request: Request) -> str:
    """Return the diff between the main parent and its own parent, if known."""
    if not move.parents:
        return ""
    child = move.parents[0].candidate
    known = {e.candidate.key: e.candidate for e in (*request.history, *move.parents, *move.inspirations)}
    parent = next((known[key] for key in child.parents if key in known), None)
    if parent is None:
        return ""
    before = {s.path: s.text.splitlines() for s in parent.sources}
    lines = [
        line
        for s in child.sources
        for line in difflib.unified_diff(
            before.get(s.path, []), s.text.splitlines(), s.path, s.path, lineterm="", n=2
        )
    ]
    return shortened("\n".join(lines), _MOST_DIFFERENCE)
