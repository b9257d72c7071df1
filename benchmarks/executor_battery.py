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
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kernelwright.executor import Kernel, Module, Options
from kernelwright.executor.cuda import compile_cuda

from .executor_kernels import FAMILIES
from .executor_kernels.family import BLOCK, TYPES, Family

SEEDS = (0, 3)
FAULT_TYPES = 2
"""How many of a family's types have faults planted."""


def wanted(only: str) -> Iterator[tuple[str, str, int]]:
    """Yield family, type and fault of every kernel."""
    for name, family in FAMILIES.items():
        if only in name:
            yield from ((name, kind, 0) for kind in family.types)
            yield from ((name, kind, fault) for kind in family.types[:FAULT_TYPES] for fault in family.faults)


def judged(kernel: Kernel, family: Family, kind: str, size: int, fault: int) -> tuple[bool, str]:
    """Return whether the executor is right about a kernel of a size, and what it said."""
    said: set[str] = set()
    for seed in SEEDS:
        grid, arguments, shared, right = family.launch(np.random.default_rng(size), TYPES[kind], size)
        shared -= 16 if fault and fault == family.short else 0
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
    """Compile the templates' instances, all of a source at once."""
    found: dict[str, Kernel] = {}
    lines: dict[tuple[Path, str], list[str]] = {}
    for name, kind, fault in kernels:
        family = FAMILIES[name]
        lines.setdefault((family.source, family.target), []).append(f"INSTANCE({name}, {kind}, {fault})")
    for (source, target), instances in lines.items():
        module = Module.load(compile_cuda("\n".join([source.read_text(), *instances, ""]), target=target))
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
    (right, of_right), (hit, of_faults) = counts["right"], counts["faults"]
    made = sum(not fault for *_, fault in kernels)
    print(
        f"right kernels: {right} of {of_right} launches right and without a finding: {made} kernels over sizes"
    )
    print(f"planted faults: {hit} of {of_faults} found")
    return 0 if (right, hit) == (of_right, of_faults) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
