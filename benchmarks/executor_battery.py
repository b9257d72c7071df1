"""Right kernels and planted faults in CUDA C++, over types and shapes: what the PTX executor finds, and where it errs.

    python -m benchmarks.executor_battery              # all; needs nvcc and no GPU
    python -m benchmarks.executor_battery --only scan

Each kernel is a template whose argument `F` plants a fault: 0 is the right kernel, k leaves out or spoils the k-th
place that is marked. A right kernel must give numpy's values without a finding under two schedules; a planted fault
must be found under one of them, by a kind that names it.

Covers: figures of docs/executor.md. Does not cover: faults that change values alone, which other checks find.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.executor import Kernel, Module, Options, TensorMap, Uninitialised
from kernelwright.executor.cuda import compile_cuda

SOURCES = {"sm_80": Path(__file__).with_name("executor_battery.cu"),
           "sm_90": Path(__file__).with_name("executor_battery_sm90.cu")}  # fmt: skip
BLOCK = 64
SEEDS = (0, 3)
TYPES = {"half": np.float16, "float": np.float32, "double": np.float64, "int": np.int32}


@dataclass(frozen=True)
class Family:
    """A kernel template: how it is launched, and what is right."""

    launch: Callable[[np.random.Generator, Any, int], tuple[Any, list[Any], int, Callable[[], bool]]]
    """From a generator, a type and a size: grid, arguments, dynamic shared bytes, whether the values are right."""
    faults: dict[int, str]
    """The kinds of finding that each planted fault may be found by."""
    types: tuple[str, ...] = ("float", "double", "int")
    sizes: tuple[int, ...] = (64, 100, 1000, 37, 513)
    target: str = "sm_80"
    """Names the file of its template too."""
    block: int = 0
    """Threads of a block; by default 64, or 8 x 8 where the grid has two dimensions."""


def values(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    """Return small whole numbers, so that sums are exact in every type."""
    return rng.integers(-8, 9, shape).astype(dtype)


def output(dtype: Any, *shape: int) -> Uninitialised:
    """Return an output that holds nothing yet."""
    return Uninitialised(np.zeros(shape, dtype))


def blocks(n: int) -> int:
    """Return how many blocks cover n elements."""
    return -(-n // BLOCK)


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


RACE, BEYOND, UNWRITTEN, UNWAITED = "race", "out-of-bounds", "uninitialised", "copy-not-waited"
FAMILIES = {
    "mirror": Family(mirror, {1: f"{RACE} {UNWRITTEN}", 2: BEYOND, 3: BEYOND}),
    "reduce": Family(reduce, {1: RACE, 2: RACE, 3: BEYOND, 4: BEYOND}),
    "scan": Family(scan, {1: f"{RACE} {UNWRITTEN}", 2: RACE, 3: RACE}),
    "histogram": Family(
        histogram, {1: RACE, 2: f"{RACE} {UNWRITTEN}", 3: f"{RACE} conflicting-writes", 4: RACE}
    ),
    "transpose": Family(transpose, {1: f"{RACE} {UNWRITTEN}", 2: BEYOND, 3: BEYOND}),
    "softmax": Family(softmax, {1: RACE, 2: RACE, 3: BEYOND}, ("float", "double")),
    "layernorm": Family(
        layernorm, {1: RACE, 2: "lanes-not-there mask-lacks-lane", 3: BEYOND}, ("float", "double")
    ),
    "matmul": Family(matmul, {1: f"{RACE} {UNWRITTEN}", 2: RACE, 3: BEYOND}),
    "stencil": Family(stencil, {1: f"{RACE} {UNWRITTEN}", 2: f"{UNWRITTEN} {BEYOND}", 3: BEYOND}),
    "gather": Family(gather, {1: BEYOND, 2: BEYOND, 3: f"{RACE} conflicting-writes"}),
    "last_block": Family(last_block, {1: f"{RACE} {UNWRITTEN}", 2: f"{RACE} {UNWRITTEN}", 3: BEYOND}),
    "warp_sort": Family(warp_sort, {1: RACE, 2: BEYOND}, sizes=(64, 128, 192, 256, 320)),
    "pieces": Family(
        pieces, {1: f"{RACE} {UNWRITTEN}", 2: RACE, 3: BEYOND}, ("half",), target="sm_90", block=32
    ),
    "pipeline": Family(
        pipeline,
        {1: UNWAITED, 2: UNWAITED, 3: RACE, 4: f"{RACE} {UNWAITED}", 5: "copy-left"},
        sizes=(64, 600, 1000, 37, 513),
        target="sm_90",
    ),
    "tiles": Family(
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
        together,
        {1: f"{RACE} {UNWRITTEN}", 2: f"{RACE} block-ended", 3: UNWRITTEN, 4: RACE, 5: BEYOND},
        ("float", "int"),
        target="sm_90",
    ),
    "neighbours": Family(
        neighbours,
        {1: f"{RACE} {UNWRITTEN}", 2: "block-ended", 3: BEYOND},
        ("float", "double", "int"),
        target="sm_90",
    ),
}
FAULT_TYPES = 2
"""How many of a family's types have faults planted."""


