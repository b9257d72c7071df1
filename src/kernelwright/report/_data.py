"""The data of one report, collected from the store before rendering."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..records import Bound, BuildStatus, Decision, DecisionStatus, Evaluation, Interval, Run, RunStatus, Task

if TYPE_CHECKING:
    from ..search import Standing


@dataclass(frozen=True)
class ReportData:
    """One run, ready to be rendered."""

    run: Run
    task: Task
    evaluations: Sequence[Evaluation]
    """In the order they finished."""
    finished_s: Sequence[float]
    """Seconds from the run's start to the end of each evaluation."""
    bounds: Sequence[Bound] = ()
    best: str | None = None
    """Key of the chosen candidate, if there is one."""
    speedup: Interval | None = None
    """The run's speedup over all search workloads; native ones count as 1."""
    standings: Sequence["Standing"] = ()
    """Standings by workload."""
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage."""
    environment: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    """Why the run found nothing better, from its result; empty if it did."""
    reproduce: str = ""
    """The command that repeats the run."""

    @property
    def winner(self) -> Evaluation | None:
        """The evaluation of the chosen candidate: the last full one."""
        chosen = [e for e in self.evaluations if e.candidate.key == self.best]
        return max(chosen, key=lambda e: e.stage == "full", default=None)

    @property
    def decision(self) -> Decision | None:
        """The decision shown in the headline."""
        return self.winner.decision if self.winner else None

    @property
    def unfinished(self) -> str:
        """Status of an unfinished run; empty if it finished or accepted a kernel."""
        ways = {
            RunStatus.RUNNING: "has not ended",
            RunStatus.INTERRUPTED: "was interrupted",
            RunStatus.FAILED: "failed",
        }
        return "" if self.winner else ways.get(self.run.status, "")

    @property
    def resumes(self) -> bool:
        """Whether it was a search, which can be resumed; a run of judgements cannot."""
        return "judged" not in self.run.options

    def failures(self) -> list[tuple[str, int]]:
        """Count failures by kind, most frequent first."""
        kinds = Counter(kind for e in self.evaluations if (kind := failure_kind(e)))
        return kinds.most_common()


def failure_kind(evaluation: Evaluation) -> str:
    """Return what stopped a candidate: the build's status, the failed check, or an empty string.

    Example:
        >>> from kernelwright.records import Build, Candidate, SourceFile
        >>> failed = Evaluation(
        ...     candidate=Candidate(sources=(SourceFile(path="a", text=""),), language="cpp", entry="a:b"),
        ...     build=Build(status=BuildStatus.FAILED),
        ...     decision=Decision(candidate="", status=DecisionStatus.REJECTED, reason=""))
        >>> failure_kind(failed)
        'build failed'
    """
    if evaluation.build.status is not BuildStatus.OK:
        return f"build {evaluation.build.status}"
    if evaluation.verdict is not None and evaluation.verdict.failure:
        return evaluation.verdict.failure
    if evaluation.is_executed:
        return ""
    if evaluation.decision.status in (DecisionStatus.REJECTED, DecisionStatus.UNKNOWN):
        return str(
            evaluation.decision.alarms[0] if evaluation.decision.alarms else evaluation.decision.status
        )
    return ""
