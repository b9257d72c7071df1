"""What a proposer must do: turn a task and what is known of it into candidates and templates.

A proposer starts a search from the task alone. An editor goes on from what was found: a strategy chooses
a move (which parents, which operator) and an editor carries it out.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from ..devices import Device
from ..records import Bound, Candidate, Configuration, Evaluation, Record, Scalar, Space
from ..store import Calls
from ..tasks import Problem
from ._template import SourceTemplate

_LOG = logging.getLogger(__name__)


@runtime_checkable
class Template(Protocol):
    """A parametric kernel: a space and the source for each of its configurations."""

    @property
    def name(self) -> str:
        """For people and for the records."""
        ...

    @property
    def language(self) -> str:
        """Name of the `Language` that builds it."""
        ...

    @property
    def space(self) -> Space:
        """The parameters, their values and constraints."""
        ...

    def render(self, configuration: Configuration) -> Candidate:
        """Return the candidate of one configuration; the same source for the same configuration."""
        ...

    def default(self) -> Configuration:
        """Return the configuration to try first."""
        ...


Proposal = Candidate | Template
"""What a proposer yields: one candidate, or a template for a tuner to explore."""


@dataclass(frozen=True)
class Request:
    """All that a proposer may know."""

    problem: Problem
    device: Device
    bounds: Sequence[Bound]
    languages: Sequence[str]
    """Names of the languages asked for, in order of preference, all available."""
    history: Sequence[Evaluation] = ()
    """What was evaluated so far in this run."""
    seed: int = 0
    left_s: Callable[[], float] = lambda: math.inf
    """Wall seconds left to propose and try; what takes longer is not worth starting."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether the run was interrupted: an editor that waits for something asks now and then, and gives up."""
    troubled: Callable[[str], None] = lambda _: None
    """Told why a model gave no answer and is asked again, so that others may go on meanwhile."""
    options: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    """The run's options, for what a proposer lets its user choose: `agent`, `models` ..."""
    store: Path | None = None
    """Folder of the store, for transcripts and costs; none outside a run."""
    calls: Calls | None = None
    """The ledger of that store over the run's own connection; none where one is to be opened."""
    run: str = ""
    """The run's id in the store."""
    lessons: Sequence[str] = ()
    """What earlier runs taught about tasks like this, a sentence each, the most telling first."""
    emit: Callable[[str], None] = _LOG.warning
    """Told, in one line, what whoever reads the run should know of what a proposer left out; logged outside a run."""
    guidance: str = ""
    """What whoever writes kernels is told beside the fixed parts of its prompt; advice, however it is worded."""


@runtime_checkable
class Proposer(Protocol):
    """One file a proposer; `kernelwright.proposers` entry point.

    One with an attribute `waits` that is true is asked in a thread: others go on while whom it asks does not answer.
    """

    name: str

    def propose(self, request: Request) -> Iterable[Proposal]:
        """Yield proposals, best first; yields nothing where it has none."""
        ...


@dataclass(frozen=True)
class Move:
    """What a strategy asks of an editor, once."""

    number: int
    """Serial within the run, from 0; with the run's seed it fixes all that is random in the move."""
    operator: str
    """What to do: `draft`, `improve`, `repair`, `merge`, `plan`, `critique`, or another that the editor lists."""
    parents: tuple[Evaluation, ...] = ()
    """What to change, the main one first; none to start from the task."""
    inspirations: tuple[Evaluation, ...] = ()
    """What to show beside the parents."""
    goal: str = ""
    """What the strategy wants of it, in words: a hypothesis, a cell to fill, an action of a plan."""
    model: str = ""
    """The model to ask, where the strategy chooses among several; the editor's own otherwise."""
    tried: tuple[str, ...] = ()
    """What was made of the same parents before, a line each with what came of it: not to be made again."""
    sample: int = 0
    """Which of several answers to the same move: another number is another answer, the same is the same again."""


class Reply(Record):
    """What came of a move; kept on disk before anything in it is evaluated."""

    proposals: tuple[Candidate | SourceTemplate, ...] = ()
    """New candidates or templates; none where the move asks for words only, or failed."""
    notes: dict[str, JsonValue] = {}
    """What else was said, by name: `hypotheses`, `critique`, `features`, `rating` ...; strategies read it."""
    usd: float = 0.0
    """What it cost."""
    failure: str = ""
    """Why there is no proposal where one was asked for, in one line; a failure is data, not an exception."""


@runtime_checkable
class Editor(Protocol):
    """Carries out moves; several at once, from several threads. `kernelwright.editors` entry point.

    A proposer's file may hold one too.
    """

    name: str
    operators: Sequence[str]
    """The operators it knows."""

    def edit(self, move: Move, request: Request) -> Reply:
        """Carry out one move; never raises for what a model or a tool said, only for what the user must fix."""
        ...
