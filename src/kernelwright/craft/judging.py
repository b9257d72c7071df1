"""Program → verdict: right on workloads that its writer has not seen, and what it costs against the baseline."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._assembler import AssemblyError
from .backend import Backend, Ran
from .expression import evaluate
from .tasks import CraftTask, Workload, draw, hidden_workloads

_RELATIVE = 1e-5
_OF_NATIVE = 16
_STEPS_OF_BASELINE = 50
_LEAST_STEPS = 20_000


@dataclass(frozen=True)
class CraftVerdict:
    """What the judge found."""

    status: Literal["right", "wrong", "fault", "invalid"]
    """`invalid` if it is no program, `fault` if a run was stopped, `wrong` if a result is."""
    message: str
    """One sentence: what is wrong, or what it costs."""
    cost: int | None = None
    """What it costs on the visible workload, in the backend's unit."""
    baseline: int | None = None
    """What the baseline costs there."""
    score: float | None = None
    """Baseline over program, the geometric mean over hidden workloads; None unless it is right."""


def judge(task: CraftTask, backend: Backend, text: str, *, seed: int = 0) -> CraftVerdict:
    """Judge a program.

    It must be right on the visible workload and on three hidden ones of other sizes and distributions; of those the
    verdict tells only what kind of check failed.

    Args:
        task: The task.
        backend: The instruction set.
        text: The program.
        seed: Of the hidden workloads; keep it from the program's writer.
    """
    try:
        backend.assemble(text)
    except AssemblyError as error:
        return CraftVerdict("invalid", str(error))
    baseline = next(iter(backend.programs(task).values()))
    ratios, shown = [], (0, 0)
    for workload in (draw(task, seed), *hidden_workloads(task, seed)):
        native = backend.run(task, baseline, workload)
        ran = backend.run(task, text, workload, most=max(_LEAST_STEPS, _STEPS_OF_BASELINE * native.cost))
        verdict = _refusal(task, workload, ran)
        if verdict is not None:
            return verdict
        if workload.hidden:
            ratios.append(native.cost / ran.cost)
        else:
            shown = (ran.cost, native.cost)
    score = math.exp(sum(map(math.log, ratios)) / len(ratios))
    message = f"right; {score:.2f} times as fast as the baseline on hidden workloads, by {backend.unit}"
    return CraftVerdict("right", message, shown[0], shown[1], score)


def _refusal(task: CraftTask, workload: Workload, ran: Ran) -> CraftVerdict | None:
    where = "on a hidden workload" if workload.hidden else "on the visible workload"
    if ran.output is None:
        told = f"fault of kind {ran.kind!r}" if workload.hidden else ran.fault
        return CraftVerdict("fault", f"{where}: {told}")
    wrong = difference(task, workload, ran.output)
    if wrong:
        return CraftVerdict("wrong", f"{where}: {'results differ' if workload.hidden else wrong}")
    return None


def difference(task: CraftTask, workload: Workload, got: NDArray[Any]) -> str:
    """Say how an output differs from what is right; empty if it does not.

    An exact task allows no difference. Otherwise an element may be off by 1e-5 of itself and of the largest in its row,
    and by 16 times the largest error that numpy makes in float32 with the task's plain statements.

    Example:
        >>> from kernelwright.craft import draw, find_task
        >>> workload = draw(find_task("relu"), 0)
        >>> difference(find_task("relu"), workload, workload.expected)
        ''
    """
    want = workload.expected
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - want)
        allowed = np.zeros(want.shape) if task.exact else _allowed(task, workload)
        bad = ~(error <= allowed)
    if not bad.any():
        return ""
    row, column = (int(i) for i in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} values of {task.output.name} are wrong, the first at row {row}, column "
        f"{column}: {got[row, column]:.7g} instead of {want[row, column]:.7g}"
    )


def _allowed(task: CraftTask, workload: Workload) -> NDArray[np.float64]:
    want = workload.expected
    arrays = {a.name: a for a in task.arrays}
    native = evaluate(task.statements, arrays, workload.inputs, workload.sizes, np.float32)[task.output.name]
    noise = float(np.abs(native.astype(np.float64) - want).max())
    found: NDArray[np.float64] = (
        _RELATIVE * (np.abs(want) + np.abs(want).max(1, keepdims=True)) + _OF_NATIVE * noise
    )
    return found
