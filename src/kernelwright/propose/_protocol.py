"""What a proposer must do: turn a task and what is known of it into candidates and templates."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..devices import Device
from ..records import Bound, Candidate, Configuration, Evaluation, Space
from ..tasks import Problem


@runtime_checkable
class Template(Protocol):
    """A parametric kernel: a space and the source for each of its configurations."""

    name: str
    language: str
    space: Space

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


@runtime_checkable
class Proposer(Protocol):
    """One file a proposer; `kernelwright.proposers` entry point."""

    name: str

    def propose(self, request: Request) -> Iterable[Proposal]:
        """Yield proposals, best first; yields nothing where it has none."""
        ...
