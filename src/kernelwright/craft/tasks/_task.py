"""A task, and the workloads drawn for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..expression import Array, Statement, measure

_DEVIATIONS = {"large": 30.0, "wide": 6.0, "small": 1e-3}
Given = Mapping[str, NDArray[Any]]
Reference = Callable[[Given], NDArray[Any]]
"""Computes the output from the inputs in float64, by other means than the statements."""


@dataclass(frozen=True)
class CraftTask:
    """One problem: make the shortest program that computes `out`."""

    name: str
    """Its name."""
    level: int
    """1: elementwise and reductions; 2: one kernel; 3: several in a row."""
    text: str
    """What is computed, in words, for whoever writes the program."""
    sizes: Mapping[str, tuple[int, int, int]]
    """For each size the least, the largest, and that of the visible workload."""
    arrays: tuple[Array, ...]
    """Inputs, the output `out`, and intermediate values of the compiler."""
    statements: tuple[Statement, ...]
    """What the compiler prints for the baseline."""
    reference: Reference
    """What is right, in float64."""
    exact: bool = False
    """Whether every bit must agree."""
    index: Mapping[str, str] = field(default_factory=dict)
    """Inputs that hold row numbers, with the array whose rows they number."""
    regimes: tuple[str, ...] = ("normal", "large", "negative")
    """Distributions of the inputs."""
    equivalent: tuple[str, ...] = ()
    """Mutants of the statements that compute the same, so that no check can refuse them."""

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Arrays that are given."""
        return tuple(a for a in self.arrays if a.role == "in")

    @property
    def output(self) -> Array:
        """The array that is wanted."""
        return next(a for a in self.arrays if a.role == "out")

    @property
    def most(self) -> dict[str, int]:
        """The largest value of every size."""
        return {name: most for name, (_, most, _) in self.sizes.items()}

    @property
    def work_words(self) -> int:
        """Words of the workspace: room for every intermediate value at the largest sizes, 64 at least."""
        words = sum(
            measure(a.rows, self.most) * measure(a.cols, self.most) for a in self.arrays if a.role == "temp"
        )
        return max(64, words)


@dataclass(frozen=True)
class Workload:
    """Sizes and inputs of one call, with what is right."""

    sizes: dict[str, int]
    """Every size."""
    regime: str
    """Distribution of the inputs."""
    inputs: dict[str, NDArray[np.float32]]
    """Inputs by name, each with rows and columns."""
    expected: NDArray[np.float64]
    """The output in float64."""
    hidden: bool = False
    """Whether the writer of a program learns nothing of it."""


def draw(
    task: CraftTask, seed: int, sizes: Mapping[str, int] | None = None, regime: str = "normal"
) -> Workload:
    """Draw the inputs of a workload.

    Args:
        task: The task.
        seed: Of the inputs.
        sizes: Every size; by default those of the visible workload.
        regime: `normal`, `large`, `wide` or `small` (a deviation of 30, 6 or 0.001), or `negative` (all below zero).
    """
    chosen = dict(sizes or {name: shown for name, (_, _, shown) in task.sizes.items()})
    random = np.random.default_rng([seed, sum(map(ord, task.name))])
    inputs = {a.name: _input(task, a, chosen, regime, random) for a in task.inputs}
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    shape = (measure(task.output.rows, chosen), measure(task.output.cols, chosen))
    with np.errstate(over="ignore"):
        expected = np.asarray(task.reference(wide), np.float64).reshape(shape)
    return Workload(chosen, regime, inputs, expected)


def hidden_workloads(task: CraftTask, seed: int, count: int = 3) -> list[Workload]:
    """Draw workloads that the writer of a program never sees: small, large and odd sizes, every regime in turn."""
    random = np.random.default_rng([seed, 1, sum(map(ord, task.name))])
    found = []
    for number in range(count):
        sizes = {}
        for name, (least, most, _) in task.sizes.items():
            quarter = max(1, (most - least) // 4)
            low, high = ((least, least + quarter), (most - quarter, most), (least, most))[number % 3]
            sizes[name] = int(random.integers(low, high + 1))
        regime = task.regimes[number % len(task.regimes)]
        drawn = draw(task, int(random.integers(1 << 30)), sizes, regime)
        found.append(Workload(drawn.sizes, regime, drawn.inputs, drawn.expected, hidden=True))
    return found


def _input(
    task: CraftTask, array: Array, sizes: Mapping[str, int], regime: str, random: np.random.Generator
) -> NDArray[np.float32]:
    shape = (measure(array.rows, sizes), measure(array.cols, sizes))
    table = task.index.get(array.name)
    if table is not None:
        rows = measure(next(a.rows for a in task.arrays if a.name == table), sizes)
        return random.integers(0, rows, shape).astype(np.float32)
    values = random.standard_normal(shape)
    if regime in _DEVIATIONS:
        values *= _DEVIATIONS[regime]
    elif regime == "negative":
        values = -np.abs(values) - 0.5
    return values.astype(np.float32)
