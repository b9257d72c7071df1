"""Shows that a task's check catches wrong answers: every mutant must be refused on some workload.

Two kinds: outputs that are spoiled in ways that programs spoil them, and the task's own statements with one operation
changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .expression import Expr, Gather, Map, MatMul, Reduce, Statement, evaluate
from .judging import difference
from .tasks import CraftTask, Workload, draw, hidden_workloads

_OTHER = {"add": "sub", "sub": "add", "mul": "add", "div": "mul", "max": "min", "min": "max", "gt": "sub"}


@dataclass(frozen=True)
class Admission:
    """What became of a task's mutants."""

    caught: tuple[str, ...]
    """Mutants that were refused."""
    missed: tuple[str, ...]
    """Mutants that passed; a task with any is not to be trusted."""
    sound: bool
    """Whether the statements themselves pass, in float32."""


def admit(task: CraftTask, *, seed: int = 0) -> Admission:
    """Try every mutant of a task on its workloads.

    Example:
        >>> from kernelwright.craft import find_task
        >>> admit(find_task("copy")).missed
        ()
    """
    workloads = [draw(task, seed), *hidden_workloads(task, seed)]
    caught, missed = list[str](), list[str]()
    for name, outputs in _mutants(task, workloads):
        refused = any(difference(task, w, out) for w, out in zip(workloads, outputs, strict=True))
        (caught if refused else missed).append(name)
    sound = not any(difference(task, w, _statements(task, task.statements, w)) for w in workloads)
    return Admission(tuple(caught), tuple(missed), sound)


def _mutants(task: CraftTask, workloads: list[Workload]) -> Iterator[tuple[str, list[NDArray[Any]]]]:
    for name, spoil in _SPOILT.items():
        with np.errstate(all="ignore"):
            outputs = [spoil(w.expected) for w in workloads]
        if any((out != w.expected).any() for out, w in zip(outputs, workloads, strict=True)):
            yield name, outputs
    for number, statement in enumerate(task.statements):
        for name, changed in _changed(statement):
            if f"{statement.out}: {name}" in task.equivalent:
                continue
            statements = [*task.statements]
            statements[number] = changed
            yield f"{statement.out}: {name}", [_statements(task, statements, w) for w in workloads]


def _statements(
    task: CraftTask, statements: tuple[Statement, ...] | list[Statement], w: Workload
) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        arrays = {a.name: a for a in task.arrays}
        return evaluate(statements, arrays, w.inputs, w.sizes, np.float32)[task.output.name]


def _last_chunk(want: NDArray[Any]) -> NDArray[Any]:
    spoilt = want.copy()
    spoilt.reshape(-1)[-1] = 0.25 - spoilt.reshape(-1)[-1]
    return spoilt


def _one_tile(want: NDArray[Any]) -> NDArray[Any]:
    spoilt = want.copy()
    spoilt[:8, :8] = spoilt[:8, :8] * 1.01 + 0.01
    return spoilt


_SPOILT: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "zeros": np.zeros_like,
    "negated": lambda want: -want,
    "last value": _last_chunk,
    "one tile": _one_tile,
    "shifted": lambda want: np.roll(want, 1) + 1e-3,
    "half precision": lambda want: want.astype(np.float16),
}


def _changed(s: Statement) -> Iterator[tuple[str, Statement]]:
    match s:
        case Map():
            for name, expr in _changed_expr(s.expr):
                yield name, replace(s, expr=expr)
        case Reduce():
            yield (
                f"reduced with {'max' if s.op == 'add' else 'add'}",
                replace(s, op="max" if s.op == "add" else "add"),
            )
            for name, expr in _changed_expr(s.expr):
                yield name, replace(s, expr=expr)
        case MatMul() | Gather():
            return


def _changed_expr(e: Expr) -> Iterator[tuple[str, Expr]]:
    if e.op in _OTHER:
        yield f"{_OTHER[e.op]} in place of {e.op}", replace(e, op=_OTHER[e.op])
    if e.op in {"exp", "sqrt"}:
        yield f"no {e.op}", e.args[0]
    if e.op == "ref" and e.mode in {"elem", "shift"} and e.number > 0:
        yield f"{e.name} one place off", replace(e, number=e.number - 1)
    for number, arg in enumerate(e.args):
        for name, changed in _changed_expr(arg):
            yield name, replace(e, args=tuple(changed if n == number else a for n, a in enumerate(e.args)))
