"""What users get: speedup over the better of eager and torch.compile on 52 tasks of two sizes each.

    python -m benchmarks.library --out results.jsonl [--minutes 35] [--only softmax,norm] [--tasks rmsnorm]
                                 [--sizes small,large] [--evaluations 2] [--store FOLDER]
    python -m benchmarks.library --table results.jsonl

Every task is one whole `optimize` over its sizes, in cache (small) and out of it (large), with the library's
kernels as candidates and eager and torch.compile as baselines, for products of matrices max-autotune too; each size is
a row. What is left of `--minutes` is shared among the tasks still to come. Rows are written as soon as they are known,
and those that are there already are not measured again: stop it at any time and start it again with the same `--out`.
Where nothing was accepted the native op stays, and the row counts as a speedup of 1. Compiled baselines are kept in
the cache folder.

A bound counts with the highest bandwidth that the machine ever showed. Where memory is shared with other machines it
is not always to be had, so every task begins with a measurement of the peaks, and a second fraction is that of the
bound under those: what a kernel could have reached in that minute.
"""

import argparse
import ast
import itertools
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import kernelwright as kw
from kernelwright.bound import bound as bound_of
from kernelwright.cli._common import bounds_of
from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.devices.peaks import measure as measure_peaks
from kernelwright.records import Bound, Evaluation, Interval, Split, Task, Workload, WorkloadDecision
from kernelwright.store import Store
from kernelwright.tasks import Problem, load_task

TASKS = Path(__file__).parent / "tasks"
BASELINES = ("eager", "compile")
WITH_PRODUCTS, MAX_AUTOTUNE = {"matmul"}, "compile-max-autotune"
"""Files whose tasks multiply matrices; else max-autotune writes the default's kernels on a CPU (compared for two)."""
SIZES = ("small", "large")
LEAST_MINUTES = 0.3
"""What a task gets at least, however late it is."""
Row = dict[str, object]


def targets(only: Sequence[str] = (), tasks: Sequence[str] = ()) -> Iterator[str]:
    """Yield `file.py:symbol` of every task, or of those in the files and of the names given; the files take turns."""
    files = [
        [
            f"{path}:{node.name}"
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and (not tasks or node.name in tasks)
        ]
        for path in sorted(TASKS.glob("*.py"))
        if not only or path.stem in only
    ]
    return (target for turn in itertools.zip_longest(*files) for target in turn if target)


def by_size(task: Task) -> dict[str, Workload]:
    """Return the smallest and the largest search workload."""
    search = sorted(task.split(Split.SEARCH), key=lambda w: sum(_count(a) for a in w.arguments))
    return dict(zip(SIZES, (search[0], search[-1]), strict=True))


def of_sizes(task: Task, sizes: Sequence[str]) -> Task:
    """Return the task with the search workloads of those sizes only; the other splits stay."""
    chosen = [workload for size, workload in by_size(task).items() if size in sizes]
    kept = tuple(w for w in task.workloads if w.split is not Split.SEARCH or w in chosen)
    return task.model_copy(update={"workloads": kept})


def _count(argument: object) -> int:
    return math.prod(getattr(argument, "shape", (0,)))


def measure(target: str, sizes: Sequence[str], evaluations: int, minutes: float, store: Path) -> list[Row]:
    """Optimise one task over its sizes and return a row for each."""
    whole = load_task(target)
    now = _bounds_now(whole)
    budget = kw.Budget(evaluations=evaluations, minutes=minutes)
    beaten = (*BASELINES, MAX_AUTOTUNE) if Path(target).stem in WITH_PRODUCTS else BASELINES
    result = kw.optimize(
        of_sizes(whole, sizes), budget=budget, baselines=beaten, proposers=("library",), store=store
    )
    with Store(store) as kept:
        evaluated = kept.evaluations(result.run)
        bounds = {b.workload: b for b in bounds_of(kept.events(result.run))}
    serves: dict[str, str] = {}
    if result.kernel:
        serves = json.loads((Path(result.kernel) / "claim.json").read_text())["serves"]
    return [
        {
            "target": target.split("/")[-1],
            "size": size,
            "run": result.run,
            **_row(workload.name, serves.get(workload.name), evaluated, bounds.get(workload.name), now),
        }
        for size, workload in by_size(whole).items()
        if size in sizes
    ]


def _bounds_now(task: Task) -> dict[str, float]:
    """Return the bound of each size under peaks measured now, in microseconds."""
    device, problem = detect("cpu"), Problem(task)
    peaks = measure_peaks(device, Settings.from_environment())
    return {w.name: bound_of(problem, w, device, peaks).time_us for w in by_size(task).values()}


