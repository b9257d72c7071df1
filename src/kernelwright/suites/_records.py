"""What is kept of a benchmark: its problems, its rules, and both verdicts on a kernel in one row."""

from pathlib import Path
from typing import Literal

from ..records import DecisionStatus, Interval, Record, VerdictStatus


class Rules(Record):
    """How a benchmark judges, in words and in its own figures."""

    correctness: str
    """When a kernel counts as correct."""
    timing: str
    """What is timed, and how."""
    score: str
    """What is reported over all problems."""
    trials: int
    """Draws of inputs that a kernel is compared on."""
    tolerance: float
    """Absolute and relative tolerance for float32; 0 if each problem has its own."""
    timed: int
    """Calls that are timed."""
    seed: int
    """Seed of its inputs, which is public."""
    here: str = ""
    """What differs from the benchmark where there is no GPU; empty if nothing does."""


class SuiteProblem(Record):
    """One problem of a benchmark."""

    suite: str
    """The benchmark's name."""
    name: str
    """Unique in the benchmark, such as `level1/23_Softmax`."""
    group: str
    """Level or category."""
    file: str
    """Path in the checkout."""
    backward: bool = False
    """Whether it is forward and backward together."""

    @classmethod
    def of_file(cls, suite: str, data: Path, file: Path) -> "SuiteProblem":
        """Return the problem of a file of a checkout whose folder is its group.

        Example:
            >>> SuiteProblem.of_file("kernelbench", Path("data"), Path("data/level1/23_Softmax.py")).name
            'level1/23_Softmax'
        """
        group = file.parent.name
        return cls(
            suite=suite, name=f"{group}/{file.stem}", group=group, file=file.relative_to(data).as_posix()
        )


TheirStatus = Literal["correct", "wrong", "error", "timeout", "unknown"]


class Theirs(Record):
    """The verdict by the benchmark's own rules, computed in the process that runs the kernel, as it prescribes."""

    status: TheirStatus
    """`error`: it did not load or raised; `timeout`: too slow; `unknown`: it cannot run here, `message` says why."""
    passed: int = 0
    """Trials that it passed."""
    trials: int = 0
    """Trials that were made."""
    time_us: float | None = None
    """Mean microseconds of the kernel."""
    reference_us: float | None = None
    """Mean microseconds of the reference."""
    absolute_error: float | None = None
    """Greatest absolute error that was seen; None if the benchmark's rules compute none."""
    relative_error: float | None = None
    """Greatest relative error."""
    flags: tuple[str, ...] = ()
    """What the benchmark's own screening flags."""
    message: str = ""
    """Why it is not correct."""

    @property
    def speedup(self) -> float | None:
        """Reference's time over the kernel's; None if it was not timed.

        Example:
            >>> Theirs(status="correct", time_us=2.0, reference_us=3.0).speedup
            1.5
        """
        return self.reference_us / self.time_us if self.time_us and self.reference_us else None


class Ours(Record):
    """The verdict of Kernelwright's judge."""

    verdict: VerdictStatus
    """Whether it is correct and does not cheat."""
    decision: DecisionStatus
    """Whether it is faster than the fastest baseline."""
    speedup: Interval | None = None
    """Over the fastest baseline. None if it was not timed."""
    failed: tuple[str, ...] = ()
    """Checks that failed."""
    reason: str = ""
    """Why, in one sentence."""
    run: str = ""
    """The run in the store, for `show`; empty if there is none."""
    screened: bool = False
    """Whether it was asked to stop where a search ranks a candidate, so that other values and sizes were not tried."""

    @property
    def told(self) -> str:
        """The verdict, and how far it reaches.

        Example:
            >>> Ours(verdict="accepted", decision="inconclusive", screened=True).told
            'accepted as far as screened'
        """
        return f"{self.verdict} as far as screened" if self.screened else str(self.verdict)


NATIVE = "native"
"""What stands for a kernel where a search found none."""


class Row(Record):
    """Both verdicts on one kernel for one problem."""

    suite: str
    """The benchmark's name."""
    problem: str
    """The problem's name."""
    group: str
    """Its level or category."""
    candidate: str
    """The file judged; of a search `run:RUN:KEY`, accepted or the best it found, or `native` if it found none."""
    sizes: str
    """`declared`, or what was shrunk."""
    theirs: Theirs
    """By the benchmark's rules."""
    ours: Ours
    """By Kernelwright's."""
    seconds: float
    """Wall seconds for both."""
    claimed: float | None = None
    """The speedup that was published with the kernel. None if there was none."""
    device: str = ""
    """Fingerprint of the device that both were timed on."""
    place: str = ""
    """Of a cluster: machine, cores and their noise."""
    stands_out: tuple[str, ...] = ()
    """What stands out in its text, for a person to read: no verdict depends on it."""

    @property
    def searched(self) -> bool:
        """Whether the kernel comes from a search of ours."""
        return self.candidate == NATIVE or self.candidate.startswith("run:")

    @property
    def agree(self) -> bool | None:
        """Whether both say that it is right, or both that it is not; None if one could not say."""
        if self.theirs.status == "unknown" or self.ours.verdict is VerdictStatus.UNKNOWN:
            return None
        return (self.theirs.status == "correct") is (self.ours.verdict is VerdictStatus.ACCEPTED)


def fast_p(rows: "tuple[Row, ...] | list[Row]", p: float, *, ours: bool = False) -> float:
    """Return the fraction of rows that are correct and more than `p` times as fast.

    By our verdict a kernel counts only if it was accepted, and with the lower confidence limit of its speedup.

    Source: Ouyang et al., KernelBench, section 3 (fast_p).

    Example:
        >>> fast_p([], 1.0)
        0.0
    """
    if not rows:
        return 0.0
    if ours:
        won = sum(
            r.ours.verdict is VerdictStatus.ACCEPTED and r.ours.speedup is not None and r.ours.speedup.at_least > p
            and (p < 1 or r.ours.decision is DecisionStatus.IMPROVED)
            for r in rows
        )  # fmt: skip
    else:
        won = sum(r.theirs.status == "correct" and (r.theirs.speedup or 0.0) > p for r in rows)
    return won / len(rows)
