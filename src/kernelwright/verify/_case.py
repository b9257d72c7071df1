"""A case: one workload with one seed, its inputs, its state and what is right on it.

The oracle runs in the judge's process. Nothing of a case but its inputs and state ever enters a worker.
"""

import functools
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import ParamSpec

import torch
from torch.utils._pytree import tree_leaves

from ..records import Split, Task, Workload
from ..tasks import Decomposed, Problem, SkippedZeros, in_other_mode, one_thread
from ._error import Comparison, error_against
from ._relations import Relation, discover
from ._sensitivity import Called, Sensitivity, named, sensitivity
from ._tolerance import OutputTolerance, loosened, output_tolerance
from ._two_sample import LEARNT, SampledOutput, calls_for, learn

_KEPT_BYTES = 1 << 30
"""Bytes of expected values kept; the least recently used case goes first."""
_SMALL_SHARE = 1 / 8
"""Share of the bytes kept that a case with another state may have: others take longer to make."""
_PERTURBATIONS = ((1 << 18, 8), (1 << 20, 4), (4 << 20, 2))
"""Input bytes and over how many perturbations the sensitivity is averaged up to there; above, one. Few give an
estimate that is far too low for one element in some thousands: `Case.closer` is for who fails there by a little."""
_MOST_PERTURBATIONS = 8
_ONE_THREAD_BYTES = 1 << 20
"""Bytes of inputs and state up to which one thread works out what is right: to wake others would take longer."""
_INTEGER_OF = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}


_P = ParamSpec("_P")


