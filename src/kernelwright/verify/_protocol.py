"""What a check is: something that looks at one observed call, or makes calls of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch

from ..records import CheckStatus, Contract, Finding
from ..sandbox import Fetched, WorkerFailure
from ._case import Case
from ._trial import Trial, describe, is_not_executed

Depth = Literal["screen", "full"]
"""`screen`: cheap, on the search workloads; `full`: everything, on every split."""


@dataclass(frozen=True)
class Observation:
    """One call of a candidate on one case, as the judge saw it."""

    case: Case
    contract: Contract
    fetched: Fetched
    """What came back."""
    arguments_after: tuple[torch.Tensor, ...]
    """The judge's own views of the tensor arguments after the call."""
    state_after: Mapping[str, torch.Tensor] | None
    """The state after the call; none where it was not asked for."""
    guards_intact: bool
    """Whether every byte around the arguments is as it was."""
    device: str
    """Where outputs belong: `cpu`, `cuda:0`."""


@runtime_checkable
class Check(Protocol):
    """Looks at one observed call. Pure: no worker, no clock, no random numbers."""

    name: str

    def examine(self, seen: Observation) -> Finding:
        """Say what is found."""
        ...


@runtime_checkable
class Probe(Protocol):
    """Makes calls of its own on a case that the candidate was already right on."""

    name: str
    depth: Depth
    """The least depth at which it runs."""

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Say what is found; raises `WorkerFailure` where the worker gave up."""
        ...


def passed(check: str, **figures: float) -> Finding:
    """Return the finding of a check that found nothing."""
    return Finding(check=check, status=CheckStatus.PASS, figures=figures)


def failed(check: str, message: str, **figures: float) -> Finding:
    """Return the finding of a check that was violated."""
    return Finding(check=check, status=CheckStatus.FAIL, message=message, figures=figures)


def unknown(check: str, message: str) -> Finding:
    """Return the finding of a check that could not run."""
    return Finding(check=check, status=CheckStatus.UNKNOWN, message=message)


def blamed(trial: Trial, check: str, failure: WorkerFailure, when: str = "") -> Finding:
    """Blame the candidate for a request that failed, unless time was up or nothing executes it here."""
    if trial.ran_out(failure):
        return unknown(check, "the deadline of the verification came first")
    if is_not_executed(failure):
        return unknown(check, describe(failure))
    return failed(check, when + describe(failure))
