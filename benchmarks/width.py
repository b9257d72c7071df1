"""How a search changes with the number of devices: what strategies find in a time, and how busy the devices are.

    python -m benchmarks.width --record STORE ... --times FILE
    python -m benchmarks.width [--times FILE] [--out rows.jsonl] [--picture docs/cluster-width.svg]

Every strategy searches planted landscapes of 16,384 kernels on 1 to 4,096 simulated devices, with rounds and with
results told as they come, until it has 95 % of the optimum's speed or 200 mean evaluations have passed. Evaluations
take recorded times (`--times`: lines of JSON with `seconds`, which `--record` writes from stores of runs), else
log-normal ones with a sigma of 0.6; 2 % take ten times as long, and 2 % are lost halfway and begun again. Each row is a
median over the seeds: time to the goal in mean evaluations (none if fewer than half reach it), evaluations until then,
utilisation, and the shares of device time that were lost, or spent waiting or on what was not done in the end. A row
that `--out` has is not made again.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import NormalDist, mean, median
from typing import Any

from kernelwright.search.replay.parallel import Devices, ParallelSearch, parallel_search
from kernelwright.search.strategies import Means, make_strategy, strategy_names
from kernelwright.store import Store
from kernelwright.testing import PlantedLandscape

WIDTHS = (1, 4, 16, 64, 256, 1024, 4096)
PLANTED_S = tuple(math.exp(NormalDist(0, 0.6).inv_cdf((n + 0.5) / 64)) for n in range(64))
_SEEDS = 5
_MOST_EVALUATIONS = 200
_GOAL = 0.95
_DRAWN = {
    "evolve": "#1b6ca8",
    "beam": "#c44536",
    "greedy": "#5b8c5a",
    "uct": "#8e5ea2",
    "map_elites": "#d98e04",
}


def recorded(store: Path) -> Iterator[dict[str, Any]]:
    """Yield what each evaluation of a store's runs took of its device."""
    with Store(store) as kept:
        for run in kept.runs():
            for evaluation in kept.evaluations(run.id):
                if evaluation.device_s > 0:
                    yield {"seconds": round(evaluation.device_s, 4), "run": run.id, "stage": evaluation.stage}


def rows(
    times_s: Sequence[float],
    names: Sequence[str],
    seeds: int,
    widths: Sequence[int],
    known: set[tuple[str, str, int]],
) -> Iterator[dict[str, Any]]:
    """Yield a row for each strategy, mode and width that is not known, narrow ones first."""
    for width in widths:
        for name in names:
            for synchronous in (False, True):
                if (name, "rounds" if synchronous else "single", width) in known:
                    continue
                found = [
                    searched(name, width, times_s, seed, synchronous=synchronous) for seed in range(seeds)
                ]
                yield {"strategy": name, "mode": "rounds" if synchronous else "single", "devices": width,
                       "seeds": seeds, **summary(found, mean(times_s))}  # fmt: skip


def searched(
    name: str, width: int, times_s: Sequence[float], seed: int, *, synchronous: bool
) -> ParallelSearch:
    """Simulate one search."""
    landscape = PlantedLandscape(seed=seed)
    devices = Devices(width, times_s, lost=0.02, straggling=0.02, synchronous=synchronous, seed=seed)
    return parallel_search(
        make_strategy(name, Means(seed=seed)), landscape.edit, landscape.evaluate, devices,
        seconds=_MOST_EVALUATIONS * mean(times_s), enough=_GOAL * landscape.best_score,
    )  # fmt: skip


def summary(found: Sequence[ParallelSearch], mean_s: float) -> dict[str, Any]:
    """Summarise the seeds of one setting."""
    goal = _GOAL * PlantedLandscape().best_score
    reached = [one.reached(goal) for one in found]
    time_s = median(second for second, _ in reached)
    lost = mean(one.lost_s / (one.devices * one.seconds) if one.seconds else 0.0 for one in found)
    used = mean(one.utilisation for one in found)
    return {
        "goal_after": None if math.isinf(time_s) else round(time_s / mean_s, 2),
        "evaluations": int(median(number for _, number in reached)),
        "best": round(median(one.best for one in found) / PlantedLandscape().best_score, 3),
        "utilisation": round(used, 3), "lost": round(lost, 3), "rest": round(max(0.0, 1 - used - lost), 3),
    }  # fmt: skip


