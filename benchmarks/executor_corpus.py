"""Right kernels and planted faults of many sources through the PTX executor, counted one by one, rows kept.

    python -m benchmarks.executor_corpus --out rows.jsonl [--only cuda|faults|triton|printed]
    python -m benchmarks.executor_corpus --out rows.jsonl --count

Sources: the CUDA C++ templates of `executor_kernels` over types, CUB's own among them (`cuda`), the same with faults
planted (`faults`), Triton kernels over types, for sm_80 and sm_90 (`triton`), and what the compiler prints in Triton
for the own problems, shrunk, for the same (`printed`). A kernel counts once, however many launches and sizes it is run
at; kernels with the same PTX are one.

A right kernel must give the reference's values (float64, or whole numbers exactly) without a finding. A planted fault
must be found by a kind that names it. Rows that are in `--out` already are not made again. The exit code is 0 where
all kernels are right, nothing was found in them, and all but one in twenty of the faults were found.

Covers: values and findings. Does not cover: times; printed kernels of problems that the compiler leaves to torch.
"""

import argparse
import hashlib
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.executor import Options
from kernelwright.executor import triton as executed
from kernelwright.languages.torch import load_symbol
from kernelwright.records import Split

from . import executor_battery as battery
from .coverage import read_rows
from .executor_kernels import FAMILIES
from .problems import problems

Row = dict[str, Any]
SOURCES = ("cuda", "faults", "triton", "printed")
MOST_ELEMENTS = 4000
TARGETS = (80, 90)


def of_templates(done: set[str], faults: bool) -> Iterator[Row]:
    """Yield a row for each instance of the templates, right or with a fault."""
    source = "faults" if faults else "cuda"
    wanted = [
        (name, kind, fault) for name, kind, fault in battery.wanted("")
        if bool(fault) == faults and f"{source}/{name}/{kind}/{fault}" not in done
    ]  # fmt: skip
    known = battery.compiled(wanted)
    for name, kind, fault in wanted:
        family, kernel = FAMILIES[name], known[f"{name}_{kind}_{fault}"]
        sizes = family.sizes[1:2] if fault else family.sizes
        judged = [battery.judged(kernel, family, kind, size, fault) for size in sizes]
        said = {s for _, words in judged for s in words.split(", ")} - {"", "nothing"}
        row: Row = {"key": f"{source}/{name}/{kind}/{fault}", "source": source, "kernels": [kernel.name]}
        row |= {"launches": len(judged) * len(battery.SEEDS), "said": sorted(said)}
        yield row | {"ok": all(ok for ok, _ in judged)}


def name_of(name: str, text: str) -> str:
    """Return a name that is the same for the same kernel only."""
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@contextmanager
def watched(target: int) -> Iterator[tuple[list[Any], dict[str, str]]]:
    """Execute Triton's launches in the block; yields their executions and the PTX of each kernel."""
    seen: dict[str, str] = {}
    before = executed.compile_triton

    def compiled(*arguments: Any, **settings: Any) -> Any:
        made = before(*arguments, **settings)
        seen[name_of(made.name, made.ptx)] = made.ptx
        return made

    executed.compile_triton = compiled
    try:
        with executed.executing(target=target, options=Options(deadline_s=60, count=False)) as runs:
            yield runs, seen
    finally:
        executed.compile_triton = before


def of_triton(done: set[str]) -> Iterator[Row]:
    """Yield a row for each Triton kernel, by type and target, in two schedules."""
    from .executor_kernels.triton_cases import CASES, launches

    for target in TARGETS:
        for name, dtype in launches():
            key = f"triton/{name}/{str(dtype).removeprefix('torch.')}/sm_{target}"
            if key in done:
                continue
            said, error, allowed, ptx = set(), 0.0, 0.0, ""
            for seed in battery.SEEDS:
                torch.manual_seed(seed)
                case = CASES[name](dtype)
                made = executed.compile_triton(case.function, case.arguments, case.constants, target=target)
                run = executed.run_triton(
                    case.function, case.grid, case.arguments, case.constants,
                    target=target, options=Options(seed=seed, deadline_s=60, count=False),
                )  # fmt: skip
                said |= {f.kind for f in run.findings} | ({run.status} - {"ok"})
                error = max(
                    error,
                    *(
                        float((got.double() - right).abs().max() / right.abs().max())
                        for got, right in case.outputs
                    ),
                )
                allowed, ptx = case.tolerance, made.ptx
            row: Row = {
                "key": key,
                "source": "triton",
                "kernels": [name_of(name, ptx)],
                "launches": len(battery.SEEDS),
            }
            row |= {
                "error": error,
                "allowed": allowed,
                "said": sorted(said),
                "ok": error <= allowed and not said,
            }
            yield row


