"""Which sizes of a workload may change, and how the sizes of its arguments follow.

Covers: axes that hidden or confirm workloads change, those that move together as one symbol; sizes that a guard can
read off a call, `scale * symbol + offset`.
Does not cover: sizes made of several symbols; those of a module's parameters; constants that mean something else to the
reference at another size. Such a symbol stays as it is, and `notes` say why.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ...errors import TaskError
from ...records import ScalarSpec, SizeOf, TensorSpec, Workload
from .._problem import Problem
from ._shrink import workload_elements

_MOST_SAMPLES = 3
_MOST_RUN = 1 << 26
"""Elements of a workload above which the reference is not run here."""
Specs = tuple[TensorSpec | ScalarSpec, ...]


@dataclass(frozen=True)
class Symbol:
    """One size that may change; in the KernelBench form several constants that are always equal."""

    name: str
    axes: tuple[str, ...]
    value: int
    """As the workload has it."""


class Symbols:
    """The sizes of one workload that may change.

    Example:
        >>> from kernelwright.tasks import load_task
        >>> problem = Problem(load_task("examples/rmsnorm_residual.py"))
        >>> found = Symbols(problem, problem.task.workloads[0])
        >>> [symbol.name for symbol in found.free]
        ['tokens', 'hidden']
    """

    def __init__(self, problem: Problem, workload: Workload) -> None:
        self._problem, self.workload = problem, workload
        self._base = (*workload.arguments, *workload.state)
        self._sizes: list[list[SizeOf | None]] = [
            [None] * len(spec.shape) if isinstance(spec, TensorSpec) else [] for spec in self._base
        ]
        notes: list[str] = []
        free: list[Symbol] = []
        for axes in _groups(problem, workload):
            symbol, why = self._read(axes)
            if why:
                notes.append(f"{symbol.name} stays {symbol.value}: {why}")
            else:
                free.append(symbol)
        self.free = tuple(free)
        """Those that may change."""
        self.notes = tuple(notes)
        """Why others stay as they are."""

    @property
    def arguments(self) -> tuple[tuple[SizeOf | None, ...], ...]:
        """How the axes of each argument, then of each state tensor, follow; none for those that stay."""
        return tuple(tuple(sizes) for sizes in self._sizes)

    def at(self, values: Mapping[str, int]) -> Workload | None:
        """Return the workload with some symbols at other values; none where the reference does not take them."""
        axes = {axis: values[s.name] for s in self.free if s.name in values for axis in s.axes}
        return self._at(axes)

    def _at(self, axes: Mapping[str, int]) -> Workload | None:
        try:
            return self._problem.at(self.workload, axes)
        except TaskError:
            return None

    def _read(self, axes: tuple[str, ...]) -> tuple[Symbol, str]:
        """Return a symbol, and why it has to stay as it is; nothing where it may change."""
        value = self.workload.axes[axes[0]]
        symbol = Symbol(axes[0], axes, value)
        wanted = dict.fromkeys((value + 1, max(1, value // 2), 2 * value, value + 8, max(1, value - 1)))
        samples: dict[int, Workload] = {}
        for other in wanted:
            found = self._at(dict.fromkeys(axes, other)) if other != value else None
            if found is not None and len(samples) < _MOST_SAMPLES:
                samples[other] = found
        if len(samples) < 2:
            return symbol, "the reference takes hardly another value"
        changed = _followed(self._base, value, samples)
        if isinstance(changed, str):
            return symbol, changed
        if any(self._sizes[i][axis] is not None for i, axis in changed):
            return symbol, "a size is made of it and of another symbol"
        arguments = len(self.workload.arguments)
        if self._problem.task.reference.style == "module" and any(i >= arguments for i, _ in changed):
            return symbol, "it is a size of parameters, with which the module is made"
        if not self._means_the_same(samples):
            return symbol, "the reference computes something else at another value"
        if axes[0].startswith("get_inputs."):
            place = next(iter(changed))
            symbol = Symbol(f"{self._base[place[0]].name}[{place[1]}]", axes, value)
        for (i, axis), (scale, offset) in changed.items():
            self._sizes[i][axis] = SizeOf(symbol=symbol.name, scale=scale, offset=offset)
        return symbol, ""

    def _means_the_same(self, samples: Mapping[int, Workload]) -> bool:
        """Tell whether the reference as declared computes at other sizes what it does with these sizes in its text."""
        problem, base = self._problem, self.workload
        own = problem.sources(base).key
        for sample in sorted(samples.values(), key=workload_elements)[:2]:
            if problem.sources(sample).key == own:
                continue
            if workload_elements(sample) > _MOST_RUN:
                return False
            inputs, state = problem.inputs(sample, 0), problem.state(sample, 0)
            try:
                declared = problem.run_reference(base, inputs, state).outputs
                there = problem.run_reference(sample, inputs, state).outputs
            except Exception:  # noqa: BLE001  the user's reference may raise anything at a size it does not know
                return False
            if len(declared) != len(there) or not all(map(_same, declared, there)):
                return False
        return True


def _groups(problem: Problem, workload: Workload) -> list[tuple[str, ...]]:
    """Group the axes that the task's workloads change, those together that are the same in all of them."""
    alike = [w for w in problem.task.workloads if w.axes.keys() == workload.axes.keys()]
    columns: dict[tuple[int, ...], list[str]] = {}
    for name in workload.axes:
        columns.setdefault(tuple(w.axes[name] for w in alike), []).append(name)
    return [tuple(names) for column, names in columns.items() if len(set(column)) > 1]


def _followed(
    base: Specs, value: int, samples: Mapping[int, Workload]
) -> dict[tuple[int, int], tuple[int, int]] | str:
    """Return scale and offset of each axis that changes, by argument and axis, or why a guard cannot tell."""
    changed: dict[tuple[int, int], tuple[int, int]] = {}
    for other, sample in samples.items():
        specs = (*sample.arguments, *sample.state)
        if len(specs) != len(base):
            return "another number of arguments"
        for i, (before, after) in enumerate(zip(base, specs, strict=True)):
            if isinstance(before, ScalarSpec) or isinstance(after, ScalarSpec):
                if before != after:
                    return f"{before.name} takes another value with it"
                continue
            if (before.dtype, len(before.shape)) != (after.dtype, len(after.shape)):
                return f"{before.name} has another dtype or rank with it"
            for axis, (was, is_) in enumerate(zip(before.shape, after.shape, strict=True)):
                scale, rest = divmod(is_ - was, other - value)
                if (
                    rest
                    or changed.setdefault((i, axis), (scale, was - scale * value))[0] != scale
                    or scale < 0
                ):
                    return f"axis {axis} of {before.name} is no multiple of it"
    return {place: of for place, of in changed.items() if of[0]} or "no argument shows it"


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, equal_nan=True)
