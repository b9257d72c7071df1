"""How far the Triton printer gets: printed, right in the interpreter, compiled for GPUs that need not be here.

    python -m benchmarks.triton_coverage own [--level 1] [--only softmax] [--out rows.jsonl]
    python -m benchmarks.triton_coverage path/to/KernelBench [--json]
    python -m benchmarks.triton_coverage random --count 2000 [--first 100000]

A problem is printed twice: shrunk to `--max-elements`, run in the interpreter and held against the reference in
float64, and at its declared sizes, compiled for sm_90 and gfx942. `error` is the largest difference, relative to
the largest value of its output; `native` are the operations that stay with torch. A row is written to `--out` as soon
as it is known, and rows that are there already are not made again. None of this says anything about time.

`random` is the nightly command: random programs through the interpreter, each with lanes over rows and over
points; one that fails is printed, cut down to the first step that differs, and the exit code is 1.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernelwright.compiler.graph import read
from kernelwright.compiler.lower import lower
from kernelwright.compiler.printers import triton
from kernelwright.errors import KernelwrightError
from kernelwright.languages import get_language
from kernelwright.languages.triton import Triton
from kernelwright.records import Candidate, Split
from kernelwright.tasks import Problem, load_task
from kernelwright.testing import RandomProgram, random_program

from .coverage import folder_of, read_rows
from .problems import problems
from .random_graphs import case_of, smallest

Row = dict[str, Any]
TARGETS = ("sm_90", "gfx942")
ALLOWED = 2e-5
"""Relative error that float32 in another order explains; more where torch's own is more."""
LAYOUTS: tuple[dict[str, str | int], ...] = ({}, {"lanes": "inner", "block": 64})
DTYPES = ("float32", "float16", "int64", "bool")
"""Of random programs; the interpreter is wrong on bfloat16."""


