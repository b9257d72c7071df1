"""What the task's generator always gives alike is an argument all the same: a mask of ones may be another one."""

import torch

from ...errors import TaskError
from ...records import Finding, TensorSpec
from ...tasks.changes import changed
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs

_QUARTERS = 4


class ConstantsFollowed:
    """Change all elements of a quarter of each constant argument, one quarter after the other.

    One element shows in no sum of millions; a quarter does. Who ignores a mask of ones, or looks at half of it, is
    right on whatever else a generator makes. Integers that the reference refuses are left as they are.
    """

    name = "constants-followed"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is that of the constant."""
        specs = case.workload.arguments
        constant = [
            i for i, s in enumerate(specs) if isinstance(s, TensorSpec) and s.distribution.kind == "constant"
        ]
        if case.state_after or not constant:
            return passed(self.name)
        placed = trial.place(case)[0]
        for index in constant:
            for quarter in range(_QUARTERS):
                other = _changed(trial, case, index, quarter)
                if other is None or not other.usable:
                    continue
                fetched = trial.call([trial.refill(placed, other)])[0]
                found = compare_outputs(self.name, fetched, other, "with a constant argument changed, ")
                if found.status == "fail":
                    return found
        return passed(self.name)


def _changed(trial: Trial, case: Case, index: int, quarter: int) -> Case | None:
    """Work out the case with a quarter of an argument changed; none where that changes nothing, or cannot be."""
    value, spec = case.inputs[index], case.workload.arguments[index]
    assert isinstance(value, torch.Tensor) and isinstance(spec, TensorSpec)
    part = slice(*(value.numel() * q // _QUARTERS for q in (quarter, quarter + 1)))
    other = changed(value, spec, part)
    if other is None:
        return None
    inputs = (*case.inputs[:index], other, *case.inputs[index + 1 :])
    try:
        return trial.oracle.make(case.workload, case.seed, inputs, case.state)
    except (IndexError, RuntimeError, ValueError, TaskError):
        return None