def _row(
    name: str,
    kernel: str | None,
    evaluated: Iterable[Evaluation],
    bound: Bound | None,
    now: Mapping[str, float],
) -> Row:
    """Say what a user gets on one workload: the kernel that serves it, or the native op."""
    found = [(e, w) for e in evaluated for w in e.decision.workloads if w.workload == name]
    seen = [(e, w) for e, w in found if kernel in {None, e.candidate.key}]
    evaluation, timed = max(seen, key=lambda pair: pair[1].speedup.median, default=(None, None))
    time_us = _time_us(timed, native=kernel is None) if timed else None
    return {
        "decision": "improved" if kernel else str(evaluation.decision.status) if evaluation else "unknown",
        "speedup": timed.speedup.model_dump() if timed else None,
        "baseline": timed.baseline if timed else None,
        "time_us": time_us,
        "bound_us": bound.time_us if bound else None,
        "fraction_of_bound": bound.time_us / time_us if bound and time_us else None,
        "fraction_of_bound_now": now[name] / time_us if time_us else None,
        "binds": bound.binding if bound else None,
        "in_cache": not any(t.name.startswith("dram") for t in bound.terms) if bound else None,
        "kernel": kernel,
    }


def _time_us(timed: WorkloadDecision, *, native: bool) -> float:
    return timed.baseline_us if native else timed.time_us


def gain(row: Row) -> float:
    """Return the speedup that a user gets."""
    speedup = row["speedup"]
    return float(speedup["median"]) if row["decision"] == "improved" and isinstance(speedup, dict) else 1.0


def is_memory_bound(row: Row) -> bool:
    """Tell whether bytes bind, not operations or the launch."""
    return str(row.get("binds")).split("-")[0] in {"l1", "l2", "l3", "l4", "dram"}


def table(rows: list[Row]) -> None:
    """Print every row and the summary."""
    print(
        f"{'task':40} {'size':6} {'decision':13} {'speedup':>8} {'interval':>13} {'against':>21} "
        f"{'of bound':>8} {'now':>5}"
    )
    for row in rows:
        speedup = Interval.model_validate(row["speedup"]) if row["speedup"] else None
        limited = speedup is not None and speedup.low is not None and speedup.high is not None
        interval = f"{speedup.low:.2f}-{speedup.high:.2f}" if speedup and limited else ""
        ratio = f"{speedup.median:.2f}" if speedup else ""
        ever, now = (
            f"{row[key]:.2f}" if row.get(key) else ""
            for key in ("fraction_of_bound", "fraction_of_bound_now")
        )
        print(
            f"{row['target']!s:40} {row['size']!s:6} {row['decision']!s:13} {ratio:>8} {interval:>13} "
            f"{row['baseline'] or ''!s:>21} {ever:>8} {now:>5}"
        )
    summary("all", rows)
    memory = [r for r in rows if is_memory_bound(r)]
    summary("bound by memory (target: geomean 1.3)", memory)
    summary("  in cache", [r for r in memory if r["in_cache"]])
    summary("  out of cache (target: 0.7 of the bound)", [r for r in memory if not r["in_cache"]])
    summary("bound by operations or the launch", [r for r in rows if r.get("binds") and r not in memory])


def summary(name: str, rows: list[Row]) -> None:
    """Print the geomean over the better baseline and the median fraction of the bound."""
    if not rows:
        return
    ever, now = (
        statistics.median(found) if (found := [float(str(r[key])) for r in rows if r.get(key)]) else math.nan
        for key in ("fraction_of_bound", "fraction_of_bound_now")
    )
    improved = [r for r in rows if r["decision"] == "improved"]
    print(
        f"{name}: {len(rows)} rows, {len(improved)} improved, {sum(gain(r) < 1 for r in improved)} of them slower, "
        f"geomean over the better baseline {statistics.geometric_mean(map(gain, rows)):.2f}, median fraction "
        f"of the bound {ever:.2f}, of what its peaks were in that minute {now:.2f}"
    )


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="JSON lines file to add rows to")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    parser.add_argument("--only", default="", help="files of benchmarks/tasks, without .py")
    parser.add_argument("--tasks", default="", help="names of tasks")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--evaluations", type=int, default=2, help="candidates a task")
    parser.add_argument("--minutes", type=float, default=35.0, help="for all tasks together")
    parser.add_argument("--store", type=Path, default=None, help="keep the runs here")
    options = parser.parse_args()
    path = options.table or options.out
    if path is None:
        parser.error("give --out FILE to measure or --table FILE to print")
    if not options.table:
        with tempfile.TemporaryDirectory() as scratch:
            measure_missing(path, options, options.store or Path(scratch))
    table(read(path))


def read(path: Path) -> list[Row]:
    """Return the rows measured so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure_missing(path: Path, options: argparse.Namespace, store: Path) -> None:
    """Measure the rows that are asked for and not there, each task within its share of the time."""
    only, tasks, sizes = (names(t) for t in (options.only, options.tasks, options.sizes))
    done = {(str(r["target"]), r["size"]) for r in read(path)}
    waiting = {t: [s for s in sizes if (t.split("/")[-1], s) not in done] for t in targets(only, tasks)}
    waiting = {target: missing for target, missing in waiting.items() if missing}
    end = time.monotonic() + options.minutes * 60
    for left, (target, missing) in zip(range(len(waiting), 0, -1), waiting.items(), strict=True):
        minutes = max(LEAST_MINUTES, (end - time.monotonic()) / 60 / left)
        rows = measure(target, missing, options.evaluations, minutes, store)
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        said = ", ".join(f"{row['size']} {row['decision']} {gain(row):.2f}" for row in rows)
        print(f"{target.split('/')[-1]}: {said}; {left - 1} tasks left", file=sys.stderr, flush=True)


def names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    main()
