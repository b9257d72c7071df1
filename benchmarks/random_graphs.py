"""Random programs through the schedule engine, held against float64: the nightly command; tests run a few.

    python -m benchmarks.random_graphs --count 20000 [--first 100000] [--steps 10] [--recurrent]

Every program is captured, read into graph form and interpreted in float64, and torch's own results must
agree with that. One that does not is printed as source, cut down to the first step that differs, and the
exit code is 1. The same seeds give the same programs anywhere.
"""

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from kernelwright.compiler.actions import (
    MOVES,
    Action,
    Commute,
    Drop,
    Hoist,
    Narrow,
    Reassociate,
    Segments,
    Single,
    SinglePass,
    State,
    Store,
    Turn,
    TwoPasses,
    taken,
)
from kernelwright.compiler.graph import Graph, from_captured, interpret
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import capture, record_function
from kernelwright.testing import RandomProgram, random_program

FACTOR = 8.0
"""Times torch's own error that a fair computation may be off."""
FLOOR, HALF_FLOOR = 64.0, 8.0
"""Epsilons of float32, and of the coarsest dtype on the way, relative to the largest value on the way: so
much a fair computation may always be off."""
DRAWN: tuple[Action, ...] = (
    SinglePass(), TwoPasses(), Drop(), Hoist(), Reassociate(), Commute(), Segments(), Single(), Turn(), Narrow(),
    Store(), *MOVES,
)  # fmt: skip
"""Actions that programs are changed by at random."""


@dataclass(frozen=True)
class Case:
    """A program and everything that judges an answer to it."""

    program: RandomProgram
    graph: Graph
    inputs: list[torch.Tensor]
    native: tuple[torch.Tensor, ...]
    """Torch's results; they set shapes, dtypes and the error that is fair."""
    truth: tuple[torch.Tensor, ...]
    """What the graph means in float64."""

    @cached_property
    def floor(self) -> float:
        """Return the error that is always allowed."""
        floats = [n for n in self.graph.nodes if getattr(torch, n.dtype).is_floating_point]
        coarsest = max((torch.finfo(getattr(torch, n.dtype)).eps for n in floats), default=0.0)
        met = interpret(replace(self.graph, outputs=tuple(floats)), self.inputs)
        largest = max((_most(t[t.isfinite()]) for t in met), default=0.0)
        return largest * max(FLOOR * torch.finfo(torch.float32).eps, HALF_FLOOR * coarsest)

    def difference(self, got: Sequence[torch.Tensor]) -> str | None:
        """Say how results differ from the truth by more than torch's own error explains; none where not."""
        for i, (one, right, own) in enumerate(zip(got, self.truth, self.native, strict=True)):
            if one.shape != own.shape:
                return f"result {i} has shape {tuple(one.shape)}, not {tuple(own.shape)}"
            if not own.dtype.is_floating_point:
                wrong = int((one.long() != own.long()).sum())
                if wrong:
                    return f"result {i}: {wrong} of {own.numel()} elements differ from torch's"
                continue
            off, fair = (_most(t.double() - right) for t in (one, own))
            most = max(FACTOR * fair, self.floor)
            if math.isnan(off) or off > most:
                return f"result {i} is off by {off:.3g}; allowed is {most:.3g}"
        return None


class _Problem:
    """As much of a problem as capture needs."""

    def __init__(self, program: RandomProgram) -> None:
        self._program = program

    def reference(self, workload: Workload) -> Callable[..., object]:  # noqa: ARG002
        return self._program.function

    def inputs(self, workload: Workload, seed: int) -> list[torch.Tensor]:  # noqa: ARG002
        return self._program.inputs()


def case_of(program: RandomProgram, *, exported: bool = False) -> Case:
    """Capture, read and interpret; recorded while it runs, which takes a tenth of the time of an export.

    Raises:
        NotInterpreted: the graph form has no word for a step.
    """
    inputs = program.inputs()
    specs = tuple(
        TensorSpec(name=f"x{i}", shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
        for i, t in enumerate(inputs)
    )
    workload, problem = Workload(name="random", arguments=specs), _Problem(program)
    found = (
        capture(problem, workload)  # type: ignore[arg-type]  # as much of a problem as capture needs
        if exported
        else record_function(program.function, workload, inputs)
    )
    graph = from_captured(found, workload)
    native = program.function(*inputs)
    native = native if isinstance(native, tuple) else (native,)
    return Case(program, graph, inputs, native, tuple(interpret(graph, inputs)))


def reading_fault(program: RandomProgram, *, exported: bool = False) -> str | None:
    """Say what is wrong with how a program is read: torch must agree with the graph's meaning."""
    try:
        case = case_of(program, exported=exported)
    except Exception as error:  # noqa: BLE001 - any exception is the finding
        return f"{type(error).__name__}: {error}"
    for right, own in zip(case.truth, case.native, strict=True):
        if own.dtype.is_floating_point and not _most(own.double() - right) <= case.floor:
            return f"torch is off by {_most(own.double() - right):.3g} from the graph's meaning"
    return case.difference(case.truth)


def drawn(state: State, seed: int, most: int = 3, actions: Sequence[Action] = DRAWN) -> State:
    """Take up to so many legal actions at random, every kind as likely as another.

    What no longer lowers is left: a graph that is rewritten may have other kernels than moves before it named.
    """
    chance = random.Random(seed)
    for _ in range(most):
        legal = [(action, site) for action in actions for site in action.sites(state)]
        if not legal:
            break
        name = chance.choice(sorted({action.name for action, _ in legal}))
        new = taken(state, *chance.choice([found for found in legal if found[0].name == name]))
        state = state if new.program is None else new
    return state


def smallest(
    program: RandomProgram, fault: Callable[[RandomProgram], str | None]
) -> tuple[RandomProgram, str]:
    """Cut a failing program down to the first step that fails."""
    for part in (*program.prefixes(), program):
        if (why := fault(part)) is not None:
            return part, why
    return program, "it fails only sometimes"


def _most(tensor: torch.Tensor) -> float:
    return tensor.double().abs().max().item() if tensor.numel() else 0.0


def main() -> None:
    """Run the seeds asked for and print what fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=100_000)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--recurrent", action="store_true", help="begin with a recurrent layer")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for seed in range(options.first, options.first + options.count):
        program = random_program(seed, steps=options.steps, recurrent=options.recurrent)
        if reading_fault(program) is not None:
            failed += 1
            part, why = smallest(program, reading_fault)
            print(f"seed {seed}: {why}\n{part}", flush=True)
    print(f"{options.count} programs, {failed} read wrongly")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