@dataclass(frozen=True)
class Case:
    """Everything the judge knows about one workload under one seed."""

    workload: Workload
    seed: int
    inputs: tuple[object, ...]
    """Arguments in order, tensors and scalars."""
    state: dict[str, torch.Tensor]
    """Parameters and buffers before the call."""
    outputs: tuple[OutputTolerance, ...]
    """What is expected of each output."""
    mutated: dict[str, OutputTolerance]
    """What is expected of each argument that the reference changes, if only on other values, by name."""
    state_after: dict[str, OutputTolerance]
    """What is expected of each state tensor that the reference changes, if only on other values, by name."""
    own: tuple[Comparison, ...]
    """Where the native op itself does not meet the tolerances."""
    chooses: bool = False
    """Whether the reference chooses between computed values, so that an honest answer may be another one here and
    there."""
    in_float32: bool = False
    """Whether an operator of the reference has no float64 form, so that its float32 result stands for the truth."""
    closer: Callable[[], "Case"] | None = field(default=None, repr=False, compare=False)
    """Makes, once, the same case with its sensitivity averaged over more perturbations, and at least what plain honest
    evaluations of these inputs are off by; none where it is that case already."""

    right: list[tuple[tuple[torch.Tensor, ...], dict[str, float]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """The last outputs that were found right, the judge's own copies, with their figures: the same bits are right."""

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensor arguments, in order."""
        return tuple(a for a in self.inputs if isinstance(a, torch.Tensor))

    @property
    def tolerances(self) -> dict[str, OutputTolerance]:
        """What is expected of each output and changed state, by name."""
        outputs = {f"output {i}": tolerance for i, tolerance in enumerate(self.outputs)}
        return outputs | {f"state {name}": tolerance for name, tolerance in self.state_after.items()}

    @property
    def usable(self) -> bool:
        """Whether the native op meets its own standard here, so that a candidate can be held to it."""
        return not self.own

    @property
    def calls(self) -> int:
        """How many calls of a random reference are compared."""
        elements = max((r.native.numel() for r in self.outputs), default=0)
        return calls_for(elements, searched=self.workload.split is Split.SEARCH)

    @property
    def outputs_bytes(self) -> int:
        """Bytes of one call's outputs."""
        return sum(r.native.nbytes for r in self.outputs)

    @property
    def nbytes(self) -> int:
        """Bytes held, tolerances included."""
        tolerances = (*self.outputs, *self.mutated.values(), *self.state_after.values())
        held = [t for r in tolerances for t in (r.truth, r.native, r.unit, r.allowed) if t is not None]
        right = [t for outputs, _ in self.right for t in outputs]
        return sum(t.nbytes for t in (*held, *right, *self.tensors, *self.state.values()))


class Seeds:
    """Secret seeds, drawn when asked for and recorded; or the recorded ones again, for a replay."""

    def __init__(self, replay: Iterable[int] | None = None) -> None:
        self._replay = None if replay is None else iter(replay)
        self.drawn: list[int] = []

    def draw(self) -> int:
        """Return the next seed; a replay that is used up goes on with new ones."""
        seed = next(self._replay, None) if self._replay is not None else None
        self.drawn.append(secrets.randbits(48) if seed is None else seed)
        return self.drawn[-1]


def _alone_if_small(make: Callable[_P, Case]) -> Callable[_P, Case]:
    """Let one thread make a case of few bytes."""

    @functools.wraps(make)
    def maker(*args: _P.args, **more: _P.kwargs) -> Case:
        size = sum(t.nbytes for t in tree_leaves(args) if isinstance(t, torch.Tensor))
        with one_thread() if size <= _ONE_THREAD_BYTES else nullcontext():
            return make(*args, **more)

    return maker


class Oracle:
    """Makes cases and keeps them, so that many candidates are held to the same expected values.

    Covers: reuse of expected values between candidates of a search, under seeds that no worker has seen.
    Does not cover: acceptance; that draws fresh seeds for every candidate.
    """

    def __init__(self, problem: Problem) -> None:
        """Know nothing yet."""
        self.problem = problem
        self._cases: OrderedDict[tuple[str, int, int], Case] = OrderedDict()
        """By workload, seed of the inputs and seed of the state."""
        self.refusals = Counter[str]()
        """How many candidates each workload refused: those that refused most come first among the hidden ones, and
        before what takes longest on the search ones."""
        self._screen_seed = secrets.randbits(48)
        self._other_mode: Oracle | None = None
        self._relations: dict[str, tuple[Relation, ...]] = {}
        self._sampled_outputs: dict[tuple[str, int], tuple[SampledOutput, ...]] = {}

    def afresh(self) -> "Oracle":
        """Return one that has made no case, for seeds of its own, and shares what was found out about the reference and
        which workloads refused candidates.
        """
        made = Oracle(self.problem)
        made.refusals, made._relations = self.refusals, self._relations
        return made

    @property
    def task(self) -> Task:
        """The task whose answers these are."""
        return self.problem.task

    @property
    def screen_seed(self) -> int:
        """The seed that all screenings of this session share."""
        return self._screen_seed

    def in_other_mode(self, workload: Workload) -> "Oracle":
        """Return the oracle of the reference in the other mode, made once; `workload` shows its facts."""
        if self._other_mode is None:
            self._other_mode = Oracle(in_other_mode(self.problem, workload))
        return self._other_mode

    def case(self, workload: Workload, seed: int) -> Case:
        """Return the case of a workload and a seed, made at most once while it is kept."""
        key = (workload.name, seed, seed)
        if key not in self._cases:
            inputs = self.problem.inputs(workload, seed)
            self._cases[key] = self.make(workload, seed, inputs, self.problem.state(workload, seed))
            self._forget()
        self._cases.move_to_end(key)
        return self._cases[key]

    def sampled_outputs(self, case: Case) -> tuple[SampledOutput, ...]:
        """Return the distribution of each output of a random reference, learnt at most once a case."""
        key = (case.workload.name, case.seed)
        if key not in self._sampled_outputs:
            count = LEARNT + case.calls
            drawn = self.problem.draws(case.workload, case.inputs, case.state, count, case.seed)
            cap = self.task.contract.error_cap
            self._sampled_outputs[key] = tuple(
                learn(calls, case.seed, cap) for calls in zip(*drawn, strict=True)
            )
        return self._sampled_outputs[key]

    def relations(self, workload: Workload) -> tuple[Relation, ...]:
        """Return the relations that hold for the reference on a workload, found once."""
        if workload.name not in self._relations:
            self._relations[workload.name] = discover(self.problem, workload)
        return self._relations[workload.name]

    @_alone_if_small
    def make(
        self,
        workload: Workload,
        seed: int,
        inputs: Sequence[object],
        state: dict[str, torch.Tensor],
        *,
        near: Case | None = None,
        times: int | None = None,
        measured: bool = False,
    ) -> Case:
        """Work out what is right on given inputs and state; not kept.

        Args:
            workload: What is called.
            seed: Where the inputs came from.
            inputs: The arguments, in order.
            state: Parameters and buffers.
            near: A case that differs in a few elements only, whose sensitivity then serves here too.
            times: How many perturbations the sensitivity is averaged over; by the size of the inputs if none.
            measured: Whether plain evaluations in float32 are tried too, and choices between values that rounding does
                not tell apart, and how far they are off is allowed for.
        """
        times = times or _perturbations(inputs)
        native = self.problem.run_reference(workload, inputs, state)
        truth = self.problem.run_oracle(workload, inputs, state)
        contract, exact = self.task.contract, workload.regime == "small-integers"
        changed = [
            k for k, v in native.state.items()
            if k in state and (k in contract.mutates or not same_bits(v, state[k]))
        ]  # fmt: skip
        given = {s.name: a for s, a in zip(workload.arguments, inputs, strict=True)}
        unmoved = {k: a for k in contract.mutates if isinstance(a := given.get(k), torch.Tensor)}
        if near is None:
            called = Called(self.problem, workload, inputs, state, named(truth, changed), seed)
            moved = sensitivity(called, times, measured=measured)
        else:
            kept = {k: t.sensitivity for k, t in near.tolerances.items() if t.sensitivity is not None}
            moved = Sensitivity(kept, {}, near.chooses)
        tensors = [a for a in inputs if isinstance(a, torch.Tensor)]
        finite = all(map(_finite, (*tensors, *native.outputs, *native.state.values())))
        worst_case = () if finite else self.problem.run_worst_case(workload, inputs, state)
        readings = () if finite else (Decomposed(), SkippedZeros())
        others = [self.problem.run_oracle(workload, inputs, state, reading) for reading in readings]
        outputs = tuple(
            output_tolerance(
                t, n, contract, sensitivity=moved.rounding.get(f"output {i}"),
                jumps=moved.jumps.get(f"output {i}"), exact=exact,
                doubts=[w.outputs[i] for w in worst_case], others=[o.outputs[i] for o in others],
            )
            for i, (t, n) in enumerate(zip(truth.outputs, native.outputs, strict=True))
        )  # fmt: skip
        state_after = {
            k: output_tolerance(
                truth.state[k], native.state[k], contract, sensitivity=moved.rounding.get(f"state {k}"),
                jumps=moved.jumps.get(f"state {k}"),
                doubts=[w.state[k] for w in worst_case],
            )
            for k in changed
        }  # fmt: skip
        return Case(
            workload=workload,
            seed=seed,
            inputs=tuple(inputs),
            state=state,
            outputs=outputs,
            mutated={
                k: output_tolerance(truth.mutated.get(k, v), v, contract)
                for k, v in (unmoved | native.mutated).items()
            },
            state_after=state_after,
            own=() if contract.stochastic else tuple(c for r in outputs if not (c := _own(r, tensors)).ok),
            chooses=moved.chooses,
            in_float32=truth.precision == "float32",
            closer=None if near is not None or measured else self._closer(workload, seed, inputs, state),
        )

    def again(self, case: Case, seed: int) -> Case:
        """Return a case of the same workload and state with other inputs; kept like any other."""
        key = (case.workload.name, seed, case.seed)
        if key not in self._cases:
            inputs = self.problem.inputs(case.workload, seed)
            self._cases[key] = self.follow(case, seed, inputs, case.state)
            self._forget()
        return self._cases[key]

    def with_state(self, case: Case, seed: int) -> Case:
        """Return a case of the same inputs with another state; kept unless it would drive out others."""
        key = (case.workload.name, case.seed, seed)
        if key not in self._cases:
            made = self.follow(case, case.seed, case.inputs, self.problem.state(case.workload, seed))
            if made.nbytes > _KEPT_BYTES * _SMALL_SHARE:
                return made
            self._cases[key] = made
            self._forget()
        return self._cases[key]

    @_alone_if_small
    def follow(self, case: Case, seed: int, inputs: Sequence[object], state: dict[str, torch.Tensor]) -> Case:
        """Work out what is right on other values of a case that a candidate was right on already.

        The native output stands for the truth, and each element may be as far from it, relative to its row,
        as the case allows anywhere: enough to see an answer to other values, at a fifth of the cost. Where the
        native op jumps, or is not finite, the whole is worked out.
        """
        if any(r.contested is not None or not r.finite for r in case.outputs):
            return self.make(case.workload, seed, inputs, state)
        native = self.problem.run_reference(case.workload, inputs, state)
        if native.mutated or not all(_finite(o) for o in native.outputs):
            return self.make(case.workload, seed, inputs, state)
        outputs = tuple(loosened(o, r) for o, r in zip(native.outputs, case.outputs, strict=True))
        return Case(
            case.workload, seed, tuple(inputs), state, outputs, {}, {}, (),
            chooses=case.chooses, closer=self._closer(case.workload, seed, inputs, state),
        )  # fmt: skip

    def _closer(
        self, workload: Workload, seed: int, inputs: Sequence[object], state: dict[str, torch.Tensor]
    ) -> Callable[[], Case]:
        """Return what makes, once, the case on given inputs and state with the best estimate of its sensitivity."""
        make = functools.partial(self.make, workload, seed, inputs, state)
        return functools.cache(functools.partial(make, times=_MOST_PERTURBATIONS, measured=True))

    def _forget(self) -> None:
        while len(self._cases) > 1 and sum(c.nbytes for c in self._cases.values()) > _KEPT_BYTES:
            self._cases.popitem(last=False)


def _perturbations(inputs: Sequence[object]) -> int:
    """Return over how many perturbations of these inputs the sensitivity is averaged at first."""
    size = sum(a.nbytes for a in inputs if isinstance(a, torch.Tensor))
    return next((count for most, count in _PERTURBATIONS if size <= most), 1)


def _own(tolerance: OutputTolerance, tensors: Sequence[torch.Tensor]) -> Comparison:
    """Hold the native op to its own standard; by its making it meets it where nothing is odd."""
    if tolerance.plain:
        return Comparison(True)
    return error_against(tolerance.output, tolerance, tensors)


def _finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tell whether two tensors hold the same bits, NaN payloads and signed zeros included.

    Example:
        >>> same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
        False
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.is_complex:
        return same_bits(torch.view_as_real(a), torch.view_as_real(b))
    kind = _INTEGER_OF[a.dtype.itemsize]
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))