def of_printed(done: set[str]) -> Iterator[Row]:
    """Yield a row for each own problem: the kernels that the compiler prints for it."""
    from .triton_coverage import ALLOWED, _off, _printed, _shrunk

    for target in TARGETS:
        for level, path in problems():
            key = f"printed/{level}/{path.stem}/sm_{target}"
            if key in done:
                continue
            row: Row = {"key": key, "source": "printed", "kernels": []}
            try:
                problem = _shrunk(path, MOST_ELEMENTS)
                workload = problem.task.split(Split.SEARCH)[0]
                inputs, state = problem.inputs(workload, 0), problem.state(workload, 0)
                right = problem.run_oracle(workload, inputs, state).outputs
                own = problem.run_reference(workload, inputs, state).outputs
                candidate, _ = _printed(problem)
                with watched(target) as (runs, seen):
                    found = load_symbol(candidate, Path())(*inputs, *(state[s.name] for s in workload.state))
                got = found if isinstance(found, tuple) else (found,)
                error = max(map(_off, got, right))
                said = {f.kind for r in runs for f in r.findings} | ({r.status for r in runs} - {"ok"})
                allowed = max(ALLOWED, 8 * max(map(_off, own, right)))
                row |= {"kernels": sorted(seen), "error": error, "allowed": allowed, "launches": len(runs)}
                row |= {"said": sorted(said), "ok": error <= allowed and not said}
            except KernelwrightError as error:
                row |= {"ok": None, "why": str(error).splitlines()[0][:200]}
            yield row


def count(rows: Sequence[Row]) -> tuple[str, bool]:
    """Return the figures in words, and whether they are as they should be."""
    right = [r for r in rows if r["source"] != "faults" and r["ok"] is not None]
    faults = [r for r in rows if r["source"] == "faults"]
    kernels = {k: r["source"] for r in right if r["ok"] for k in r["kernels"]}
    wrong = [r["key"] for r in right if not r["ok"]]
    false = [r["key"] for r in right if set(r.get("said", ())) - {"wrong values"}]
    found = sum(r["ok"] for r in faults)
    counted = Counter(kernels.values())
    of = ", ".join(f"{counted[name]} {name}" for name in SOURCES if counted[name])
    left = sum(r["ok"] is None for r in rows)
    lines = [
        f"right kernels: {len(kernels)} ({of}), in {sum(r.get('launches', 0) for r in right)} launches",
        f"wrong: {len(wrong)} {' '.join(wrong)}".rstrip(),
        f"with false findings: {len(false)} {' '.join(false)}".rstrip(),
        f"planted faults: {found} of {len(faults)} found",
        f"not executed: {left}",
    ]
    return "\n".join(lines), not wrong and not false and found * 20 >= 19 * len(faults)


def main() -> int:
    """Make the rows that are missing, then count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON lines file to add rows to, and to go on from"
    )
    parser.add_argument("--only", choices=SOURCES)
    parser.add_argument("--count", action="store_true", help="count the rows that are there")
    words = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = read_rows(words.out)
    done = {r["key"] for r in rows}
    makers = {"cuda": lambda: of_templates(done, False), "faults": lambda: of_templates(done, True),
              "triton": lambda: of_triton(done), "printed": lambda: of_printed(done)}  # fmt: skip
    for source in () if words.count else makers:
        if words.only in {None, source}:
            for row in makers[source]():
                rows.append(row)
                with words.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(
                    f"{row['key']}: {row['ok']} {', '.join(row.get('said', ()))}", file=sys.stderr, flush=True
                )
    text, ok = count(rows)
    print(text)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
