"""Relations between a function's answers to related inputs: found on the float64 reference, asked of candidates.

A relation changes inputs so that no rounding is involved (permutations, powers of two, signs, a shift of values
that stay exact, a split into two parts) and names what may follow for an output. Which of them holds is not
declared by anyone: it is tried on the oracle under several seeds.

Covers: inputs that no distribution of a workload gives: far from zero, tiny, mirrored, in another order, with
half of the values missing.
Does not cover: structured arguments (sorted, triangular, indices), which no relation changes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from ..records import TensorSpec, Workload
from ..tasks import Problem

Values = list[object]
_SHIFT = 64.0
_EXACT = 1e-9
_SEEDS = (11, 12, 13)
_MOST_ARGUMENTS = 3
_FREE = ("normal", "uniform")
_LOOSE = ("integers", "bernoulli", "constant")
"""Kinds that a permutation leaves what they are."""


@dataclass(frozen=True)
class Form:
    """What one output does when the inputs are changed."""

    name: str
    follow: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    """(first answer, order) to the answer to the changed inputs; both float64."""
    limit: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    """The same for what is allowed of the first answer."""


@dataclass(frozen=True)
class Relation:
    """One change of the inputs, and the form that each output was found to follow; none where it follows none."""

    name: str
    change: str
    """Key of `CHANGES`."""
    argument: int
    """Position of the argument that is changed."""
    forms: tuple[Form | None, ...]


def _same(y: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return y


def _scaled(factor: float) -> Form:
    return Form(f"times {factor:g}", lambda y, _: y * factor, lambda a, _: a * abs(factor))


def _ordered(axis: int) -> Form:
    def follow(y: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        return y.index_select(axis, order) if y.dim() and y.shape[axis] == len(order) else y

    return Form("in the same order", follow, follow)


_UNCHANGED = Form("unchanged", _same, _same)
_SHIFTED = Form("shifted alike", lambda y, _: y + _SHIFT, _same)
CHANGES: dict[str, tuple[Form, ...]] = {
    "scale": (_UNCHANGED, *(_scaled(4.0**k) for k in (1, 2, -1, -2))),
    "mirror": (_UNCHANGED, _scaled(-1.0)),
    "shift": (_UNCHANGED, _SHIFTED),
    "rows": (_ordered(0), _UNCHANGED),
    "columns": (_ordered(-1), _UNCHANGED),
}
"""By change: what an output may do."""


def prepared(change: str, inputs: Sequence[object], argument: int) -> Values:
    """Return inputs that the change does not round: for a shift, values that have bits to spare."""
    values = list(inputs)
    x = values[argument]
    if change == "shift" and isinstance(x, torch.Tensor):
        values[argument] = (x + _SHIFT) - _SHIFT
    return values


def changed(
    change: str, inputs: Sequence[object], specs: Sequence[object], argument: int, order: torch.Tensor
) -> Values:
    """Return the changed inputs; permutations move every argument that has the axis."""
    values = list(inputs)
    x = values[argument]
    assert isinstance(x, torch.Tensor)
    match change:
        case "scale":
            values[argument] = x * 4.0
        case "mirror":
            values[argument] = -x
        case "shift":
            values[argument] = x + _SHIFT
        case _:
            axis = 0 if change == "rows" else -1
            for i, (value, spec) in enumerate(zip(inputs, specs, strict=True)):
                if _moves(value, spec, axis, len(order)) and isinstance(value, torch.Tensor):
                    values[i] = value.index_select(axis, order)
    return values


def order_of(change: str, x: object, seed: int) -> torch.Tensor:
    """Draw the order of a permutation; empty for other changes."""
    if change not in {"rows", "columns"} or not isinstance(x, torch.Tensor):
        return torch.empty(0, dtype=torch.int64)
    axis = 0 if change == "rows" else -1
    return torch.randperm(x.shape[axis], generator=torch.Generator().manual_seed(seed % (1 << 62)))


def discover(problem: Problem, workload: Workload) -> tuple[Relation, ...]:
    """Find the relations that hold on the oracle under every seed tried."""
    return tuple(
        relation
        for argument in _changeable(workload)[:_MOST_ARGUMENTS]
        for change in CHANGES
        if (relation := _tried(problem, workload, change, argument)) is not None
    )


def _tried(problem: Problem, workload: Workload, change: str, argument: int) -> Relation | None:
    forms = [list(CHANGES[change]) for _ in workload.outputs]
    for seed in _SEEDS:
        inputs = prepared(change, problem.inputs(workload, seed), argument)
        x = inputs[argument]
        if not isinstance(x, torch.Tensor) or not x.dim():
            return None
        state, order = problem.state(workload, seed), order_of(change, x, seed)
        other = changed(change, inputs, workload.arguments, argument, order)
        first = problem.run_oracle(workload, inputs, state).outputs
        second = problem.run_oracle(workload, other, state).outputs
        for kept, y, z in zip(forms, first, second, strict=True):
            kept[:] = [form for form in kept if holds(form, y, z, order)]
    if not any(forms):
        return None
    found = tuple(kept[0] if kept else None for kept in forms)
    return Relation(f"{change} of {_name(workload, argument)}", change, argument, found)


def holds(form: Form, y: torch.Tensor, z: torch.Tensor, order: torch.Tensor) -> bool:
    """Tell whether the answer `z` to changed inputs follows from `y` in the form, to float64's last digits."""
    if not y.is_floating_point() or not y.numel() or not all(bool(torch.isfinite(t).all()) for t in (y, z)):
        return False
    expected = form.follow(y, order)
    if expected.shape != z.shape:
        return False
    size = float(torch.maximum(expected.abs().max(), z.abs().max()))
    return bool(((expected - z).abs() <= _EXACT * size).all())


def _changeable(workload: Workload) -> list[int]:
    return [i for i, s in enumerate(workload.arguments) if isinstance(s, TensorSpec) and _is_free(s)]


def _is_free(spec: TensorSpec) -> bool:
    return getattr(torch, spec.dtype).is_floating_point and spec.distribution.kind in _FREE


def _moves(value: object, spec: object, axis: int, length: int) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(spec, TensorSpec) or not value.dim():
        return False
    return value.shape[axis] == length and (_is_free(spec) or spec.distribution.kind in _LOOSE)


def _name(workload: Workload, argument: int) -> str:
    return workload.arguments[argument].name


def pairs(
    relation: Relation, first: Sequence[torch.Tensor], second: Sequence[torch.Tensor], order: torch.Tensor
) -> Iterator[tuple[int, Form, torch.Tensor, torch.Tensor]]:
    """Yield each output that follows a form: position, form, what should be and what is, in float64."""
    for i, (form, y, z) in enumerate(zip(relation.forms, first, second, strict=True)):
        if form is not None:
            yield i, form, form.follow(y.double(), order), z.double()
