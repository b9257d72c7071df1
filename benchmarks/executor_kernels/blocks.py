"""Kernels of a block for sm_80: reductions, scans, sorts, tiles."""

from pathlib import Path
from typing import Any

import numpy as np

from .family import BEYOND, BLOCK, RACE, UNWRITTEN, Family, blocks, output, values

SOURCE = Path(__file__).with_suffix(".cu")


def mirror(rng: Any, dtype: Any, n: int) -> Any:
    """Reverse within each block, through shared memory."""
    x, out = values(rng, dtype, n), output(dtype, n)
    padded = np.zeros(blocks(n) * BLOCK, dtype)
    padded[:n] = x
    right = padded.reshape(-1, BLOCK)[:, ::-1].reshape(-1)[:n]
    return blocks(n), [x, out, n], 0, lambda: np.array_equal(out.array, right)


def reduce(rng: Any, dtype: Any, n: int) -> Any:
    """Sum each block in a tree."""
    x, out = values(rng, dtype, n), output(dtype, blocks(n))
    padded = np.zeros(blocks(n) * BLOCK, dtype)
    padded[:n] = x
    return (
        blocks(n),
        [x, out, n],
        BLOCK * x.itemsize,
        lambda: np.array_equal(out.array, padded.reshape(-1, BLOCK).sum(1).astype(dtype)),
    )


def scan(rng: Any, dtype: Any, n: int) -> Any:
    """Inclusive prefix sums of each block."""
    x, out = values(rng, dtype, n), output(dtype, n)
    padded = np.zeros(blocks(n) * BLOCK, dtype)
    padded[:n] = x
    right = np.cumsum(padded.reshape(-1, BLOCK), 1).reshape(-1)[:n].astype(dtype)
    return blocks(n), [x, out, n], 0, lambda: np.array_equal(out.array, right)


def histogram(rng: Any, dtype: Any, n: int) -> Any:
    """Count values, in shared memory first."""
    x, out = rng.integers(0, 1000, n).astype(dtype), np.zeros(32, np.int32)
    right = np.bincount(x.astype(np.int64) & 31, minlength=32)
    return 3, [x, out, n], 0, lambda: np.array_equal(out, right)


def transpose(rng: Any, dtype: Any, n: int) -> Any:
    """Transpose by tiles of 8."""
    rows, columns = n // 8 + 3, 21
    x, out = values(rng, dtype, rows, columns), output(dtype, columns, rows)
    return (
        (-(-columns // 8), -(-rows // 8)),
        [x, out, rows, columns],
        0,
        lambda: np.array_equal(out.array, x.T),
    )


def softmax(rng: Any, dtype: Any, n: int) -> Any:
    """Softmax of rows, one for each block."""
    x, out = values(rng, dtype, 3, n), output(dtype, 3, n)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return 3, [x, out, n], 0, lambda: np.allclose(out.array, e / e.sum(1, keepdims=True), atol=1e-6)


def layernorm(rng: Any, dtype: Any, n: int) -> Any:
    """Normalise rows by sums over shuffles."""
    x, out = values(rng, dtype, 3, n), output(dtype, 3, n)
    d = x.astype(np.float64)
    right = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5)
    return 3, [x, out, n], 0, lambda: np.allclose(out.array, right, atol=1e-4)


def matmul(rng: Any, dtype: Any, n: int) -> Any:
    """Multiply by tiles of 8 that are loaded ahead."""
    m, k, columns = 13, n // 4, 18
    a, b, c = values(rng, dtype, m, k), values(rng, dtype, k, columns), output(dtype, m, columns)
    return (-(-columns // 8), -(-m // 8)), [a, b, c, m, columns, k], 0, lambda: np.array_equal(c.array, a @ b)


def stencil(rng: Any, dtype: Any, n: int) -> Any:
    """Sum neighbours, with a halo in shared memory."""
    x, out = values(rng, dtype, n), output(dtype, n)
    p = np.pad(x, 1)
    return blocks(n), [x, out, n], 0, lambda: np.array_equal(out.array, p[:-2] + p[1:-1] + p[2:])


def gather(rng: Any, dtype: Any, n: int) -> Any:
    """Copy by an index."""
    x, at, out = values(rng, dtype, n), rng.permutation(n).astype(np.int32), output(dtype, n)
    return blocks(n), [x, at, out, n], 0, lambda: np.array_equal(out.array, x[at])


def last_block(rng: Any, dtype: Any, n: int) -> Any:
    """Sum by blocks, whose last one adds up."""
    x, parts, out, done = (
        values(rng, dtype, n),
        output(dtype, blocks(n)),
        output(dtype, 1),
        np.zeros(1, np.int32),
    )
    return blocks(n), [x, parts, out, done, n], 0, lambda: out.array[0] == x.sum().astype(dtype)


def warp_sort(rng: Any, dtype: Any, n: int) -> Any:
    """Sort 64 values by odd and even steps in shared memory."""
    x, out = values(rng, dtype, n // BLOCK, BLOCK), output(dtype, n // BLOCK, BLOCK)
    return n // BLOCK, [x, out], 0, lambda: np.array_equal(out.array, np.sort(x, 1))


FAMILIES = {
    "mirror": Family(SOURCE, mirror, {1: f"{RACE} {UNWRITTEN}", 2: BEYOND, 3: BEYOND}),
    "reduce": Family(SOURCE, reduce, {1: RACE, 2: RACE, 3: BEYOND, 4: BEYOND}, short=4),
    "scan": Family(SOURCE, scan, {1: f"{RACE} {UNWRITTEN}", 2: RACE, 3: RACE}),
    "histogram": Family(
        SOURCE, histogram, {1: RACE, 2: f"{RACE} {UNWRITTEN}", 3: f"{RACE} conflicting-writes", 4: RACE}
    ),
    "transpose": Family(SOURCE, transpose, {1: f"{RACE} {UNWRITTEN}", 2: BEYOND, 3: BEYOND}),
    "softmax": Family(SOURCE, softmax, {1: RACE, 2: RACE, 3: BEYOND}, ("float", "double")),
    "layernorm": Family(
        SOURCE, layernorm, {1: RACE, 2: "lanes-not-there mask-lacks-lane", 3: BEYOND}, ("float", "double")
    ),
    "matmul": Family(SOURCE, matmul, {1: f"{RACE} {UNWRITTEN}", 2: RACE, 3: BEYOND}),
    "stencil": Family(SOURCE, stencil, {1: f"{RACE} {UNWRITTEN}", 2: f"{UNWRITTEN} {BEYOND}", 3: BEYOND}),
    "gather": Family(SOURCE, gather, {1: BEYOND, 2: BEYOND, 3: f"{RACE} conflicting-writes"}),
    "last_block": Family(SOURCE, last_block, {1: f"{RACE} {UNWRITTEN}", 2: f"{RACE} {UNWRITTEN}", 3: BEYOND}),
    "warp_sort": Family(SOURCE, warp_sort, {1: RACE, 2: BEYOND}, sizes=(64, 128, 192, 256, 320)),
}
