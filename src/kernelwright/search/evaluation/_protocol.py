"""The judge's interface, as the search uses it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...records import Build, Candidate, Evaluation


@runtime_checkable
class Judge(Protocol):
    """Verify, time and decide a built candidate; never raises for the candidate's fault."""

    harness: str
    """Version of the judge with its baselines; part of the key under which evaluations are stored."""

    def precompute(self) -> None:
        """Compute the first expected values ahead of time; optional."""
        ...

    def screen(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify and time it on the search workloads: quick, enough to rank it."""
        ...

    def vet(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify it in full, including hidden workloads, without timing."""
        ...

    def accept(
        self,
        candidate: Candidate,
        build: Build,
        *,
        workloads: Sequence[str] = (),
        tried: int = 1,
        deadline_s: float = math.inf,
    ) -> Evaluation:
        """Verify it on hidden workloads, time it in full and confirm it in a fresh process.

        It is verified on all workloads and timed on the named search workloads, or on all of them. `tried` is the
        number of candidates it was selected from, for which the decision corrects. If the deadline passed before
        it was decided, the evaluation's stage is `screen`: more time may decide it.
        """
        ...

    def widen(self, accepted: Evaluation, *, deadline_s: float = math.inf) -> Evaluation:
        """Look at sizes around those that it was accepted on, for what will serve them; it may be refused there."""
        ...


@dataclass(frozen=True)
class Toolchain:
    """A language as it is on the cluster's nodes."""

    name: str
    """The language's name."""
    version: str
    """What `Language.toolchain` returns there."""

    def toolchain(self) -> str:
        """Return the version."""
        return self.version
