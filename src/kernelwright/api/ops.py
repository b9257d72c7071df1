"""Verify the ops that people import, by the project's own judge.

Family ─▶ task and candidate of each of its cases ─▶ Judgement
"""

import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import ops
from ..records import Candidate, Task
from ..search import Judgement, OnEvent
from ..tasks import Problem
from ..tasks.forms import own
from ..verify import Admission, admit
from .judge import judge

__all__ = ["Verified", "candidate_of", "cases_of", "line", "sheet", "task_of", "verify_family"]


@dataclass(frozen=True)
class Verified:
    """What the judge found of one op."""

    op: str
    """Name of the op, and from the second of its cases on their number: `embedding_bag-2`."""
    admission: Admission
    """Which wrong answers its cases refuse."""
    judgement: Judgement
    """Whether its kernel is right and honest, and how fast."""
    workloads: int
    """Workloads it was held to, hidden and confirm ones included."""

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return sum(finding.status == "pass" for finding in self.judgement.findings)

    @property
    def refused(self) -> int:
        """How many of the wrong answers are refused."""
        return sum(self.admission.caught.values())

    @property
    def holds(self) -> bool:
        """Whether its kernel was accepted, and no wrong answer would have been."""
        return self.judgement.verdict == "accepted" and not self.admission.degenerate


def cases_of(family: str) -> tuple[ops.Cases, ...]:
    """Return the cases of a family's ops.

    Example:
        >>> [cases.op for cases in cases_of("kmeans")][:1]
        ['kmeans_assign']
    """
    ops.family(family)
    found: tuple[ops.Cases, ...] = importlib.import_module(f"kernelwright.ops.{family}.cases").CASES
    return found


def task_of(family: str, cases: ops.Cases) -> Task:
    """Return the task of an op: its reference on its cases."""
    folder = Path(ops.family(family).__path__[0])
    path, text = cases.file(folder)
    return own.load(path, text, "task").model_copy(update={"name": cases.op})


def candidate_of(family: str, cases: ops.Cases) -> Candidate:
    """Return the kernel of an op as a candidate."""
    kernel: ops.Kernel = ops.family(family).KERNEL
    return kernel.candidate(cases.op)


def verify_family(
    family: str, *, screen: bool = False, baselines: Sequence[str] = ("eager", "compile"),
    store: Path | str | None = None, on_event: OnEvent | None = None,
) -> Iterator[Verified]:  # fmt: skip
    """Judge the kernel of each op of a family against its reference, on its cases.

    Args:
        family: The family.
        screen: Only verify and time the workloads that are timed.
        baselines: What it is timed against, the reference's native forms.
        store: Folder of the run store; by default the user's.
        on_event: Called with each event as it happens.

    Raises:
        NotFoundError: there is no such family.
    """
    seen: Counter[str] = Counter()
    for cases in cases_of(family):
        seen[cases.op] += 1
        name = cases.op if seen[cases.op] == 1 else f"{cases.op}-{seen[cases.op]}"
        task = task_of(family, cases)
        judgement = judge(
            task, candidate_of(family, cases), screen=screen, device="cpu", baselines=baselines,
            store=store, on_event=on_event,
        )  # fmt: skip
        yield Verified(name, admit(Problem(task)), judgement, len(task.workloads))


def line(verified: Verified) -> dict[str, str]:
    """Return what the judge found of one op in a row of a table: its verdict, what it was held to, how fast it is."""
    judgement, admission = verified.judgement, verified.admission
    speed = judgement.speedup
    return {
        "op": verified.op, "verdict": str(judgement.verdict), "workloads": str(verified.workloads),
        "checks": f"{verified.passed} of {len(judgement.findings)}",
        "wrong answers refused": f"{verified.refused} of {len(admission.caught)}",
        "decision": str(judgement.decision),
        "speedup": f"{speed.median:.2f} over {judgement.baseline}" if speed else judgement.reason,
    }  # fmt: skip


def sheet(verified: Verified) -> str:
    """Return the claim sheet of one op, in Markdown."""
    judgement, admission = verified.judgement, verified.admission
    speed = judgement.speedup
    lines = [
        f"# {verified.op}", "",
        f"{judgement.verdict}: {verified.passed} of {len(judgement.findings)} checks passed on "
        f"{verified.workloads} workloads. "
        f"{verified.refused} of {len(admission.caught)} wrong answers are refused on them.",
        f"Against {judgement.baseline}: {speed.median:.2f} times as fast; {judgement.decision}."
        if speed else f"Not timed: {judgement.reason}",
        "", "| workload | baseline µs | kernel µs | speedup |", "|---|---|---|---|",
        *(f"| {w.workload} | {w.baseline_us:.1f} | {w.time_us:.1f} | {w.speedup} |" for w in judgement.workloads),
    ]  # fmt: skip
    lines += [f"- {f.status}: {f.check} {f.message}" for f in judgement.findings if f.status != "pass"]
    lines += [f"- passes: the wrong answer `{name}`" for name in admission.passing]
    return "\n".join([*lines, ""])