def wanted(only: str) -> Iterator[tuple[str, str, int]]:
    """Yield family, type and fault of every kernel."""
    for name, family in FAMILIES.items():
        if only in name:
            yield from ((name, kind, 0) for kind in family.types)
            yield from ((name, kind, fault) for kind in family.types[:FAULT_TYPES] for fault in family.faults)


def judged(kernel: Any, family: Family, kind: str, size: int, fault: int) -> tuple[bool, str]:
    """Return whether the executor is right about a kernel of a size, and what it said."""
    said: set[str] = set()
    for seed in SEEDS:
        grid, arguments, shared, right = family.launch(np.random.default_rng(size), TYPES[kind], size)
        if fault and isinstance(grid, int) and shared:
            shared -= 16 if fault == 4 else 0
        shape = family.block or ((8, 8) if isinstance(grid, tuple) else BLOCK)
        run = kernel(
            grid,
            shape,
            arguments,
            shared_bytes=shared,
            options=Options(seed=seed, deadline_s=60, count=False),
        )
        said |= {f.kind for f in run.findings} | ({run.status} - {"ok"})
        if not fault and not run.findings and not right():
            said.add("wrong values")
    if not fault:
        return not said, ", ".join(sorted(said))
    return bool(said & set(family.faults[fault].split())), ", ".join(sorted(said)) or "nothing"


def compiled(kernels: list[tuple[str, str, int]]) -> dict[str, Kernel]:
    """Compile the templates' instances, all of a target at once."""
    found: dict[str, Kernel] = {}
    for target, source in SOURCES.items():
        lines = [f"INSTANCE({n}, {t}, {f})" for n, t, f in kernels if FAMILIES[n].target == target]
        if lines:
            module = Module.load(compile_cuda("\n".join([source.read_text(), *lines, ""]), target=target))
            module.prepare()
            found |= {name: module[name] for name in module}
    return found


def main(words: list[str]) -> int:
    """Run the battery and print what went wrong, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="families whose name holds this")
    only = parser.parse_args(words).only
    kernels = list(wanted(only))
    known = compiled(kernels)
    counts = {"right": [0, 0], "faults": [0, 0]}
    for name, kind, fault in kernels:
        family = FAMILIES[name]
        full = f"{name}_{kind}_{fault}"
        for size in family.sizes if not fault else family.sizes[1:2]:
            ok, said = judged(known[full], family, kind, size, fault)
            found = counts["faults" if fault else "right"]
            found[0] += ok
            found[1] += 1
            if not ok:
                print(f"{full} at {size}: {said}")
    (right, of_right), (found, of_faults) = counts["right"], counts["faults"]
    made = sum(not fault for *_, fault in kernels)
    print(
        f"right kernels: {right} of {of_right} launches right and without a finding: {made} kernels over sizes"
    )
    print(f"planted faults: {found} of {of_faults} found")
    return 0 if (right, found) == (of_right, of_faults) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
