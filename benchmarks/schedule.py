"""What the schedule proposer gains on the own problems, in and out of cache, by class of problem.

    python -m benchmarks.schedule --out rows.jsonl [--sizes in,out] [--classes memory,fused] [--only softmax] [--seed 1]
    python -m benchmarks.schedule --out gpu.jsonl --language triton --device cuda:0
    python -m benchmarks.schedule --table rows.jsonl

Every row is a whole `optimize` of one problem at one size with the schedule proposer alone, against eager,
torch.compile and torch.compile max-autotune, both of these with freezing on where there are weights. `in` are
problems shrunk to fit the cache; `out` are the declared sizes. A row is written as soon as it is known, and rows that
are there already are not measured again, so that the benchmark can be stopped at any time. Where nothing was accepted
the native op stays, and the row counts as a speedup of 1. Run it on a machine that does nothing else.

With freezing the weights are built in, which a candidate may not do: its weights change from block to block, and it
packs them again. A baseline with freezing keeps its own, and is the hardest to beat where products rule.

Classes: `contraction` where the problem holds a product or a convolution of more than `HEAVY` operations a
byte that it must move, `fused` where it holds a lighter one, `memory` where it holds none.
"""

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import kernelwright as kw
from kernelwright.flow import Event
from kernelwright.records import Split, Task
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import Graph, capture

from .coverage import read_rows
from .problems import problems

Row = dict[str, object]
ELEMENTS = {"in": 200_000, "out": None}
"""Most elements of a size; none: as declared."""
BASELINES = ("eager", "compile", "compile-max-autotune")
FROZEN = ("eager", "compile-freezing", "compile-max-autotune-freezing")
"""Instead, where there are weights to be built in."""
CLASSES = ("memory", "fused", "contraction")
TARGETS = {("memory",): 1.5, ("fused",): 1.5, ("memory", "fused"): 1.5, ("contraction",): 1.0}
"""Classes → the geomean that is wanted."""
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution", "mv", "addmv", "dot")
SECONDS = {
    "explored_s": "search",
    "search_s": "search and acceptance",
    "first_correct_s": "first correct kernel, from capture on",
    "verified_s": "first correct kernel",
    "prescreen_s": "first kernel timed against eager",
    "first_s": "first kernel timed against every baseline",
}
"""Seconds of a run, from the call on where nothing else is said, until something was there, in the order of the table;
older rows have some of them."""
HEAVY = 20.0
_RESAMPLES = 2000


@dataclass(frozen=True)
class Where:
    """What kernels are written in and where they run; as `optimize` would have it by itself."""

    languages: tuple[str, ...] = ()
    device: str | None = None


def class_of(graph: Graph) -> str:
    """Class a problem by its products: operations against the bytes of everything that comes in and goes out."""
    heavy = [n for n in graph.ops if n.op.split(".")[1] in PRODUCTS]
    if not heavy:
        return "memory"
    outside = sum(n.size_bytes for n in graph.nodes if n.op in ("input", "state"))
    moved = outside + sum(graph.node(name).size_bytes for name in graph.outputs)
    operations = sum(2 * n.elements * _inner(graph, n.op.split(".")[1], tuple(n.refs())) for n in heavy)
    return "contraction" if operations > HEAVY * moved else "fused"


def _inner(graph: Graph, op: str, refs: Sequence[str]) -> int:
    """Return how many products are summed for one element of the result."""
    if op == "convolution":
        return math.prod(graph.node(refs[1]).shape[1:])
    left = refs[1] if op.startswith(("add", "badd")) else refs[0]
    return graph.node(left).shape[-1] if graph.node(left).shape else 1


def loaded(path: Path, size: str) -> tuple[Task, str]:
    """Load a problem at a size, and class it."""
    task: Task = load_task(path, max_elements=ELEMENTS[size])
    return task, class_of(capture(Problem(task), task.split(Split.SEARCH)[0]))


def measure(task: Task, budget: kw.Budget, store: Path, on: Where) -> Row:
    """Optimise one task and return what its row says of that."""
    beaten = FROZEN if any(workload.state for workload in task.workloads) else BASELINES
    started, seen = time.monotonic(), dict[str, float]()

    def watch(event: Event) -> None:
        timed = event.event == "evaluation" and event.data.get("time_us")
        seen.setdefault("timed" if timed else event.event, event.elapsed_s)

    result = kw.optimize(
        task, budget=budget, proposers=("schedule",), baselines=beaten, store=store, on_event=watch,
        languages=on.languages, device=on.device,
    )  # fmt: skip
    return {
        "run": result.run, "decision": str(result.decision), "reason": result.reason, "baseline": result.baseline,
        "time_us": result.time_us,
        "speedup": result.speedup.model_dump() if result.speedup else None,
        "fraction_of_bound": result.fraction_of_bound, "search_s": time.monotonic() - started,
        "explored_s": seen.get("explored"), "first_correct_s": since_capture(seen),
        "verified_s": seen.get("verified"), "prescreen_s": seen.get("prescreen"), "first_s": seen.get("timed"),
    }  # fmt: skip