def run_printed(candidate: Candidate, arguments: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """Run a candidate in the interpreter, or on the GPU where there is one; results lie on the CPU.

    In the interpreter, lanes without an element compute nonsense, and say so to no one.
    """
    function = Triton().load(candidate, Path(), ())
    if torch.cuda.is_available():
        arguments = [a.cuda() if isinstance(a, torch.Tensor) else a for a in arguments]
    with np.errstate(all="ignore"):
        found = function(*arguments)
    return tuple(t.cpu() for t in (found if isinstance(found, tuple) else (found,)))


def fault(program: RandomProgram, **choice: str | int) -> str | None:
    """Say how a printed random program differs from the graph's meaning; none where not, or where it has no form."""
    try:
        case = case_of(program)
        candidate = triton.render(lower(case.graph), case.graph, parameters=choice)
        return case.difference(run_printed(candidate, [t.contiguous() for t in case.inputs]))
    except triton.Unprintable:
        return None
    except Exception as error:  # noqa: BLE001 - any exception is the finding
        return f"{type(error).__name__}: {error}"


def examine(path: Path, level: int, max_elements: int) -> Row:
    """Take one problem as far as it goes."""
    row: Row = {"level": level, "problem": path.stem, "why": ""}
    for stage in (_print_and_compile, _interpret):
        try:
            stage(row, path, max_elements)
        except KernelwrightError as error:
            row["why"] = row["why"] or str(error).splitlines()[0]
        except Exception as error:  # noqa: BLE001 - a problem that breaks the printer is a row, not the end
            row["why"] = row["why"] or f"{type(error).__name__}: {str(error).strip()[:200]}"
    return row


def _printed(problem: Problem) -> tuple[Candidate, int]:
    graph = read(problem)
    program = lower(graph)
    return triton.render(program, graph, title=problem.task.name), len(program.natives)


def _print_and_compile(row: Row, path: Path, _: int) -> None:
    candidate, row["native"] = _printed(Problem(load_task(path)))
    row["kernels"] = candidate.sources[0].text.count("'kernel': ")
    build = get_language("triton").build(candidate, deadline_s=600)
    for target in TARGETS:
        for fact in ("registers", "spill_bytes", "shared_bytes"):
            row[f"{target}.{fact}"] = build.evidence.get(f"{target}.{fact}")
    row["findings"] = list(build.findings)


def _interpret(row: Row, path: Path, max_elements: int) -> None:
    problem = _shrunk(path, max_elements)
    workload = problem.task.split(Split.SEARCH)[0]
    inputs, state = problem.inputs(workload, 0), problem.state(workload, 0)
    right = problem.run_oracle(workload, inputs, state).outputs
    own = problem.run_reference(workload, inputs, state).outputs
    candidate, _ = _printed(problem)
    got = run_printed(candidate, [*inputs, *(state[s.name] for s in workload.state)])
    row["error"] = max(map(_off, got, right))
    row["allowed"] = max(ALLOWED, 8 * max(map(_off, own, right)))


def _shrunk(path: Path, max_elements: int) -> Problem:
    """Shrink a problem as far as it goes, at most to so many elements."""
    for factor in (1, 2, 4, 16, 64):
        try:
            return Problem(load_task(path, max_elements=factor * max_elements))
        except KernelwrightError:
            continue
    return Problem(load_task(path))


def _off(got: torch.Tensor, right: torch.Tensor) -> float:
    if got.shape != right.shape:
        return float("inf")
    if not got.dtype.is_floating_point:
        return float((got != right).sum())
    largest = right.double().abs().max().clamp_min(1e-30) if right.numel() else 1.0
    return float(((got.double() - right.double()).abs() / largest).max()) if right.numel() else 0.0


def right_of(row: Row) -> bool:
    """Tell whether the interpreter's answer is right."""
    return "error" in row and row["error"] <= row["allowed"]


def clean_of(row: Row) -> bool:
    """Tell whether a problem compiles for both GPUs, and nothing spills."""
    return all(row.get(f"{t}.spill_bytes") == 0 for t in TARGETS)


def table(rows: Sequence[Row]) -> str:
    """Return the table: a line a problem, then the counts."""
    lines = [
        f"{'problem':44} {'kernels':>7} {'native':>6} {'error':>8}  {'sm_90 regs, spill':>18} {'gfx942':>12}  why"
    ]
    for row in rows:
        facts = [
            f"{row[f'{t}.registers']}, {row[f'{t}.spill_bytes']}"
            if row.get(f"{t}.registers") is not None
            else "-"
            for t in TARGETS
        ]
        error = f"{row['error']:.1e}" if "error" in row else "-"
        name = f"{row['level']}/{row['problem']}"[:44]
        lines.append(
            f"{name:44} {row.get('kernels', '-'):>7} {row.get('native', '-'):>6} {error:>8}  "
            f"{facts[0]:>18} {facts[1]:>12}  {row['why'][:80]}"
        )
    printed = [r for r in rows if "kernels" in r]
    lines.append(
        f"{len(rows)} problems: {len(printed)} printed, {sum(map(right_of, rows))} right in the interpreter, "
        f"{sum(map(clean_of, rows))} compile for {' and '.join(TARGETS)} without spills"
    )
    return "\n".join(lines)


def main() -> int:
    """Examine what is missing, then print the table; or run random programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", help="'own', 'random', or a folder with level1, level2, level3")
    parser.add_argument("--level", type=int)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--max-elements", type=float, default=2e4)
    parser.add_argument("--out", type=Path, help="JSON lines file to add rows to, and to go on from")
    parser.add_argument("--json", action="store_true", help="print rows as JSON lines instead of the table")
    parser.add_argument("--first", type=int, default=100_000, help="first seed of random programs")
    parser.add_argument("--count", type=int, default=500, help="how many random programs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.target == "random":
        return _random(range(options.first, options.first + options.count))
    rows = read_rows(options.out)
    done = {(r["level"], r["problem"]) for r in rows}
    for level, path in problems(folder_of(options.target), options.level):
        if options.only not in path.stem or (level, path.stem) in done:
            continue
        rows.append(row := examine(path, level, int(options.max_elements)))
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"{level}/{path.stem}: {row['why'] or 'done'}", file=sys.stderr, flush=True)
    print("\n".join(map(json.dumps, rows)) if options.json else table(rows))
    return 0


def _random(seeds: Sequence[int]) -> int:
    failed = 0
    for seed in seeds:
        for choice in LAYOUTS:
            program = random_program(seed, dtypes=DTYPES)
            if fault(program, **choice) is not None:
                failed += 1
                part, why = smallest(program, lambda p, chosen=choice: fault(p, **chosen))  # type: ignore[misc]  # bound at once
                print(f"seed {seed}, {choice}: {why}\n{part}", flush=True)
    print(f"{len(seeds)} programs, {failed} printed wrongly")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
