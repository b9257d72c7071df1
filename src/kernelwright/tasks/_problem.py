"""A task loaded to run: draws inputs and state, runs the reference and the float64 oracle."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..errors import InputError, known_names
from ..records import Candidate, Contract, Reference, ScalarSpec, Task, TensorSpec, Workload
from ._baselines import FLAGS
from ._candidate import start_of
from ._gradient import Differentiated, differentiate, targets_of, without_gradients
from ._prototype import NotWholeError, Prototype
from .forms._shape_probe import flatten
from .forms._source import resolve
from .inputs._draw import copy_of, generator
from .inputs._seed import seed_torch
from .inputs._state import StateModel, construct, materialised
from .inputs.regimes import draw_in
from .numerics._evaluation import Evaluation
from .numerics._oracle import in_float64, narrow_to_float32, widen
from .numerics._rounding import Decomposed
from .numerics._worst_case_sums import WorstCaseSums

Argument = Any
"""A tensor, a number, a string or a tuple of numbers."""
_REFERENCE_SEED = 20_240_229
_MOST_STATES = 8
_MADE_FIRST = 3
"""How many modules are made before a copy is worth the two calls that tell whether it answers alike."""


@dataclass(frozen=True)
class Outcome:
    """The result of one call of the reference."""

    outputs: tuple[torch.Tensor, ...]
    """The results, flattened."""
    mutated: dict[str, torch.Tensor]
    """Arguments whose values the call changed, with their new values."""
    state: dict[str, torch.Tensor]
    """Parameters and buffers after the call."""
    precision: Literal["declared", "float64", "float32"] = "declared"
    """The precision of the computation; `float32` if the reference cannot run in float64."""


class Problem:
    """A task that can be run. Lives in the judge's process only.

    Covers: inputs, state, reference and oracle, each a function of workload and seed alone.
    Does not cover: the files that the user's own code reads; a reference that draws random numbers does
    so under one fixed seed.

    Example:
        >>> from kernelwright.tasks import Problem, load_task
        >>> problem = Problem(load_task("examples/swiglu.py"))
        >>> small = min(problem.task.workloads, key=lambda w: sum(w.axes.values()))
        >>> result = problem.run_reference(small, problem.inputs(small, seed=1), problem.state(small, seed=1))
        >>> [tuple(t.shape) for t in result.outputs] == [s.shape for s in small.outputs]
        True
    """

    def __init__(self, task: Task) -> None:
        from .forms import live

        self.task = task
        self._live = live(task)
        self._states: dict[str, StateModel] = {}
        self._made_of = Counter[str]()
        self._prototypes: dict[str, Prototype | None] = {}
        """What modules are copied from, by source; none where each is made anew."""

    def under(self, contract: Contract) -> "Problem":
        """Return the same problem under another contract, with what is known of its state."""
        other = Problem(self.task.model_copy(update={"contract": contract}))
        other._states = self._states
        return other

    def inputs(self, workload: Workload, seed: int) -> list[Argument]:
        """Draw the arguments, in order, in their layouts; the same for the same workload and seed."""
        given: Sequence[Argument] = ()
        if any(isinstance(s, TensorSpec) and s.distribution.kind == "given" for s in workload.arguments):
            given = self._live.given(workload, seed)
        values: list[Argument] = []
        for index, spec in enumerate(workload.arguments):
            if isinstance(spec, ScalarSpec):
                values.append(spec.value)
            elif spec.distribution.kind == "given":
                values.append(given[index])
            else:
                random = generator(seed, "input", workload.name, spec.name)
                values.append(draw_in(workload.regime, spec, random))
        return values

    def state(self, workload: Workload, seed: int) -> dict[str, torch.Tensor]:
        """Draw parameters and buffers, in `state_dict` order; never all ones or zeros where learnable."""
        if self.task.reference.style == "function":
            return {}
        return self._state_model(workload).sample(seed)

    def made(self, workload: Workload, seed: int) -> dict[str, torch.Tensor]:
        """Return parameters and buffers as the module has them when it is made under torch's seed."""
        entry = resolve(self.sources(workload))
        made = construct(lambda: self._made(entry, workload), seed).state_dict()
        return {name: value.detach() for name, value in made.items()}

    def init_arguments(self, workload: Workload) -> tuple[Argument, ...]:
        """Return the constructor arguments of the module's class; empty for a function."""
        return self._live.init_arguments(workload)

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the workload, forward only, with some of its axes at other sizes.

        Raises:
            TaskError: the reference refuses these sizes. If it is not run to find out, it may still refuse later.
        """
        return self._live.at(without_gradients(workload), {**workload.axes, **axes})

    def sources(self, workload: Workload) -> Reference:
        """Return the reference with the workload's constants filled in, as loaded by a baseline's worker."""
        return self._live.reference(workload)

    def reference(
        self, workload: Workload, state: Mapping[str, torch.Tensor] | None = None
    ) -> Callable[..., Any]:
        """Return a fresh function or module, in the contract's mode, with the state loaded if given.

        A module that is built in that mode stays as it was built, with parts that its constructor put in the other.
        """
        entry = resolve(self.sources(workload))
        if self.task.reference.style == "function":
            return entry
        module = construct(lambda: self._made(entry, workload))
        if state is not None:
            module.load_state_dict(dict(state))
        training = self.task.contract.mode == "train"
        return module if module.training == training else module.train(training)

    def differentiated(self, workload: Workload) -> torch.nn.Module:
        """Return a fresh reference whose call is forward and backward, of a backward task's workload."""
        return Differentiated(self.reference(workload), workload)

    def run_reference(
        self, workload: Workload, inputs: Sequence[Argument], state: Mapping[str, torch.Tensor]
    ) -> Outcome:
        """Call the reference once at the declared dtypes; inputs and state passed in are not touched."""
        return _call(self._fresh(workload, state), copy_of(inputs), inputs, workload)

    def run_oracle(
        self, workload: Workload, inputs: Sequence[Argument], state: Mapping[str, torch.Tensor],
        steps: Decomposed | None = None,
    ) -> Outcome:  # fmt: skip
        """Call the reference once in float64, optionally with each step rounded; integers stay.

        Falls back to float32, recorded in `Outcome.precision`, if an operator has no float64 form.
        """
        reference = self._fresh(workload, state, wide=True)
        wide = [widen(v) for v in inputs]
        try:
            found = in_float64(lambda: _call(reference, copy_of(wide), wide, workload), steps)
        except (RuntimeError, NotImplementedError, TypeError):
            return self._run_float32(workload, inputs, state)
        return Outcome(_widened(found.outputs), found.mutated, found.state, "float64")

    def run_evaluated(
        self, workload: Workload, inputs: Sequence[Argument], state: Mapping[str, torch.Tensor],
        evaluation: Evaluation,
    ) -> Outcome:  # fmt: skip
        """Call the reference once as an honest kernel computes: half precision in float32, sums in a given order."""
        reference = self._fresh(workload, state)
        wider = [narrow_to_float32(v) for v in inputs]
        if isinstance(reference, torch.nn.Module):
            reference._apply(narrow_to_float32)  # type: ignore[no-untyped-call]  # torch does not annotate it
        with evaluation:
            return _call(reference, copy_of(wider), wider, workload)

    def draws(
        self, workload: Workload, inputs: Sequence[Argument], state: Mapping[str, torch.Tensor],
        count: int, seed: int,
    ) -> list[tuple[torch.Tensor, ...]]:  # fmt: skip
        """Call a reference that draws random numbers many times on the same inputs, with different seeds."""
        reference = self._fresh(workload, state)
        return [
            _call(reference, copy_of(inputs), inputs, workload, seed=seed + i).outputs for i in range(count)
        ]

    def run_worst_case(
        self, workload: Workload, inputs: Sequence[Argument], state: Mapping[str, torch.Tensor]
    ) -> tuple[Outcome, Outcome]:
        """Call reference and oracle with every infinite sum read as NaN, which another summation order may give."""
        with WorstCaseSums():
            native = self.run_reference(workload, inputs, state)
            return native, self.run_oracle(workload, inputs, state)

    def differentiable(self, workload: Workload) -> frozenset[str]:
        """Name the arguments and parameters that get a gradient; raises `TaskError` if none does."""
        reference = self.reference(workload, self.state(workload, 0))
        return targets_of(reference, workload, copy_of(self.inputs(workload, 0)), self.task.name)

    def start(self) -> Candidate | None:
        """Return the kernel that a kernel-to-kernel task starts from; None for other tasks."""
        return start_of(self.task)

    def baseline(self, name: str, workload: Workload) -> Candidate:
        """Return a baseline as a candidate.

        `eager`, `compile` and the like are the reference in language `torch`; `start` is the kernel that the
        task starts from.

        Raises:
            InputError: the name is not one of these, or the task has no starting kernel.
        """
        if name == "start" and (start := self.start()) is not None:
            return start
        if name not in FLAGS:
            known = (*FLAGS, "start") if self.task.start else FLAGS
            raise InputError(f"no baseline is called {name!r}; {known_names(name, known)}")
        reference = self.sources(workload)
        return Candidate(
            sources=reference.files,
            language="torch",
            entry=reference.entry,
            style=reference.style,
            flags=FLAGS[name],
            proposer="baseline",
            reason=f"the reference, {name}",
        )

    def _fresh(
        self, workload: Workload, state: Mapping[str, torch.Tensor], *, wide: bool = False
    ) -> Callable[..., Any]:
        """Return the reference for one call, in float64 if `wide`; a copy where that answers alike."""
        kind = self._kind(workload, state) if self.task.reference.style != "function" else None
        if kind is not None:
            return kind.fresh(state, wide=wide)
        made = self.reference(workload, state)
        return made.double() if wide and isinstance(made, torch.nn.Module) else made

    def _kind(self, workload: Workload, state: Mapping[str, torch.Tensor]) -> Prototype | None:
        """Return what modules are copied from, once a few were made, if they can be."""
        key = self.sources(workload).key
        self._made_of[key] += 1
        if self._made_of[key] <= _MADE_FIRST:
            return None
        if key not in self._prototypes:
            while len(self._prototypes) >= _MOST_STATES:
                del self._prototypes[next(iter(self._prototypes))]
            self._prototypes[key] = self._prototype(workload, state)
        return self._prototypes[key]

    def _prototype(self, workload: Workload, state: Mapping[str, torch.Tensor]) -> Prototype | None:
        """Return what modules can be copied from; none where a copy answers otherwise than a module made anew."""
        made = self.reference(workload)
        assert isinstance(made, torch.nn.Module), "a function has no state"
        inputs = self.inputs(workload, 0)
        try:
            kind = Prototype(made)
            copied, anew = (
                _call(one, copy_of(inputs), inputs, workload)
                for one in (kind.fresh(state, spoilt=True), self.reference(workload, state))
            )
        except NotWholeError:
            return None
        return kind if _alike(copied, anew) else None

    def _made(self, entry: Callable[..., torch.nn.Module], workload: Workload) -> torch.nn.Module:
        """Make the module; the sizes of its lazy layers come from the workload's inputs."""
        forward = workload.forward
        return materialised(entry(*self.init_arguments(workload)), lambda: self.inputs(forward, 0))

    def _state_model(self, workload: Workload) -> StateModel:
        source = self.sources(workload)
        key = source.key
        if key not in self._states:
            while len(self._states) >= _MOST_STATES:
                del self._states[next(iter(self._states))]
            entry = resolve(source)
            self._states[key] = StateModel(lambda: self._made(entry, workload))
        return self._states[key]

    def _run_float32(
        self,
        workload: Workload,
        inputs: Sequence[Argument],
        state: Mapping[str, torch.Tensor],
    ) -> Outcome:
        reference = self._fresh(workload, state)
        declared = [
            v.to(getattr(torch, s.dtype)) if isinstance(v, torch.Tensor) and isinstance(s, TensorSpec) else v
            for s, v in zip(workload.arguments, inputs, strict=True)
        ]
        wider = [narrow_to_float32(v) for v in declared]
        if isinstance(reference, torch.nn.Module):
            reference.float()
        try:
            found = _call(reference, copy_of(wider), wider, workload)
        except (RuntimeError, TypeError):
            found = self.run_reference(workload, declared, state)
        return Outcome(_widened(found.outputs), found.mutated, found.state, "float32")


