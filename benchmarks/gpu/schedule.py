"""The schedule engine's Triton on a real GPU: right, then fast.

    python -m benchmarks.gpu.schedule right --out rows.jsonl --seconds 80 [--kernelbench DIR] [--children 14]
    python -m benchmarks.gpu.schedule time --out rows.jsonl --seconds 100 --kernelbench DIR [--children 14]

`right`: the own problems at their sizes, KernelBench's levels 1 and 2 shrunk to `--max-elements` and random programs
under random actions: printed, compiled, run and held against float64 (`_schedule_right`), the best schedule of
each before the second and third. `time`: a fixed random sample of KernelBench's levels 1 and 2 at its own sizes:
eager, torch.compile and the schedules that a search would measure, in turn (`_schedule_time`), and how well the
estimate ranks these. Needs a CUDA device (exit 4 without one) and keeps to its seconds. A row is written as soon as
it is known.
"""

import argparse
import json
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..coverage import folder_of
from ..problems import problems
from ._children import Row, answered
from .about import environment

_LINES = 38
_EACH_S = {"right": 25.0, "time": 70.0}


def items_of(kernelbench: Path | None, max_elements: int, count: int, ranks: int, seed: int = 1) -> list[Row]:
    """Return what to run: by rank, in random order within it, random programs with the first."""
    own: list[Row] = [
        {"kind": "own", "level": level, "path": str(path), "max_elements": None} for level, path in problems()
    ]
    theirs = [{**item, "max_elements": max_elements} for item in _published(kernelbench)]
    found: list[Row] = []
    for rank in range(ranks):
        drawn = [{"kind": "random", "seed": 300_000 + i} for i in range(count)] if rank == 0 else []
        batch: list[Row] = [*({**item, "rank": rank} for item in (*own, *theirs)), *drawn]
        random.Random(seed + rank).shuffle(batch)
        found += batch
    return found


def sample_of(kernelbench: Path | None, count: int, seed: int = 1) -> list[Row]:
    """Return a random sample of KernelBench's levels 1 and 2, the same for the same seed."""
    return random.Random(seed).sample(_published(kernelbench), count)


def _published(kernelbench: Path | None) -> list[Row]:
    found = problems(folder_of(str(kernelbench))) if kernelbench else ()
    return [{"kind": "kernelbench", "level": level, "path": str(path)} for level, path in found if level < 3]


def name_of(row: Row) -> str:
    """Name a row's problem or program."""
    return f"random {row['seed']}" if row["kind"] == "random" else f"{row['level']}/{Path(row['path']).stem}"


def right_table(rows: Sequence[Row], items: int) -> str:
    """Return the counts by kind, then what is not right, at most 40 lines."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row["kind"], Counter())[row["status"]] += 1
    lines = [f"{kind:12} {dict(found.most_common())}" for kind, found in counts.items()]
    spilled = [r for r in rows if r.get("spills")]
    lines.append(f"{len(rows)} of {items} items; {len(spilled)} ran with spills")
    wanted = ("wrong", "not compiled", "died", "hung", "failed", "not loaded", "as torch", "not printed")
    bad = sorted((r for r in rows if r["status"] in wanted), key=lambda r: wanted.index(r["status"]))
    lines += [
        f"{r['status']:12} {name_of(r)[:30]:30} {r.get('schedule', '')[:40]}: {r['why'][:110]!r}" for r in bad
    ]
    return "\n".join(lines[:_LINES])


def time_table(rows: Sequence[Row], items: int) -> str:
    """Return a line a problem, then fast_p, geomeans and how well the estimate ranks, at most 60 lines."""
    timed = sorted((r for r in rows if r["status"] == "timed"), key=lambda r: -float(r["over_best"]))
    lines = [f"{'problem':38} {'eager':>8} {'compile':>8} {'ours':>8} {'x best':>6} {'rank':>5}  by"]
    for r in timed:
        ranked = rank_correlation(r["variants"])
        lines.append(
            f"{name_of(r)[:38]:38} {r['eager']:8.0f} {r.get('compile', math.nan):8.0f} {r['best']:8.0f} "
            f"{r['over_best']:6.2f} {math.nan if ranked is None else ranked:5.2f}  {r['by'][9:40]} {r['choice'] or ''}"
        )
    others = Counter(f"{r['status']}" for r in rows if r["status"] != "timed")
    lines.append(f"{len(timed)} of {items} timed; {dict(others)}")
    if timed:
        for over in ("over_eager", "over_best"):
            gains = [max(1.0, float(r[over])) for r in timed]
            share = {p: sum(float(r[over]) > p for r in timed) / len(timed) for p in (1.0, 1.05, 1.5, 2.0)}
            mean = math.exp(statistics.fmean(map(math.log, gains)))
            lines.append(f"{over}: geomean, native where slower, {mean:.2f}; faster than {share}")
        ranks = [x for r in timed if (x := rank_correlation(r["variants"])) is not None]
        lost = [x for r in timed if (x := _regret(r["variants"])) is not None]
        if ranks and lost:
            lines.append(
                f"estimate: rank correlation, median {statistics.median(ranks):.2f} of {len(ranks)} problems; "
                f"first schedule over the best one, geomean {math.exp(statistics.fmean(map(math.log, lost))):.2f}"
            )
    return "\n".join(lines)


def rank_correlation(variants: Sequence[Row]) -> float | None:
    """Return Spearman's rank correlation of estimate and time over default schedules; none for fewer than three."""
    pairs = _defaults(variants)
    if len(pairs) < 3:
        return None
    a, b = (_ranks([p[i] for p in pairs]) for i in (0, 1))
    try:
        return statistics.correlation(a, b)
    except statistics.StatisticsError:  # all alike
        return None


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(v < x for v in values) + (sum(v == x for v in values) - 1) / 2 for x in values]


def _regret(variants: Sequence[Row]) -> float | None:
    pairs = _defaults(variants)
    return min(pairs)[1] / min(us for _, us in pairs) if len(pairs) > 1 else None


def _defaults(variants: Sequence[Row]) -> list[tuple[float, float]]:
    return [(v["estimate_us"], v["us"]) for v in variants if "us" in v and not v["choice"]]


def main() -> int:
    """Run and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=tuple(_EACH_S))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--children", type=int, default=14)
    parser.add_argument("--max-elements", type=float, default=4e6)
    parser.add_argument("--count", type=int, help="random programs (200), or problems of the sample (60)")
    parser.add_argument("--ranks", type=int, default=3, help="schedules of a problem")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    about = environment("benchmarks.gpu.schedule")
    if options.part == "right":
        items = items_of(options.kernelbench, int(options.max_elements), options.count or 200, options.ranks)
    else:
        items = sample_of(options.kernelbench, options.count or 60)
    rows: list[Row] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    child = f"benchmarks.gpu._schedule_{options.part}"
    with options.out.open("w") as file:
        file.write(json.dumps(about) + "\n")
        for row in answered(
            child, items, children=options.children, until=until, each_s=_EACH_S[options.part]
        ):
            rows.append(row)
            row["problem"] = name_of(row)
            file.write(json.dumps({k: v for k, v in row.items() if k != "path"}) + "\n")
            file.flush()
    print((right_table if options.part == "right" else time_table)(rows, len(items)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
