"""Observe on one small real run the facts that the contract needs about the reference."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from ..errors import TaskError
from ..records import Contract, TensorSpec, Workload
from ._problem import Problem, same
from .forms._shape_probe import flatten, output_specs
from .inputs._draw import copy_of
from .inputs._seed import seed_torch
from .inputs.perturbations import alike


def observe(problem: Problem, workload: Workload) -> Contract:
    """Return the task's contract with mutation, aliasing and randomness as observed in one run.

    Raises:
        TaskError: the reference raises, or returns shapes other than declared.
    """
    inputs, state = problem.inputs(workload, seed=0), problem.state(workload, seed=0)
    try:
        outcome = problem.run_reference(workload, inputs, state)
    except TaskError:
        raise
    except Exception as error:
        message = (str(error).strip() or "no message").splitlines()[0]
        raise TaskError(
            f"{problem.task.name}: the reference raised {type(error).__name__} at its own sizes, workload "
            f"{workload.name!r}: {message}"
        ) from error
    _check_outputs(problem, workload, outcome.outputs)
    changed = [k for k, v in outcome.state.items() if not same(v, state[k])]
    mutates = tuple(dict.fromkeys((*problem.task.contract.mutates, *outcome.mutated, *changed)))
    return problem.task.contract.model_copy(
        update={
            "mutates": mutates,
            "may_alias": problem.task.contract.may_alias or aliases(problem, workload, inputs, state),
            "stochastic": problem.task.contract.stochastic
            or _is_stochastic(problem, workload, inputs, state),
        }
    )


def in_other_mode(problem: Problem, workload: Workload) -> Problem:
    """Return the same problem with the reference in the other mode; `workload` shows what that changes."""
    contract = problem.task.contract
    mode: Literal["eval", "train"] = "eval" if contract.mode == "train" else "train"
    plain = contract.model_copy(update={"mode": mode, "mutates": (), "stochastic": False})
    other = Problem(problem.task.model_copy(update={"contract": plain}))
    return Problem(problem.task.model_copy(update={"contract": observe(other, workload)}))


def unvaried(problem: Problem) -> tuple[str, ...]:
    """Name the arguments and buffers that no draw or check varies: causal masks, tables, index maps.

    No workload shows whether a kernel reads them: it may rely on their values.
    """
    workload = problem.task.workloads[0]
    one, two = (problem.inputs(workload, seed) for seed in (0, 1))
    arguments = (
        spec.name
        for spec, a, b in zip(workload.arguments, one, two, strict=True)
        if isinstance(spec, TensorSpec) and spec.distribution.kind == "given" and _equal(a, b)
    )
    first, second = (problem.state(workload, seed) for seed in (0, 1))
    buffers = (k for k, v in first.items() if v.numel() > 1 and _equal(v, second[k]) and not alike(v))
    return (*arguments, *buffers)


def _equal(a: object, b: object) -> bool:
    return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and same(a, b)


def _check_outputs(problem: Problem, workload: Workload, outputs: tuple[torch.Tensor, ...]) -> None:
    if not outputs:
        raise TaskError(f"{problem.task.name}: the reference returned no tensor; expected at least one")
    real = [(s.shape, s.dtype) for s in output_specs(outputs)]
    if workload.outputs and real != [(s.shape, s.dtype) for s in workload.outputs]:
        declared = [(s.shape, s.dtype) for s in workload.outputs]
        raise TaskError(
            f"{problem.task.name}: the reference returned {real} on workload {workload.name!r}; "
            f"declared was {declared}"
        )


def aliases(
    problem: Problem, workload: Workload, inputs: Sequence[Any], state: dict[str, torch.Tensor]
) -> bool:
    """Whether the reference returns storage of an argument; `contiguous` does at some sizes only."""
    own = copy_of(inputs)
    storages = {v.untyped_storage().data_ptr() for v in own if isinstance(v, torch.Tensor) and v.numel()}
    outputs = _raw(problem.reference(workload, state), own[: len(workload.forward.arguments)], seed=0)
    return any(t.numel() and t.untyped_storage().data_ptr() in storages for t in outputs)


def _is_stochastic(
    problem: Problem, workload: Workload, inputs: Sequence[Any], state: dict[str, torch.Tensor]
) -> bool:
    first, second = (
        _raw(
            problem.reference(workload, state), copy_of(inputs)[: len(workload.forward.arguments)], seed=seed
        )
        for seed in (1, 2)
    )
    return any(not _close(a, b) for a, b in zip(first, second, strict=True))


def _raw(reference: Callable[..., Any], arguments: list[Any], seed: int) -> tuple[torch.Tensor, ...]:
    with torch.no_grad(), torch.random.fork_rng():
        seed_torch(seed)
        return flatten(reference(*arguments))


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether values are equal up to the order of summation, which threads may change from run to run."""
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return a.shape == b.shape and torch.allclose(a.to(wide), b.to(wide), rtol=1e-3, atol=1e-5, equal_nan=True)
