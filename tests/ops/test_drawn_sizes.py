"""Kernels are right against float64 at sizes that Hypothesis draws, by the judge's own tolerance.

Each size and number is one that some case of the op has, in combinations that none has.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

from kernelwright import ops
from kernelwright.api.ops import cases_of, task_of
from kernelwright.errors import ArgumentError, TaskError
from kernelwright.records import TensorSpec
from kernelwright.tasks import Problem
from kernelwright.verify import Oracle
from kernelwright.verify.checks.correct import compare_outputs

MOST_ELEMENTS = 1 << 16
"""Of a workload: what is larger takes long in float64."""
ALL = [(family, number) for family in ops.families() for number in range(len(cases_of(family)))]


def examined(family, number, draw, examples):
    """Draw sizes, call the op, and return what the judge finds; nothing of sizes that go with no call."""
    cases = cases_of(family)[number]
    seen = {}
    for sizes in (*cases.timed, *cases.verified):
        for name, value in sizes.items():
            seen.setdefault(name, []).append(value)
    drawn = {name: draw(st.sampled_from(values), label=name) for name, values in seen.items()}
    try:
        problem = Problem(task_of(family, replace(cases, timed=[drawn], verified=[])))
    except TaskError:
        return None
    (workload, *_) = problem.task.workloads
    specs = [s for s in (*workload.arguments, *workload.outputs) if isinstance(s, TensorSpec)]
    if sum(math.prod(s.shape) for s in specs) > MOST_ELEMENTS:
        return None
    case = Oracle(problem).case(workload, seed=len(examples))
    op = next(op for op in ops.ops_of(ops.family(family)) if op.name == cases.op)
    try:
        found = op(*case.inputs)
    except ArgumentError:
        return None
    examples.append(drawn)
    return (
        compare_outputs("correct", SimpleNamespace(outputs=tree_leaves(found)), case) if case.usable else None
    )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:kernelwright .* runs its reference")
@pytest.mark.parametrize(("family", "number"), ALL, ids=lambda one: str(one))
def test_kernels_are_right_at_sizes_that_are_drawn(family, number):
    examples = []

    @settings(
        max_examples=30, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def hold(data):
        found = examined(family, number, data.draw, examples)
        assume(found is not None)
        assert found.status == "pass", found

    hold()
    assert len(examples) >= 5
