"""What is said last of a candidate that was executed and found right, and that nothing here can time."""

from typing import TYPE_CHECKING

from ..records import Split, Task
from ._common import program

if TYPE_CHECKING:
    from ..search import Judgement

_TIMED, _SANITISED = "timed", "sanitised"


def told_executed(judgement: "Judgement", task: Task, source: str, language: str, again: str) -> str:
    """Return what is known of it and the next command; empty of any other candidate.

    Args:
        judgement: Of the candidate.
        task: What it was judged for.
        source: The task and the candidate as words of a command, for one that has no modelled time.
        language: What it is written in.
        again: Flags by which a command finds the same store.
    """
    open_checks = [f.check for f in judgement.findings if f.status != "pass"]
    if judgement.verdict != "unknown" or open_checks != [_TIMED]:
        return ""
    splits = tuple(Split) if judgement.stage == "full" else (Split.SEARCH,)
    count = sum(len(task.split(split)) for split in splits) - len(judgement.declined)
    sanitised = any(f.check == _SANITISED for f in judgement.findings)
    known = f"executed{' and sanitised' if sanitised else ''} on the CPU, right on {count} workload{'s' * (count > 1)}"
    if times := judgement.modelled:
        low, high = min(t.low_us for t in times), max(t.high_us for t in times)
        known += f"; {low:.3g} to {high:.3g} us by a model of {times[0].device}, which no device took"
    else:
        known += "; no device took a time"
    what = f"run:{judgement.run}" if times else source
    return f"unknown; {known}{_next(what, language, again)}"


def _next(what: str, language: str, again: str) -> str:
    from ..languages import get_language

    if not get_language(language).timeable("cuda"):
        return ""
    return f"\nto have it timed: {program()} bundle {what} --for sm_90 --to FOLDER{again}, and take FOLDER to the GPU"
