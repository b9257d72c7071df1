"""Interfaces of proposers, which turn a task into candidates and templates, and of editors, which change them.

A proposer starts a search from the task alone. An editor continues from earlier candidates: a strategy chooses
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
        """Name shown to people and stored in records."""
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
"""What a proposer yields: a candidate, or a template for a tuner to explore."""


@dataclass(frozen=True)
class Request:
    """Everything that a proposer may know."""

    problem: Problem
    device: Device
    bounds: Sequence[Bound]
    languages: Sequence[str]
    """Names of the requested languages, in order of preference, all available."""
    history: Sequence[Evaluation] = ()
    """This run's evaluations so far."""
    seed: int = 0
    left_s: Callable[[], float] = lambda: math.inf
    """Wall seconds left to propose and evaluate; do not start what takes longer."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether the run was interrupted; an editor that waits must poll this and give up."""
    troubled: Callable[[str], None] = lambda _: None
    """Called with the reason when a model gave no answer and is asked again, so that others can continue."""
    options: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    """The run's options for proposers: `agent`, `models` ..."""
    store: Path | None = None
    """Folder of the store, for transcripts and costs. None outside a run."""
    calls: Calls | None = None
    """The ledger of that store over the run's connection. None if one has to be opened."""
    run: str = ""
    """The run's id in the store."""
    lessons: Sequence[str] = ()
    """Lessons from earlier runs on similar tasks, one sentence each, the most relevant first."""
    emit: Callable[[str], None] = _LOG.warning
    """Called with a line on what a proposer left out, for the reader of the run; logged outside a run."""
    guidance: str = ""
    """Advice added to the fixed parts of the kernel writer's prompt."""


@runtime_checkable
class Proposer(Protocol):
    """One file per proposer; `kernelwright.proposers` entry point.

    One with a true attribute `waits` is asked in a thread, so others continue while its model or agent is silent. The
    candidates of one with an attribute `repeats` are the code of the baseline of that name: hardly faster than it, so a
    search that has to beat it asks last, once its templates are tuned.
    """

    name: str

    def propose(self, request: Request) -> Iterable[Proposal]:
        """Yield proposals, best first; nothing if it has none."""
        ...


@dataclass(frozen=True)
class Move:
    """One request of a strategy to an editor."""

    number: int
    """Serial number within the run, from 0; with the run's seed it determines everything random in the move."""
    operator: str
    """What to do: `draft`, `improve`, `repair`, `merge`, `plan`, `critique`, or another operator of the editor."""
    parents: tuple[Evaluation, ...] = ()
    """What to change, the main one first; empty to start from the task."""
    inspirations: tuple[Evaluation, ...] = ()
    """What to show in addition to the parents."""
    goal: str = ""
    """The strategy's goal in words: a hypothesis, a cell to fill, an action of a plan."""
    model: str = ""
    """The model to ask if the strategy chooses among several; else the editor's own."""
    tried: tuple[str, ...] = ()
    """Earlier candidates made from the same parents and their outcomes, one line each: not to be repeated."""
    sample: int = 0
    """Index among several answers to the same move: the same number gives the same answer again."""


class Reply(Record):
    """The result of a move; written to disk before anything in it is evaluated."""

    proposals: tuple[Candidate | SourceTemplate, ...] = ()
    """New candidates or templates; empty if the move asks only for notes, or failed."""
    notes: dict[str, JsonValue] = {}
    """Other information for strategies, by name: `hypotheses`, `critique`, `features`, `rating` ..."""
    usd: float = 0.0
    """Its cost."""
    failure: str = ""
    """Why a requested proposal is missing, in one line; a failure is data, not an exception."""


@runtime_checkable
class Editor(Protocol):
    """Carries out moves; several at once, from several threads. `kernelwright.editors` entry point.

    A proposer's file may hold one too.
    """

    name: str
    operators: Sequence[str]
    """The operators it supports."""

    def edit(self, move: Move, request: Request) -> Reply:
        """Carry out one move; raises only for what the user must fix, never for the output of a model or tool."""
        ...
