"""Run: one budgeted search over one task. Evaluation: all that is known of one candidate."""

from enum import StrEnum

from pydantic import Field

from ._record import SCHEMA_VERSION, Record, Scalar
from .candidate import Build, Candidate
from .counters import Counters
from .decision import Decision
from .sizes import ServedSizes
from .timing import Timing
from .verdict import Verdict


class Budget(Record):
    """What a run may spend; none of a kind is no limit of that kind."""

    evaluations: int | None = Field(default=None, ge=1)
    """Candidates evaluated, cached ones not counted."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall minutes."""
    search_minutes: float | None = Field(default=None, gt=0)
    """Wall minutes from the first proposal on until no more candidates are tried, anew where a run is taken up again;
    accepting what was found comes after that."""
    device_seconds: float | None = Field(default=None, gt=0)
    """Seconds that the device was held."""
    usd: float | None = Field(default=None, ge=0)
    """Money for models."""


class Evaluation(Record):
    """Everything about one candidate on one task, device and toolchain."""

    candidate: Candidate
    """What was evaluated."""
    build: Build
    """What came of building it."""
    verdict: Verdict | None = None
    """None where it did not build."""
    timing: Timing | None = None
    """None where it was not timed."""
    decision: Decision
    """What was decided."""
    stage: str = "screen"
    """How far it went: `build`, `verify`, `screen`, `full`."""
    device_s: float = 0.0
    """Seconds that the device was held."""
    time_s: float = 0.0
    """Wall seconds by stage together."""
    stages_s: dict[str, float] = {}
    """Wall seconds by stage."""
    tried: int = 1
    """From how many candidates it was picked, which the decision of `full` allows for."""
    cached: bool = False
    """Whether it came from the store."""
    counters: tuple[Counters, ...] = ()
    """What profilers counted, where it was the best so far and somebody asked; decides nothing."""
    sizes: tuple[ServedSizes, ...] = ()
    """Sizes that it may serve beside those it was accepted on, and the evidence."""


class RunStatus(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class Run(Record):
    """One budgeted search over one task."""

    schema_version: int = SCHEMA_VERSION
    """Version of the records."""
    id: str
    """Short, sortable, unique in a store."""
    task: str
    """The task's key."""
    task_name: str
    """The task's name."""
    device: str
    """Fingerprint of the device."""
    budget: Budget
    """What it may spend."""
    seed: int
    """Seed of the search; not of the judge, whose seeds are secret."""
    options: dict[str, Scalar | tuple[Scalar, ...]] = {}
    """How it was started, enough to start it again."""
    status: RunStatus = RunStatus.RUNNING
    """How it stands."""
    created: str = ""
    """UTC, ISO 8601."""
    reason: str = ""
    """Why it ended, where it was interrupted or failed."""
