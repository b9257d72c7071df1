"""A CUDA program where there is no GPU: run with its harness, its launches executed → both verdicts so far.

Covers: an exit code that its harness did not return; a fault of the program that the original does not have.
Does not cover: what a program answers without its harness, which `_by_calls` asks.
"""

import shutil

from ..executor import whole
from ..executor._loading import executes
from ..records import VerdictStatus
from ._program_runs import Built, Program, Ran, built
from ._records import Ours, Theirs
from ._verdicts import refused, unknown

EXECUTED_S = 600.0
"""Most seconds of one run of a program whose launches are executed."""
BY_ITSELF = (
    "it ends as its harness wants, which says nothing sure: the harness is in its process and tells by the exit code "
    "alone, which a program can forge"
)
_ENDS = "it ends with exit code 0 and not by its harness's return of 0, as the original does"


def executed_by(program: Program, device: str) -> str:
    """Return the command that runs a CUDA program by the PTX executor; empty where it is not run so."""
    by_nvcc = program.build.split()[:1] == ["nvcc"] and shutil.which("nvcc") is not None
    return program.command if program.needs_gpu and device == "cpu" and by_nvcc and executes() else ""


def both_executed(program: Program, mine: Built, command: str) -> tuple[Theirs, Ours]:
    """Return both verdicts on a program whose launches are executed; nothing of it is timed."""
    for test in program.tests:
        ran = mine.refusal or mine.run(command, test.stdin, EXECUTED_S, program.settings)
        reason, verdict = where_executed(ran)
        if verdict is VerdictStatus.UNKNOWN:
            return Theirs(status="unknown", message=reason), unknown(reason)
        right = verdict is VerdictStatus.ACCEPTED
        if right and returned(ran):
            continue
        with built(program.build, {**program.files, **program.original}, executed=command) as original:
            plain = (
                original.refusal
                or original.failure
                or original.run(command, test.stdin, EXECUTED_S, program.settings)
            )
            fails = where_executed(plain)[0]
        if right and (fails or not returned(plain)):
            continue
        if right:
            return Theirs(status="correct", passed=1, trials=1), refused("harness", _ENDS)
        if fails:
            reason = f"the benchmark's own program fails where it is executed, too: {fails}"
            return Theirs(status="unknown", message=reason), unknown(reason)
        return Theirs(status="wrong", trials=1, message=reason), refused("tests", reason)
    return Theirs(status="correct", passed=1, trials=1), unknown(BY_ITSELF)


def returned(ran: Ran | str) -> bool:
    """Tell whether an executed program's `main` returned 0, which a program can forge, and an honest one need not."""
    lines = "" if isinstance(ran, str) else ran.output
    return f"{whole.RETURNED} 0" in lines.splitlines()


def where_executed(ran: Ran | str) -> tuple[str, VerdictStatus]:
    """Say why an executed program is not right, and what follows for ours; empty if its exit code says that it is."""
    if isinstance(ran, str) or ran.late:
        return ran if isinstance(ran, str) else "its execution takes too long", VerdictStatus.UNKNOWN
    lines = [one for one in ran.output.strip().splitlines() if not one.startswith(whole.RETURNED)]
    last = next((one for one in reversed(lines) if one.strip()), "")[:500]
    if ran.code in {whole.FAULT, whole.NOT_EXECUTED}:
        found = VerdictStatus.REJECTED if ran.code == whole.FAULT else VerdictStatus.UNKNOWN
        return f"stopped where it is executed: {last}", found
    return (
        (f"exit code {ran.code}: {last}", VerdictStatus.REJECTED)
        if ran.code
        else ("", VerdictStatus.ACCEPTED)
    )
