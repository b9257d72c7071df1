"""What users get: speedup over the better of eager and torch.compile on 52 tasks of two sizes each.

    python -m benchmarks.library --out results.jsonl [--only softmax,norm] [--sizes small,large]
                                 [--evaluations 6] [--minutes 1.5]
    python -m benchmarks.library --table results.jsonl

Every row is a whole `optimize` of one task at one size, in cache (small) or out of it (large), with
eager, torch.compile and torch.compile max-autotune as baselines. A row is written as soon as it is known,
and rows that are there already are not measured again, so that the benchmark can be stopped at any time.
Where nothing was accepted the native op stays, and the row counts as a speedup of 1.
"""

import argparse
import ast
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kernelwright as kw
from kernelwright.records import Split, Task
from kernelwright.tasks import load_task

TASKS = Path(__file__).parent / "tasks"
BASELINES = ("eager", "compile", "compile-max-autotune")


def targets(only: list[str]) -> Iterator[str]:
    """Yield `file.py:symbol` of every task, or of those in the files named."""
    for path in sorted(TASKS.glob("*.py")):
        if not only or path.stem in only:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef):
                    yield f"{path}:{node.name}"


def one_size(task: Task, size: str) -> Task:
    """Return the task with only its small or its large search workload; the other splits stay."""
    search = sorted(task.split(Split.SEARCH), key=lambda w: sum(_count(a) for a in w.arguments))
    chosen = search[0] if size == "small" else search[-1]
    kept = tuple(w for w in task.workloads if w.split is not Split.SEARCH or w is chosen)
    return task.model_copy(update={"name": f"{task.name}-{size}", "workloads": kept})


def _count(argument: object) -> int:
    shape = getattr(argument, "shape", ())
    count = 1
    for axis in shape:
        count *= axis
    return count


def measure(target: str, size: str, options: argparse.Namespace) -> dict[str, object]:
    """Optimise one task at one size and return the row."""
    task = one_size(load_task(target), size)
    budget = kw.Budget(evaluations=options.evaluations, minutes=options.minutes)
    with tempfile.TemporaryDirectory() as store:
        result = kw.optimize(task, budget=budget, baselines=BASELINES, store=options.store or store)
    row = json.loads(result.line())
    row.pop("event")
    return {"target": target.split("/")[-1], "size": size, **row}


def accepted(row: dict[str, object]) -> float:
    """Return the speedup that a user gets."""
    speedup = row["speedup"]
    return float(speedup["median"]) if row["decision"] == "improved" and isinstance(speedup, dict) else 1.0


def table(rows: list[dict[str, object]]) -> None:
    """Print every row and the summary."""
    print(
        f"{'task':40} {'size':6} {'decision':13} {'speedup':>8} {'interval':>13} {'against':>21} {'of bound':>8}"
    )
    for row in rows:
        speedup = row["speedup"]
        measured = isinstance(speedup, dict)
        limited = measured and speedup["low"] is not None and speedup["high"] is not None
        interval = f"{speedup['low']:.2f}-{speedup['high']:.2f}" if limited else ""
        ratio = f"{speedup['median']:.2f}" if measured else ""
        fraction = f"{row['fraction_of_bound']:.2f}" if row["fraction_of_bound"] else ""
        print(
            f"{row['target']!s:40} {row['size']!s:6} {row['decision']!s:13} {ratio:>8} {interval:>13} "
            f"{row['baseline'] or ''!s:>21} {fraction:>8}"
        )
    for size in ("small", "large"):
        chosen = [r for r in rows if r["size"] == size]
        if chosen:
            fractions = [float(str(r["fraction_of_bound"])) for r in chosen if r["fraction_of_bound"]]
            improved = sum(r["decision"] == "improved" for r in chosen)
            print(
                f"{size}: {len(chosen)} rows, {improved} improved, geomean over the better baseline "
                f"{statistics.geometric_mean(map(accepted, chosen)):.2f}, median fraction of the bound "
                f"{statistics.median(fractions) if fractions else float('nan'):.2f}"
            )


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="JSON lines file to add rows to")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    parser.add_argument("--only", default="", help="files of benchmarks/tasks, without .py")
    parser.add_argument("--sizes", default="large,small")
    parser.add_argument("--evaluations", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--store", type=Path, default=None, help="keep the runs here")
    options = parser.parse_args()
    path = options.table or options.out
    if path is None:
        parser.error("give --out FILE to measure or --table FILE to print")
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not options.table:
        done = {(r["target"], r["size"]) for r in rows}
        for size in options.sizes.split(","):
            for target in targets([name for name in options.only.split(",") if name]):
                if (target.split("/")[-1], size) in done:
                    continue
                row = measure(target, size, options)
                rows.append(row)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(
                    f"{row['target']} {size}: {row['decision']} {accepted(row):.2f}",
                    file=sys.stderr,
                    flush=True,
                )
    table(rows)


if __name__ == "__main__":
    main()
