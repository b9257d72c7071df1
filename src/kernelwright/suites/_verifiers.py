"""Problem, kernel → what a language model says of them: flags in the benchmark's verdict, which decide nothing.

Covers: kernels that nothing here can run; a model that is late, dear or answers in another form, which is a flag too.
Does not cover: what the model is right about. A kernel's text can talk to whoever reads it, so that neither verdict
depends on an answer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..errors import InputError, ModelError
from ..flow import Options
from ..llm import Limits, Message, Model, Models, check_models
from ..records import Budget, Reference, RunStatus, SourceFile, Task
from ..search import ended_in_words
from ..store import Store
from ._protocol import Suite
from ._records import SuiteProblem

_CHARACTERS = 160
"""Most of a reason that a flag has."""


@dataclass(frozen=True)
class Question:
    """What a model is asked, and what its answers mean."""

    name: str
    """What the question is about, as a flag names it."""
    system: str
    """The system prompt."""
    text: str
    """The question, with all that is to be read."""
    flags: Mapping[str, str]
    """Flag by marker: it is raised where the answer has `MARKER: ###True###`."""


@runtime_checkable
class ReadByModels(Protocol):
    """A benchmark that has language models read its problems or kernels."""

    def questions(self, data: Path, problem: SuiteProblem, kernel: str) -> tuple[Question, ...]:
        """Return what they are asked about a problem and a kernel's text."""


class Reader:
    """A model that answers such questions, all of them charged to one run of the store."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.name = model.name
        """The model's name."""
        self._model, self._limits = model, limits

    def flags(self, questions: Sequence[Question]) -> tuple[str, ...]:
        """Ask, and return the flags that the answers raise; a question that got no answer is one too."""
        return tuple(flag for question in questions for flag in self._asked(question))

    def _asked(self, question: Question) -> tuple[str, ...]:
        messages = [Message("system", question.system), Message("user", question.text)]
        try:
            answer = self._model.complete(messages, limits=self._limits, purpose=question.name).text
        except ModelError as failure:
            return (f"{question.name}: not read: {_short(str(failure))}",)
        return raised(question, answer)


def raised(question: Question, answer: str) -> tuple[str, ...]:
    """Return the flags of an answer, with its reason where it gives one.

    Example:
        >>> asked = Question("memory", "", "", {"MEMORY_FAULT": "memory"})
        >>> raised(asked, "REASON: row 7 is not there\\nMEMORY_FAULT: ###True###")
        ('memory: row 7 is not there',)
        >>> raised(asked, "MEMORY_FAULT: ###False###"), raised(asked, "It is fine.")
        ((), ('memory: no answer in the form that was asked for',))
    """
    said = {
        marker: re.findall(rf"\b{re.escape(marker)}:\s*###(True|False)###", answer)
        for marker in question.flags
    }
    if not all(said.values()):
        return (f"{question.name}: no answer in the form that was asked for",)
    reasons = re.findall(r"^REASON:\s*(.+)$", answer, re.MULTILINE)
    why = f": {_short(reasons[-1])}" if reasons else ""
    return tuple(flag + why for marker, flag in question.flags.items() if said[marker][-1] == "True")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _CHARACTERS else f"{words[: _CHARACTERS - 3]}..."


@contextmanager
def reading(suite: Suite, store: Path | None, options: Options, usd: float | None) -> Iterator[Reader]:
    """Open a reader whose calls are kept in a run of their own, which `usd` limits as a whole.

    Raises:
        InputError: the benchmark has no questions, or a model costs money and no limit is given.
        MissingToolError: an SDK or a key is missing.
    """
    if not isinstance(suite, ReadByModels):
        raise InputError(f"{suite.name} has no language model read its kernels; leave --model out")
    check_models(options, usd)
    title = SourceFile(path="benchmark.md", text=suite.title)
    read = Reference(files=(title,), entry="benchmark.md:read", style="function")
    asked = Task(name=f"{suite.name}, read by a model", form="own", reference=read, workloads=())
    with Store(store) as kept:
        run = kept.create_run(
            asked, device="none", budget=Budget(usd=usd), seed=0, options={**options, "words": True}
        )
        with ended_in_words(kept, run):
            with Models.of_run(kept.folder, run.id) as models:
                tokens = int(str(options.get("output_tokens") or Limits.output_tokens))
                yield Reader(models.get(), Limits(output_tokens=tokens))
            kept.finish_run(run.id, RunStatus.FINISHED)
