"""The schedule engine's Triton on a real GPU: right, then fast.

    python -m benchmarks.gpu.schedule right --out rows.jsonl --seconds 80 [--kernelbench DIR] [--children 16]

`right`: the own problems at their sizes, KernelBench's levels 1 and 2 shrunk to `--max-elements` and random programs
under random actions: printed, compiled, run and held against float64 (`_schedule_right`), the best schedule of
each before the second and third. Needs a CUDA device (exit 4 without one) and keeps to its seconds. A row is
written as soon as it is known.
"""

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path

from ..coverage import folder_of
from ..problems import problems
from ._children import Row, answered
from .about import environment

_CHILD = "benchmarks.gpu._schedule_right"
_LINES = 38


def items_of(kernelbench: Path | None, max_elements: int, count: int, ranks: int, seed: int = 1) -> list[Row]:
    """Return what to run: by rank, in random order within it, random programs with the first."""
    own: list[Row] = [
        {"kind": "own", "level": level, "path": str(path), "max_elements": None} for level, path in problems()
    ]
    theirs: list[Row] = [
        {"kind": "kernelbench", "level": level, "path": str(path), "max_elements": max_elements}
        for level, path in (problems(folder_of(str(kernelbench))) if kernelbench else ()) if level < 3
    ]  # fmt: skip
    found: list[Row] = []
    for rank in range(ranks):
        drawn = [{"kind": "random", "seed": 300_000 + i} for i in range(count)] if rank == 0 else []
        batch: list[Row] = [*({**item, "rank": rank} for item in (*own, *theirs)), *drawn]
        random.Random(seed + rank).shuffle(batch)
        found += batch
    return found


def name_of(row: Row) -> str:
    """Name a row's problem or program."""
    return f"random {row['seed']}" if row["kind"] == "random" else f"{row['level']}/{Path(row['path']).stem}"


def table(rows: list[Row], items: int) -> str:
    """Return the counts by kind, then what is not right, at most 40 lines."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row["kind"], Counter())[row["status"]] += 1
    lines = [f"{kind:12} {dict(found.most_common())}" for kind, found in counts.items()]
    spilled = [r for r in rows if r.get("spills")]
    lines.append(f"{len(rows)} of {items} items; {len(spilled)} ran with spills")
    wanted = ("wrong", "not compiled", "died", "hung", "failed", "not loaded", "not printed")
    bad = sorted((r for r in rows if r["status"] in wanted), key=lambda r: wanted.index(r["status"]))
    lines += [
        f"{r['status']:12} {name_of(r)[:30]:30} {r.get('schedule', '')[:40]}: {r['why'][:110]!r}" for r in bad
    ]
    return "\n".join(lines[:_LINES])


def main() -> int:
    """Run and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("right",))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--children", type=int, default=16)
    parser.add_argument("--max-elements", type=float, default=4e6)
    parser.add_argument("--count", type=int, default=200, help="random programs")
    parser.add_argument("--ranks", type=int, default=3, help="schedules of a problem")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    about = environment("benchmarks.gpu.schedule")
    items = items_of(options.kernelbench, int(options.max_elements), options.count, options.ranks)
    rows: list[Row] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w") as file:
        file.write(json.dumps(about) + "\n")
        for row in answered(_CHILD, items, children=options.children, until=until, each_s=25):
            rows.append(row)
            row["problem"] = name_of(row)
            file.write(json.dumps({k: v for k, v in row.items() if k != "path"}) + "\n")
            file.flush()
    print(table(rows, len(items)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
