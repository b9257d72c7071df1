"""Verify the ops that people import, by the project's own judge.

Family ─▶ task and candidate of each of its cases ─▶ Judgement
"""

import importlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from .. import ops
from ..errors import NotFoundError
from ..records import Candidate, Task
from ..search import Judgement, OnEvent
from ..tasks import Problem
from ..tasks.forms import own
from ..verify import Admission, admit
from .judge import judge
from .special_values import called, special_calls

__all__ = [
    "Verified", "candidate_of", "cases_of", "chosen", "line", "named_cases", "sheet", "task_of", "verify_family",
]  # fmt: skip


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
    special: int = 0
    """Calls with special values in one argument (`special_values`) that it was held to."""
    special_wrong: tuple[str, ...] = ()
    """Those that it was wrong on: workload, value, argument and what was wrong."""

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
        right = self.judgement.verdict == "accepted" and not self.special_wrong
        return right and not self.admission.degenerate


def cases_of(family: str) -> tuple[ops.Cases, ...]:
    """Return the cases of a family's ops.

    Example:
        >>> [cases.op for cases in cases_of("kmeans")][:1]
        ['kmeans_assign']
    """
    ops.family(family)
    found: tuple[ops.Cases, ...] = importlib.import_module(f"kernelwright.ops.{family}.cases").CASES
    return found


def named_cases(family: str) -> dict[str, ops.Cases]:
    """Return the cases of a family's ops by name: that of the op, and from the second of its cases on a number.

    Example:
        >>> list(named_cases("kmeans"))
        ['kmeans_assign', 'kmeans_assign-2', 'kmeans_step', 'kmeans_step-2']
    """
    seen: Counter[str] = Counter()
    found: dict[str, ops.Cases] = {}
    for cases in cases_of(family):
        seen[cases.op] += 1
        found[cases.op if seen[cases.op] == 1 else f"{cases.op}-{seen[cases.op]}"] = cases
    return found


def chosen(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the family that a family's, an op's or a case's name means, and the names of the cases that are meant.

    Raises:
        NotFoundError: nothing is called so.

    Example:
        >>> chosen("rope"), chosen("kmeans_step"), chosen("kmeans_step-2")
        (('rope', ('rope',)), ('kmeans', ('kmeans_step', 'kmeans_step-2')), ('kmeans', ('kmeans_step-2',)))
    """
    if name in ops.families():
        return name, tuple(named_cases(name))
    known = list(ops.families())
    for family in ops.families():
        cases = named_cases(family)
        if meant := tuple(case for case, of in cases.items() if name in (case, of.op)):
            return family, meant
        known += cases
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise NotFoundError(
        f"no family of ops, op or case is called {name!r}; {hint}`kernelwright ops` lists them"
    )


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
    family: str, *, only: Collection[str] = (), screen: bool = False, baselines: Sequence[str] = ("eager", "compile"),
    store: Path | str | None = None, on_event: OnEvent | None = None,
) -> Iterator[Verified]:  # fmt: skip
    """Judge the kernel of each op of a family against its reference, on its cases.

    Args:
        family: The family.
        only: Names of the cases to judge; all of them if none.
        screen: Only verify and time the workloads that are timed.
        baselines: What it is timed against, the reference's native forms.
        store: Folder of the run store; by default the user's.
        on_event: Called with each event as it happens.

    Raises:
        NotFoundError: there is no such family.
    """
    for name, cases in named_cases(family).items():
        if only and name not in only:
            continue
        task = task_of(family, cases)
        judgement = judge(
            task, candidate_of(family, cases), screen=screen, device="cpu", baselines=baselines,
            store=store, on_event=on_event,
        )  # fmt: skip
        held = () if screen else tuple(_on_special_values(family, task, cases))
        yield Verified(
            name, admit(Problem(task)), judgement, len(task.workloads), len(held), tuple(w for w in held if w)
        )


def _on_special_values(family: str, task: Task, cases: ops.Cases) -> Iterator[str]:
    """Call the kernel of an op with special values, and say of each call that can be judged what is wrong."""
    (op,) = (op for op in ops.ops_of(ops.family(family)) if op.name == cases.op)
    for one in special_calls(task, cases):
        if one.judged:
            wrong = one.wrong(called(op, one.inputs))
            yield wrong and f"{one.workload}, {one.kind} in {one.argument}: {wrong}"


def line(verified: Verified) -> dict[str, str]:
    """Return what the judge found of one op in a row of a table: its verdict, what it was held to, how fast it is."""
    judgement, admission = verified.judgement, verified.admission
    speed = judgement.speedup
    return {
        "op": verified.op, "verdict": str(judgement.verdict), "workloads": str(verified.workloads),
        "checks": f"{verified.passed} of {len(judgement.findings)}",
        "wrong answers refused": f"{verified.refused} of {len(admission.caught)}",
        "special values": f"{verified.special - len(verified.special_wrong)} of {verified.special}",
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
        f"{verified.special - len(verified.special_wrong)} of {verified.special} calls with special values are right. "
        f"{verified.refused} of {len(admission.caught)} wrong answers are refused on them.",
        f"Against {judgement.baseline}: {speed.median:.2f} times as fast; {judgement.decision}."
        if speed else f"Not timed: {judgement.reason}",
        "", "| workload | baseline µs | kernel µs | speedup |", "|---|---|---|---|",
        *(f"| {w.workload} | {w.baseline_us:.1f} | {w.time_us:.1f} | {w.speedup} |" for w in judgement.workloads),
    ]  # fmt: skip
    lines += [f"- {f.status}: {f.check} {f.message}" for f in judgement.findings if f.status != "pass"]
    lines += [f"- wrong on special values: {what}" for what in verified.special_wrong]
    lines += [f"- passes: the wrong answer `{name}`" for name in admission.passing]
    return "\n".join([*lines, ""])
