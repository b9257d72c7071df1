"""What every draw gives alike may be another all the same: a mask of ones, a scale kept in a buffer."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch

from ...errors import TaskError
from ...records import Distribution, Finding, TensorSpec
from ...tasks import dtype_name
from ...tasks.inputs.perturbations import alike, changed
from .._case import Case, Oracle, same_bits
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs

_QUARTERS = 4


class ConstantsFollowed:
    """Change all elements of a quarter of each constant argument, one quarter after the other; then of the state's.

    One element shows in no sum of millions; a quarter does. Who ignores a mask of ones, or looks at half of it, is
    right on whatever else a generator makes. In a weighted mean a quarter hardly shows either, as its elements are on
    average like the others: so the weights of those whose value in another argument of the shape is large are changed
    as well. Integers that the reference refuses are left as they are, and so are those of the state, which count.
    """

    name = "constants-followed"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is that of the constant."""
        if case.state_after:
            return passed(self.name)
        for other in _varied(trial.oracle, case):
            fetched = trial.call(trial.place(other))[0]
            found = compare_outputs(self.name, fetched, other, "with a constant changed, ")
            if found.status == "fail":
                return found
        return passed(self.name)


def _varied(oracle: Oracle, case: Case) -> Iterator[Case]:
    """Yield the cases in which constants are changed and that shows in what is right."""
    for i, (value, spec) in enumerate(zip(case.inputs, case.workload.arguments, strict=True)):
        if (
            isinstance(value, torch.Tensor)
            and isinstance(spec, TensorSpec)
            and spec.distribution.kind == "constant"
        ):
            parts: list[slice | torch.Tensor] = [
                *_quarters(value),
                *_where_others_are_large(value, case.inputs),
            ]
            for part in parts:
                if (other := changed(value, spec, part)) is not None:
                    yield from _made(
                        oracle, case, (*case.inputs[:i], other, *case.inputs[i + 1 :]), case.state
                    )
    constants = _constant_state(oracle, case)
    for quarter in range(_QUARTERS):
        others = {
            k: o
            for k, s in constants.items()
            if (o := changed(case.state[k], s, _quarters(case.state[k])[quarter])) is not None
        }
        if others:
            yield from _made(oracle, case, case.inputs, case.state | others)


def _quarters(value: torch.Tensor) -> list[slice]:
    """Return the four parts of equal size, counted row by row."""
    bounds = [value.numel() * quarter // _QUARTERS for quarter in range(_QUARTERS + 1)]
    return [slice(first, end) for first, end in pairwise(bounds)]


def _where_others_are_large(value: torch.Tensor, inputs: Sequence[object]) -> list[torch.Tensor]:
    """Return for each float argument of the shape, unless it is constant, where it is above its mean."""
    others = [
        o.reshape(-1)
        for o in inputs
        if isinstance(o, torch.Tensor) and o.shape == value.shape and o.is_floating_point() and o.numel()
    ]
    return [o > o.float().mean() for o in others if not alike(o)]


def _constant_state(oracle: Oracle, case: Case) -> dict[str, TensorSpec]:
    """Return the specs of floats and booleans of the state that are one value throughout, whatever the seed."""
    if not case.state:
        return {}
    again = oracle.problem.state(case.workload, case.seed + 1)
    return {
        name: TensorSpec(
            name=name, shape=tuple(value.shape), dtype=dtype_name(value.dtype),
            distribution=Distribution(kind="constant"),
        )
        for name, value in case.state.items()
        if value.numel() and (value.is_floating_point() or value.dtype is torch.bool)
        and same_bits(value, again[name]) and alike(value)
    }  # fmt: skip


def _made(
    oracle: Oracle, case: Case, inputs: Sequence[object], state: dict[str, torch.Tensor]
) -> Iterator[Case]:
    """Yield the case of other values, unless the reference refuses them or its answer is as before."""
    try:
        native = oracle.problem.run_reference(case.workload, inputs, state).outputs
        if not all(same_bits(n, r.output) for n, r in zip(native, case.outputs, strict=True)):
            other = oracle.make(case.workload, case.seed, inputs, state)
            if other.usable:
                yield other
    except (IndexError, RuntimeError, ValueError, TaskError):
        return
