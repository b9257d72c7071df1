"""Hold the kernels of ops to their references where single numbers are special.

Cases of an op ─▶ calls with NaN, infinities, signed zeros or subnormals in an argument, and what is right ─▶ Special

Covers: every float argument of every case, also those whose values the judge's regimes leave alone because they are
whole numbers or within a range; each kind in one argument at a time, as `verify` compares it.
Does not cover: special numbers in several arguments at once, which the regime `special` draws where it may.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from .. import ops
from ..records import Task, TensorSpec, Workload
from ..tasks import Problem
from ..verify import Case, Oracle, error_against

__all__ = ["KINDS", "Special", "called", "special_calls"]

KINDS = ("NaN", "infinity", "minus infinity", "signed zeros", "subnormals")
"""What is drawn. The first three are put in a few places, the others in an eighth of all."""
_INFINITE = {"NaN": math.nan, "infinity": math.inf, "minus infinity": -math.inf}
_MOST, _LEAST = 1 << 13, 48
"""Most elements of a workload, and least of its largest float argument, if there is such a workload."""
_PLACES = 512
"""One place in so many holds what is not finite, and one at least."""


@dataclass(frozen=True)
class Special:
    """Arguments of one call with special values, and what is right on them."""

    workload: str
    argument: str
    """Where they are."""
    kind: str
    """Which of `KINDS`."""
    inputs: tuple[object, ...]
    case: Case

    @property
    def judged(self) -> bool:
        """Whether the reference is what float64 says there, so that a kernel can be held to it."""
        return self.case.usable

    def wrong(self, results: Sequence[torch.Tensor]) -> str:
        """Say what is wrong with the results of the call; nothing if they are right, or cannot be judged."""
        if not self.judged:
            return ""
        said = _said(results, self.case)
        return _said(results, self.case.closer()) if said and self.case.closer else said


def _said(results: Sequence[torch.Tensor], case: Case) -> str:
    pairs = zip(results, case.outputs, strict=True)
    found = [error_against(result, allowed, case.tensors) for result, allowed in pairs]
    return "; ".join(f"result {i}: {one.message}" for i, one in enumerate(found) if not one.ok)


def special_calls(task: Task, cases: ops.Cases, *, workloads: int = 2, seed: int = 0) -> Iterator[Special]:
    """Draw each kind of special value in each float argument of an op, on some of its small workloads.

    Arguments of `cases.no_infinity` get no infinities.

    Args:
        task: The task of the cases.
        cases: Cases of an op.
        workloads: How many workloads, spread over those of declared values.
        seed: Of all that is drawn.
    """
    problem = Problem(task)
    oracle = Oracle(problem)
    for workload in _small(task.workloads, workloads):
        for number, spec in enumerate(workload.arguments):
            if not isinstance(spec, TensorSpec) or not _takes(spec):
                continue
            for kind in KINDS:
                if _defined(cases, spec.name, kind):
                    inputs = problem.inputs(workload, seed)
                    _put(inputs[number], kind, seed + number)
                    case = oracle.make(workload, seed, inputs, {}, times=1)
                    yield Special(workload.name, spec.name, kind, tuple(inputs), case)


def called(op: ops.Op, inputs: Sequence[object]) -> tuple[torch.Tensor, ...]:
    """Return what the kernel of an op returns.

    Raises:
        RuntimeError: its guard leaves the call to the reference.
    """
    results: list[torch.Tensor | Sequence[torch.Tensor]] = []
    (ran, *_) = ops.watch(lambda: results.append(op(*inputs)))
    if ran.serves != "kernel":
        raise RuntimeError(f"{op.name}: its kernel does not serve a case: {ran.why}")
    (found,) = results
    return (found,) if isinstance(found, torch.Tensor) else tuple(found)


def _takes(spec: TensorSpec) -> bool:
    return bool(getattr(torch, spec.dtype).is_floating_point) and 0 not in spec.shape


def _defined(cases: ops.Cases, argument: str, kind: str) -> bool:
    """Whether such values have an answer there."""
    return kind not in ("infinity", "minus infinity") or argument not in cases.no_infinity


def _small(workloads: Sequence[Workload], count: int) -> list[Workload]:
    """Return small workloads of declared values, spread over what there is."""
    shapes = {w.name: [s.shape for s in w.arguments if isinstance(s, TensorSpec)] for w in workloads}
    sizes = {name: list(map(math.prod, found)) for name, found in shapes.items()}
    declared = [w for w in workloads if w.regime == "declared" and min(sizes[w.name])]
    small = [w for w in declared if sum(sizes[w.name]) <= _MOST]
    telling = [w for w in small if max(sizes[w.name]) >= _LEAST] or small
    return [telling[len(telling) * i // count] for i in range(min(count, len(telling)))]


def _put(x: torch.Tensor, kind: str, seed: int) -> None:
    """Write special values into some places of a tensor."""
    random = torch.Generator().manual_seed(seed)
    if kind in _INFINITE:
        for _ in range(max(1, x.numel() // _PLACES)):
            place = torch.randint(x.numel(), (), generator=random)
            x[torch.unravel_index(place, x.shape)] = _INFINITE[kind]
        return
    value = -0.0 if kind == "signed zeros" else torch.finfo(x.dtype).tiny / 4
    x.masked_fill_(torch.rand(x.shape, generator=random) < 1 / 8, value)
