"""Run: one budgeted search over one task. Evaluation: everything known about one candidate."""

from enum import StrEnum
from statistics import geometric_mean

from pydantic import Field

from ._record import SCHEMA_VERSION, Record, Scalar
from .candidate import Build, Candidate
from .counters import Counters
from .decision import Decision, DecisionStatus
from .modelled import ModelledTime
from .sizes import ServedSizes
from .timing import Timing
from .verdict import Verdict


class Budget(Record):
    """What a run may spend; None means no limit of that kind."""

    evaluations: int | None = Field(default=None, ge=1)
    """Candidates evaluated, not counting cached ones."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall minutes."""
    search_minutes: float | None = Field(default=None, gt=0)
    """Wall minutes from the first proposal until no more candidates are tried; starts again when a run is resumed;
    acceptance of what was found comes after that."""
    device_seconds: float | None = Field(default=None, gt=0)
    """Seconds that the device was in use."""
    usd: float | None = Field(default=None, ge=0)
    """Cost of model calls, in USD."""


class Evaluation(Record):
    """Everything about one candidate on one task, device and toolchain."""

    candidate: Candidate
    """What was evaluated."""
    build: Build
    """The result of building it."""
    verdict: Verdict | None = None
    """None if it did not build."""
    timing: Timing | None = None
    """None if it was not timed."""
    decision: Decision
    """The outcome."""
    stage: str = "screen"
    """The last stage it reached: `build`, `verify`, `screen`, `full`."""
    device_s: float = 0.0
    """Seconds that the device was in use."""
    time_s: float = 0.0
    """Wall seconds of all stages."""
    stages_s: dict[str, float] = {}
    """Wall seconds by stage."""
    tried: int = 1
    """How many candidates it was picked from; the decision of `full` corrects for that."""
    cached: bool = False
    """Whether it came from the store."""
    counters: tuple[Counters, ...] = ()
    """Profiler counters, if it was the best so far and profiling was requested; not used in any decision."""
    sizes: tuple[ServedSizes, ...] = ()
    """Sizes that it may serve in addition to those it was accepted on, with the evidence."""
    modelled: tuple[ModelledTime, ...] = ()
    """One for each search workload, if it was right and executed, and nothing here can time it; an order, no claim."""

    @property
    def is_executed(self) -> bool:
        """Whether it is right, was executed, and has nothing but a modelled time; it may still be wrong in full."""
        decision = self.decision
        untimed = decision.speedup is None and decision.status is DecisionStatus.UNKNOWN
        return bool(self.modelled) and untimed

    @property
    def executed_order(self) -> float:
        """What to sort by where `is_executed`, the greatest first: one over the modelled microseconds; else 0."""
        return 1 / geometric_mean(m.rank_us for m in self.modelled) if self.is_executed else 0.0


class RunStatus(StrEnum):
    """The status of a run."""

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
    """The run's budget."""
    seed: int
    """Seed of the search; not of the judge, whose seeds are secret."""
    options: dict[str, Scalar | tuple[Scalar, ...]] = {}
    """How it was started, with enough detail to start it again."""
    status: RunStatus = RunStatus.RUNNING
    """Its status."""
    created: str = ""
    """UTC, ISO 8601."""
    reason: str = ""
    """Why it ended, if it was interrupted or failed."""