def _call(
    reference: Callable[..., Any], arguments: list[Argument], before: Sequence[Argument], workload: Workload,
    *, seed: int = _REFERENCE_SEED,
) -> Outcome:  # fmt: skip
    with torch.no_grad(), torch.random.fork_rng():
        seed_torch(seed)
        if workload.cotangents:
            outputs = differentiate(reference, workload, *arguments)
        else:
            outputs = flatten(reference(*arguments))
    outputs = tuple(t.resolve_conj().resolve_neg() for t in outputs)
    mutated = {
        spec.name: new for spec, new, old in zip(workload.arguments, arguments, before, strict=True)
        if isinstance(new, torch.Tensor) and not same(new, old)
    }  # fmt: skip
    state = reference.state_dict() if isinstance(reference, torch.nn.Module) else {}
    return Outcome(outputs, mutated, {k: v.detach() for k, v in state.items()})


def _alike(one: Outcome, other: Outcome) -> bool:
    """Whether two calls gave and left the same."""
    named = ((o.mutated | o.state) for o in (one, other))
    first, second = (
        {**dict(enumerate(o.outputs)), **more} for o, more in zip((one, other), named, strict=True)
    )
    return first.keys() == second.keys() and all(same(t, second[k]) for k, t in first.items())


def same(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Whether the values compare equal, NaN equal to NaN."""
    if new.shape != old.shape:
        return False
    return torch.equal(new, old) or torch.allclose(new, old, rtol=0, atol=0, equal_nan=True)


def _widened(outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(t.double() if t.is_floating_point() else t for t in outputs)
