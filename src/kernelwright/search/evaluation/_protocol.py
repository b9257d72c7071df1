"""What the search needs of the judge."""

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ...records import Build, Candidate, Evaluation


@runtime_checkable
class Judge(Protocol):
    """Says what a built candidate is worth; never raises for the candidate's fault."""

    harness: str
    """Version of the judge with its baseline; part of the key that evaluations are kept under."""

    def precompute(self) -> None:
        """Work out ahead what a candidate is held to first; nothing is lost where it is not asked."""
        ...

    def screen(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify and time it on the search workloads: quick, enough to rank by."""
        ...

    def vet(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify it in full, hidden workloads included, and time nothing."""
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

        It is verified on all workloads and timed on the search workloads named, or on all of them. `tried`
        says from how many it was picked, which the decision allows for. Where the deadline passed before
        it was decided, the evaluation's stage is `screen`: more time may decide it.
        """
        ...