def since_capture(seen: Mapping[str, float]) -> float | None:
    """Return the seconds from when the reference was captured to the first correct kernel; none without one.

    Example:
        >>> since_capture({"captured": 2.5, "verified": 6.0})
        3.5
    """
    return seen["verified"] - seen["captured"] if "verified" in seen else None


def gained(row: Row) -> float:
    """Return the speedup that a user gets: 1 where nothing was accepted."""
    speedup = row["speedup"]
    return float(speedup["median"]) if row["decision"] == "improved" and isinstance(speedup, dict) else 1.0


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a geomean over problems.

    Example:
        >>> interval([2.0, 2.0, 2.0])
        (2.0, 2.0)
    """
    chance, logs = random.Random(seed), [math.log(v) for v in values]
    means = sorted(statistics.fmean(chance.choices(logs, k=len(logs))) for _ in range(_RESAMPLES))
    low, high = means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES)]
    return round(math.exp(low), 4), round(math.exp(high), 4)


def table(rows: Sequence[Row]) -> str:
    """Return a line a row, then geomeans by class and size, and those of the classes that move data together."""
    lines = [
        f"{'problem':42} {'size':4} {'class':11} {'decision':13} {'gained':>7} {'against':>21} {'search':>8} "
        f"{'first':>7}"
    ]
    for row in rows:
        first = f"{row['first_s']:.1f} s" if row["first_s"] is not None else ""
        lines.append(
            f"{row['level']}/{row['problem']!s:40} {row['size']!s:4} {row['class']!s:11} {row['decision']!s:13} "
            f"{gained(row):7.2f} {row['baseline'] or ''!s:>21} {row['search_s']:6.0f} s {first:>7}"
        )
    for names, wanted in TARGETS.items():
        for size in ELEMENTS:
            of = [r for r in rows if r["class"] in names and r["size"] == size]
            if of:
                values = [gained(r) for r in of]
                geomean, (low, high) = statistics.geometric_mean(values), interval(values)
                improved = sum(r["decision"] == "improved" for r in of)
                lines.append(
                    f"{' and '.join(names)}, {size} of cache: {len(of)} problems, {improved} improved, geomean over "
                    f"the better baseline {geomean:.2f} ({low:.2f} to {high:.2f}); wanted {wanted}"
                )
    for name, what in SECONDS.items():
        found = sorted(float(str(r[name])) for r in rows if r.get(name) is not None)
        if found:
            lines.append(f"{what}: median {found[len(found) // 2]:.1f} s, longest {found[-1]:.1f} s")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="JSON lines file to add rows to")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    parser.add_argument("--sizes", default="out,in")
    parser.add_argument("--level", type=int)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--classes", default=",".join(CLASSES))
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--search-minutes", type=float, default=1.0)
    parser.add_argument("--evaluations", type=int, default=8)
    parser.add_argument(
        "--seed", type=int, help="order of a shuffle: a run that is stopped is a random sample"
    )
    parser.add_argument("--language", action="append", default=[], help="`triton`, `cpp` ...")
    parser.add_argument("--device", help="such as cuda:0")
    parser.add_argument("--store", type=Path, help="keep the runs here")
    options = parser.parse_args()
    path = options.table or options.out
    if path is None:
        parser.error("give --out FILE to measure or --table FILE to print")
    rows: list[Row] = read_rows(path)
    done = {(r["problem"], r["size"]) for r in rows}
    sizes = options.sizes.split(",") if options.out else ()
    wanted = [(size, level, file) for size in sizes for level, file in problems(level=options.level)]
    if options.seed is not None:
        random.Random(options.seed).shuffle(wanted)
    for size, level, file in wanted:
        if options.only not in file.stem or (file.stem, size) in done:
            continue
        task, kind = loaded(file, size)
        if kind not in options.classes.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            store = options.store or Path(folder)
            budget = kw.Budget(
                evaluations=options.evaluations,
                minutes=options.minutes,
                search_minutes=options.search_minutes,
            )
            found = measure(task, budget, store, Where(tuple(options.language), options.device))
        row = {"level": level, "problem": file.stem, "size": size, "class": kind, **found}
        rows.append(row)
        with path.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(f"{file.stem} {size}: {row['decision']} {gained(row):.2f}", file=sys.stderr, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
