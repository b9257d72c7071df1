"""How far what is true moves when a reference is computed as honest kernels compute: with rounding.

Covers: rounding of inputs and of every step, plain evaluations in float32, choices that rounding may turn.
Does not cover: what that allows; `_tolerance` does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from ..tasks import CHOICES, Evaluation, Outcome, Problem, Recorded, Rounding, Turned, Workload, measured_in
from ._tolerance import Jumps

_STEPS = (1 << 16) + 1
"""Random steps of a perturbation; a larger tensor meets them again."""
_TURNS = 8
"""How often choices are made again."""


@dataclass(frozen=True)
class Called:
    """A call of a reference, and what is true of it."""

    problem: Problem
    workload: Workload
    inputs: Sequence[object]
    state: dict[str, torch.Tensor]
    truth: Mapping[str, torch.Tensor]
    """Outputs and changed state, by name."""
    seed: int

    @property
    def floats(self) -> list[torch.dtype]:
        """The dtypes of float inputs and state."""
        tensors = (t for t in (*self.inputs, *self.state.values()) if isinstance(t, torch.Tensor))
        return [t.dtype for t in tensors if t.is_floating_point()]

    @property
    def repeats(self) -> bool:
        """Whether a float input holds one value everywhere."""
        floats = (t for t in self.inputs if isinstance(t, torch.Tensor) and t.is_floating_point())
        return any(t.numel() > 1 and bool((t == t.flatten()[0]).all()) for t in floats)

    def moved(self, outcome: Outcome) -> dict[str, torch.Tensor]:
        """Return how an outcome differs from the truth, float64; zero where that is not finite."""
        return {
            name: (found.double() - self.truth[name].double()).nan_to_num_(0.0, 0.0, 0.0)
            for name, found in named(outcome, outcome.state).items()
            if name in self.truth and found.is_floating_point() and found.shape == self.truth[name].shape
        }


@dataclass(frozen=True)
class Sensitivity:
    """How far each output and changed state moves, by name."""

    rounding: dict[str, torch.Tensor]
    """With the rounding of inputs and steps, float64."""
    jumps: dict[str, Jumps]
    """At most, down and up, where choices that rounding may turn are turned, float64; empty where not tried."""
    chooses: bool
    """Whether anything is chosen between computed values."""


def sensitivity(called: Called, times: int, *, measured: bool) -> Sensitivity:
    """Measure how far what is true moves when inputs and intermediate values move by their rounding error.

    Inputs by that of their dtype; what comes between by float32's where that is finer, as kernels compute.

    Args:
        called: What is called.
        times: How many perturbations are averaged.
        measured: Whether plain evaluations are tried too, and choices turned.
    """
    if not called.floats:
        return Sensitivity({}, {}, False)
    eps = min(torch.finfo(d).eps for d in (torch.float32, *called.floats))
    squares: dict[str, torch.Tensor] = {}
    random, chooses = torch.Generator().manual_seed(called.seed % (1 << 63)), False
    for _ in range(times):
        moved = [_nudge(a, random) for a in called.inputs]
        rounded = Rounding(eps, int(torch.randint(1 << 62, (), generator=random)))
        outcome = called.problem.run_oracle(called.workload, moved, called.state, rounded)
        chooses |= not CHOICES.isdisjoint(rounded.ran)
        for name, off in called.moved(outcome).items():
            step = off.square_()
            squares[name] = squares[name] + step if name in squares else step
    noise = {name: s.div_(times).sqrt_() for name, s in squares.items()}
    if measured:
        for outcome in _evaluated(called):
            for name, off in called.moved(outcome).items():
                if name in noise:
                    noise[name] = torch.maximum(noise[name], off.abs_())
    jumps = _jumps(called, eps, random) if measured and chooses else {}
    return Sensitivity(noise, jumps, chooses)


def named(found: Outcome, state: Iterable[str]) -> dict[str, torch.Tensor]:
    """Name the outputs of a call and these tensors of its state."""
    outputs = {f"output {i}": tensor for i, tensor in enumerate(found.outputs)}
    return outputs | {f"state {name}": found.state[name] for name in state}


def _jumps(called: Called, eps: float, random: torch.Generator) -> dict[str, Jumps]:
    """Return how far down and up each element goes where choices are turned."""
    most: dict[str, Jumps] = {}
    for outcome in _turned(called, eps, random):
        for name, moved in called.moved(outcome).items():
            new = (-moved).clamp_min_(0.0), moved.clamp_min(0.0)
            old = most.get(name, new)
            most[name] = torch.maximum(old[0], new[0]), torch.maximum(old[1], new[1])
    return most


def _evaluated(called: Called) -> Iterator[Outcome]:
    """Yield what plain evaluations in float32 give; one that torch cannot run so tells nothing."""
    for arithmetic in measured_in(called.floats, repeated=called.repeats):
        try:
            yield called.problem.run_evaluated(
                called.workload, called.inputs, called.state, Evaluation(arithmetic)
            )
        except (RuntimeError, NotImplementedError, TypeError):
            continue


def _turned(called: Called, eps: float, random: torch.Generator) -> Iterator[Outcome]:
    """Yield what is true where choices are made on values that are as far off as an answer may be: by the contract's
    factor times what rounding moves them by."""
    factor = called.problem.task.contract.error_factor
    for _ in range(_TURNS):
        rounded = Recorded(eps, int(torch.randint(1 << 62, (), generator=random)))
        called.problem.run_oracle(called.workload, called.inputs, called.state, rounded)
        turned = Turned(rounded.values, factor)
        yield called.problem.run_oracle(called.workload, called.inputs, called.state, turned)


def _nudge(value: object, random: torch.Generator) -> object:
    """Move a float tensor by half an epsilon of its dtype times a standard normal number, in float64."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    steps = torch.randn(min(value.numel(), _STEPS), generator=random, dtype=torch.float64)
    steps.mul_(torch.finfo(value.dtype).eps / 2).add_(1)
    moved = value.to(torch.float64, memory_format=torch.contiguous_format, copy=True)
    for part in torch.split(moved.view(-1), _STEPS):
        part.mul_(steps[: part.numel()])
    return moved
