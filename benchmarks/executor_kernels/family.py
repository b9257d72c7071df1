"""What a kernel template is given, and what is right: whole numbers, so that sums are exact in every type."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.executor import Uninitialised

BLOCK = 64
TYPES = {"half": np.float16, "float": np.float32, "double": np.float64, "int": np.int32}
RACE, BEYOND, UNWRITTEN, UNWAITED = "race", "out-of-bounds", "uninitialised", "copy-not-waited"
Launch = tuple[Any, list[Any], int, Callable[[], bool]]
"""Grid, arguments, dynamic shared bytes, whether the values are right."""


@dataclass(frozen=True)
class Family:
    """A kernel template: how it is launched, and what is right."""

    source: Path
    """Where the template stands."""
    launch: Callable[[np.random.Generator, Any, int], Launch]
    """From a generator, a type and a size."""
    faults: dict[int, str]
    """The kinds of finding that each planted fault may be found by."""
    types: tuple[str, ...] = ("float", "double", "int")
    sizes: tuple[int, ...] = (64, 100, 1000, 37, 513)
    target: str = "sm_80"
    short: int = 0
    """The fault that consists in 16 bytes too little of dynamic shared memory."""
    block: int = 0
    """Threads of a block; by default 64, or 8 x 8 where the grid has two dimensions."""


def values(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    """Return small whole numbers."""
    return rng.integers(-8, 9, shape).astype(dtype)


def output(dtype: Any, *shape: int) -> Uninitialised:
    """Return an output that holds nothing yet."""
    return Uninitialised(np.zeros(shape, dtype))


def blocks(n: int, each: int = BLOCK) -> int:
    """Return how many blocks cover n elements."""
    return -(-n // each)


def padded(x: Any, each: int, beyond: Any = 0) -> Any:
    """Return the values of a block in each row, filled up behind the last."""
    whole = np.full(blocks(x.size, each) * each, beyond, x.dtype)
    whole[: x.size] = x
    return whole.reshape(-1, each)
