"""Kernels that need sm_90, and matrices: copies ahead, bulk copies, clusters."""

from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.executor import TensorMap

from .family import BEYOND, BLOCK, RACE, UNWAITED, UNWRITTEN, Family, blocks, output, values

SOURCE = Path(__file__).with_suffix(".cu")


def pieces(rng: Any, dtype: Any, n: int) -> Any:
    """Multiply by pieces of 16 x 16, a warp each."""
    k, rows = max(n // 16, 1) * 16, 3
    a, b, c = values(rng, dtype, rows * 16, k), values(rng, dtype, 16, k), output(np.float32, rows * 16, 16)
    right = a.astype(np.float32) @ b.T.astype(np.float32)
    return rows, [a, b, c, k], 0, lambda: np.array_equal(c.array, right)


def pipeline(rng: Any, dtype: Any, n: int) -> Any:
    """Add tiles up that are copied ahead of their use."""
    x, out = values(rng, dtype, 2, n // BLOCK + 1, BLOCK), output(dtype, 2, BLOCK)
    return 2, [x, out, x.shape[1]], 0, lambda: np.array_equal(out.array, x.sum(1)[:, ::-1].astype(dtype))


def tiles(rng: Any, dtype: Any, n: int) -> Any:
    """Double a matrix by tiles that tensor maps copy, some of which lie partly outside."""
    x = values(rng, dtype, n // 8 + 3, 36)
    right = 2 * x
    return (3, -(-len(x) // 8)), [TensorMap(x, (8, 16))], 0, lambda: np.array_equal(x, right)


def together(rng: Any, dtype: Any, n: int) -> Any:
    """Add two blocks up in one's shared memory."""
    x, out = values(rng, dtype, blocks(n), 2 * BLOCK), output(dtype, blocks(n))
    return 2 * blocks(n), [x, out], 0, lambda: np.array_equal(out.array, x.sum(1).astype(dtype))


def neighbours(rng: Any, dtype: Any, n: int) -> Any:
    """Mirror the values of the other block of a cluster."""
    x, out = values(rng, dtype, blocks(n), 2, BLOCK), output(dtype, blocks(n), 2, BLOCK)
    return 2 * blocks(n), [x, out], 0, lambda: np.array_equal(out.array, x[:, ::-1, ::-1])


FAMILIES = {
    "pieces": Family(
        SOURCE, pieces, {1: f"{RACE} {UNWRITTEN}", 2: RACE, 3: BEYOND}, ("half",), target="sm_90", block=32
    ),
    "pipeline": Family(
        SOURCE,
        pipeline,
        {1: UNWAITED, 2: UNWAITED, 3: RACE, 4: f"{RACE} {UNWAITED}", 5: "copy-left"},
        sizes=(64, 600, 1000, 37, 513),
        target="sm_90",
    ),
    "tiles": Family(
        SOURCE,
        tiles,
        {
            1: "deadlock",
            2: "deadlock",
            3: UNWAITED,
            4: "proxy-fence-missing",
            5: f"{RACE} proxy-fence-missing",
            6: f"{RACE} {UNWRITTEN}",
            7: "copy-left",
        },
        ("float", "int"),
        target="sm_90",
        block=128,
    ),
    "together": Family(
        SOURCE,
        together,
        {1: f"{RACE} {UNWRITTEN}", 2: f"{RACE} block-ended", 3: UNWRITTEN, 4: RACE, 5: BEYOND},
        ("float", "int"),
        target="sm_90",
    ),
    "neighbours": Family(
        SOURCE,
        neighbours,
        {1: f"{RACE} {UNWRITTEN}", 2: "block-ended", 3: BEYOND},
        ("float", "double", "int"),
        target="sm_90",
    ),
}