def picture(found: Sequence[dict[str, Any]]) -> str:
    """Draw time to the goal and utilisation against the number of devices."""
    parts = [_panel(found, 60, "goal_after", "mean evaluations until 95 % of the optimum", log=True),
             _panel(found, 480, "utilisation", "share of device time that went into results", log=False)]  # fmt: skip
    key = [
        f'<text x="{70 + 110 * i}" y="352" fill="{colour}">{name}</text>'
        for i, (name, colour) in enumerate(_DRAWN.items())
    ]
    said = '<text x="640" y="352" fill="#444">solid: singly; dashed: in rounds</text>'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 370" font-family="sans-serif" font-size="12">\n'
        '<rect width="880" height="370" fill="#fff"/>\n' + "\n".join([*parts, *key, said]) + "\n</svg>\n"
    )


def _panel(found: Sequence[dict[str, Any]], left: int, field: str, title: str, *, log: bool) -> str:
    ticks = (1, 3, 10, 30, 100) if log else (0, 0.25, 0.5, 0.75, 1)

    def x(width: int) -> float:
        return left + 350 * math.log(width) / math.log(WIDTHS[-1])

    def y(value: float) -> float:
        return 300 - 250 * (math.log(max(value, 0.5) / 0.5) / math.log(400) if log else value)

    parts = [f'<text x="{left}" y="30" fill="#222">{title}</text>']
    parts += [
        f'<line x1="{left}" x2="{left + 350}" y1="{y(t):.1f}" y2="{y(t):.1f}" stroke="#ddd"/>'
        f'<text x="{left - 6}" y="{y(t) + 4:.1f}" text-anchor="end" fill="#666">{t:g}</text>' for t in ticks
    ]  # fmt: skip
    parts += [f'<text x="{x(w):.1f}" y="320" text-anchor="middle" fill="#666">{w}</text>' for w in WIDTHS]
    for name, colour in _DRAWN.items():
        for mode, dash in (("single", ""), ("rounds", ' stroke-dasharray="5 4"')):
            mine = {
                r["devices"]: r[field]
                for r in found
                if (r["strategy"], r["mode"]) == (name, mode) and r[field] is not None
            }
            points = " ".join(f"{x(width):.1f},{y(mine[width]):.1f}" for width in sorted(mine))
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
            )
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, print the rows, and draw them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--times", type=Path)
    parser.add_argument("--record", type=Path, action="append", default=[])
    parser.add_argument("--strategy", action="append")
    parser.add_argument("--widest", type=int, default=WIDTHS[-1])
    parser.add_argument("--seeds", type=int, default=_SEEDS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args(argv)
    if asked.record:
        told = [json.dumps(line) for store in asked.record for line in recorded(store)]
        asked.times.write_text("\n".join([*told, ""]))
        return 0
    lines = asked.times.read_text().splitlines() if asked.times else ()
    times_s = [float(json.loads(line)["seconds"]) for line in lines] or PLANTED_S
    kept = asked.out.read_text().splitlines() if asked.out and asked.out.is_file() else ()
    found = [json.loads(line) for line in kept]
    known = {(r["strategy"], r["mode"], r["devices"]) for r in found}
    widths = [width for width in WIDTHS if width <= asked.widest]
    for row in rows(times_s, asked.strategy or strategy_names(), asked.seeds, widths, known):
        found.append(row)
        print(line := json.dumps(row), flush=True)
        if asked.out:
            with asked.out.open("a") as out:
                out.write(line + "\n")
    if asked.picture:
        asked.picture.write_text(picture(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
