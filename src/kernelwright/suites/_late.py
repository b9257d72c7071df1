"""A kernel that gave no answer in time: whether it hangs, or the machine was busy.

It is asked once more, alone. It hangs if it is late again while what it should replace is done in a small part of the
time, under the same load, and its text has nothing to compile in a first call; else nothing is known of it.

Covers: a busy machine; a benchmark's rules that are too slow here for any kernel.
Does not cover: a machine that becomes busy for the second try alone, and not for the reference.
"""

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..records import DecisionStatus, Task, VerdictStatus
from ..tasks import Problem
from ..verify import may_compile
from ._records import Ours, Theirs

_TIMEOUT = re.compile(r"^[\w-]+: (on a hidden workload: )?timeout: ")
"""How our reasons begin where a worker gave no answer in time."""
_QUICK_S = 5.0
"""Seconds of the reference up to which a kernel that takes its whole limit, of 20 at least, twice is said to hang."""


def ours_if_late(first: Ours, again: Callable[[Path], Ours], task: Task, text: str) -> Ours:
    """Return our verdict; where the kernel was late, that of a second try in an empty store, or that it is unknown."""
    if not _TIMEOUT.match(first.reason):
        return first
    with tempfile.TemporaryDirectory() as folder:
        second = again(Path(folder)).model_copy(update={"run": first.run})
    if not _TIMEOUT.match(second.reason):
        return second
    if may_compile(text):
        return _unknown(
            f"{second.reason}; but its text may compile in a first call, which can take longer", first.run
        )
    took_s = reference_s(task)
    if took_s <= _QUICK_S:
        told = (
            f"{second.reason}; so it was when it was tried again, and the reference takes {took_s:.2g} s here"
        )
        return second.model_copy(update={"reason": told})
    told = f"{second.reason}; but the reference takes {took_s:.2g} s here too, so that it may not hang"
    return _unknown(told, first.run)


def theirs_if_late(
    first: Theirs, again: Callable[[], Theirs], reference: Callable[[], Theirs | None]
) -> Theirs:
    """Return a benchmark's verdict; where its rules did not end in time, what a second try says, or that it is unknown.

    Args:
        first: The verdict.
        again: Applies the rules once more.
        reference: Applies them to the reference itself; none if that has no such form.
    """
    if first.status != "timeout":
        return first
    second = again()
    if second.status != "timeout":
        return second
    plain = reference()
    if plain is not None and plain.status not in {"timeout", "unknown"}:
        return second
    why = "with the reference in the kernel's place it does not end either" if plain else "twice"
    return second.model_copy(update={"status": "unknown", "message": f"{second.message} ({why})"})


def _unknown(reason: str, run: str) -> Ours:
    return Ours(verdict=VerdictStatus.UNKNOWN, decision=DecisionStatus.UNKNOWN, reason=reason, run=run)


def reference_s(task: Task) -> float:
    """Return the seconds of one call of the reference on the task's largest workload, as the machine is now."""
    problem = Problem(task)
    workload = max(task.workloads, key=lambda w: sum(w.axes.values()))
    given, state = problem.inputs(workload, 0), problem.state(workload, 0)
    begun = time.monotonic()
    problem.run_reference(workload, given, state)
    return time.monotonic() - begun
