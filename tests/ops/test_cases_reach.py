"""What an op is judged on reaches what its kernel serves: every dtype that the guard lets through."""

import inspect
from collections.abc import Mapping

import pytest
import torch

from kernelwright import ops
from kernelwright.api.ops import cases_of
from kernelwright.errors import InputError
from kernelwright.tasks.forms._expression import declared

NARROW = (torch.bfloat16, torch.float16)


def smallest(cases: ops.Cases) -> Mapping[str, object]:
    """Return the verified workload of the fewest elements that has no size of 0."""
    full = [
        one for one in cases.verified if all(v or isinstance(v, bool | float | str) for v in one.values())
    ]
    return min(full or cases.timed, key=lambda one: sum(v for v in one.values() if isinstance(v, int)))


def arguments(family: str, cases: ops.Cases) -> list[object]:
    """Return arguments of the smallest workload, tensors of zeros."""
    given = {**cases.timed[0], **smallest(cases)}
    names = {k: v for k, v in given.items() if isinstance(v, int | str) and not isinstance(v, bool)}
    reference = getattr(ops.family(family).reference, cases.reference)
    found: list[object] = []
    for name, parameter in inspect.signature(reference).parameters.items():
        if name in cases.arguments:
            spec = declared(name, cases.arguments[name], names)
            found.append(torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)))
        else:
            found.append(given.get(name, parameter.default))
    return found


def first(values: list[object]) -> torch.dtype:
    return next(v.dtype for v in values if isinstance(v, torch.Tensor) and v.is_floating_point())


def served(op: ops.Op, values: list[object], dtype: torch.dtype) -> bool:
    """Tell whether the guard lets through the call with floats of the first one's dtype in another."""
    own = first(values)
    cast = [v.to(dtype) if isinstance(v, torch.Tensor) and v.dtype is own else v for v in values]
    try:
        op.check(*cast)
        return op.serves(*cast) is None
    except InputError:
        return False


@pytest.mark.parametrize("family", ops.families())
def test_every_dtype_that_a_kernel_serves_is_judged_at_pinned_sizes(family):
    of_name = {op.name: op for op in ops.ops_of(ops.family(family))}
    reached: dict[str, set[torch.dtype]] = {}
    wanted: dict[str, set[torch.dtype]] = {}
    for cases in cases_of(family):
        values = arguments(family, cases)
        if not any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values):
            continue
        own = first(values)
        types = {getattr(torch, str(one["dtype"])) for one in cases.verified if "dtype" in one}
        reached.setdefault(cases.op, set()).update(types or {own})
        wanted.setdefault(cases.op, set()).update(d for d in NARROW if served(of_name[cases.op], values, d))
    missing = {name: types - reached[name] for name, types in wanted.items() if types - reached[name]}
    assert not missing
