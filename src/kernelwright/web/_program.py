"""A program for the browser: tensors by number, and steps that read and write them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""What JSON holds."""
Role = Literal["input", "state", "constant", "between", "output"]


@dataclass(frozen=True)
class Tensor:
    """One float32 tensor, contiguous."""

    role: Role
    """`input` and `state` are filled from the case, `constant` from `values`."""
    elements: int
    """How many floats it holds."""
    name: str = ""
    """The argument's name, or the state's key."""
    values: tuple[float, ...] = ()
    """Of a constant."""


@dataclass(frozen=True)
class Step:
    """One kernel: a `kind` of `jit/operators.mjs` with its sizes, which are part of the code that is made."""

    kind: str
    """`rows`, `matmul`, `conv`, `pool`, `attention` or `copy`."""
    sizes: dict[str, Plain]
    """What the kernel is made from; equal sizes share what tuning found."""
    inputs: tuple[int, ...]
    """Numbers of the tensors that it reads."""
    outputs: tuple[int, ...]
    """Numbers of the tensors that it writes."""


@dataclass
class Program:
    """Steps in the order in which they run."""

    tensors: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    """Numbers of the tensors that are the results, in order."""

    def new(self, role: Role, shape: Sequence[int], name: str = "", values: Sequence[float] = ()) -> int:
        """Add a tensor and return its number."""
        self.tensors.append(Tensor(role, math.prod(shape), name, tuple(values)))
        return len(self.tensors) - 1

    def plain(self) -> dict[str, Plain]:
        """Return it as JSON; constants' values stand among the data of the page."""
        tensors: list[Plain] = [
            {"role": t.role, "elements": t.elements, "name": t.name} for t in self.tensors
        ]
        steps: list[Plain] = [
            {"kind": s.kind, **s.sizes, "inputs": list(s.inputs), "outputs": list(s.outputs)}
            for s in self.steps
        ]
        return {"tensors": tensors, "steps": steps, "outputs": list(self.outputs)}
