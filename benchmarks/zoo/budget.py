"""Minutes that flow to the greatest expected gain against an equal share for each region, replayed on recorded searches.

    python -m benchmarks.zoo.budget --record --only gin,dlrm [--seconds 60] [--most 5] --out searches.jsonl
    python -m benchmarks.zoo.budget searches.jsonl

`--record` searches the most promising regions of each model, one after the other and all for as long, through the judge,
and keeps how good the accepted kernel was after how many seconds of evaluating candidates. The replay spends one budget twice:
as `optimize` does, by what the other models' searches closed of the gap to the bound, and in equal shares. Either way kernels
of regions that overlap exclude each other, and what the rest saves counts.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.zoo.__main__ import HERE, models
from kernelwright.flow import optimize
from kernelwright.models._budget import Stream, kept_of, next_of
from kernelwright.models._device import device_of_models
from kernelwright.models._look import CLOSED, LEAST_SHARE, gain_of
from kernelwright.models._optimize import PROPOSERS
from kernelwright.models._plan import Planned, overlaps_of, planned
from kernelwright.models._task import region_task
from kernelwright.records import Budget, DecisionStatus
from kernelwright.store import Store

SHARES = (0.25, 0.5, 0.75)
"""Budgets of the replay, in parts of what was recorded."""
_TIE = 0.01
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Record searches, or replay them and print what either way saves."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("rows", type=Path, nargs="?")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="", help="categories and models, by comma")
    parser.add_argument("--seconds", type=float, default=60.0, help="wall seconds for each region")
    parser.add_argument("--most", type=int, default=5, help="regions of a model")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    if not asked.record:
        print("\n".join(told([json.loads(line) for line in asked.rows.read_text().splitlines()])))
        return 0
    wanted = set(filter(None, asked.only.split(",")))
    for category, name in models():
        if wanted & {category, name}:
            row = recorded(f"{HERE / category}.py:{name}", asked.seconds, asked.most)
            row = {"model": name, **row, "command": " ".join(["benchmarks.zoo.budget", *sys.argv[1:]])}
            print(json.dumps(row), flush=True)
            if asked.out is not None:
                with asked.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return 0


def recorded(target: str, seconds: float, most: int) -> Row:
    """Search the most promising regions of a model, and return what was accepted after how many seconds."""
    plan = planned(target, device=device_of_models(None))
    rows = plan.plan.regions[:most]
    found = []
    with tempfile.TemporaryDirectory(prefix="budget-") as store:
        for row in rows:
            points, error = _searched(plan, row.region, seconds, Path(store))
            found.append({
                "key": row.region, "label": row.label, "time_us": row.time_us, "bound_us": row.bound_us,
                "cost_s": row.cost_s, "chosen": row.chosen, "points": points, "error": error,
            })  # fmt: skip
    keys = [row.region for row in rows]
    over = {
        key: sorted(others & set(keys)) for key, others in overlaps_of(plan.regions).items() if key in keys
    }
    return {"time_us": plan.plan.time_us, "seconds": seconds, "load": os.getloadavg()[0], "regions": found,
            "overlaps": over}  # fmt: skip


def _searched(plan: Planned, key: str, seconds: float, store: Path) -> tuple[list[list[float]], str]:
    capture, region = plan.regions[key]
    try:
        task = region_task(capture, region, plan.timed[capture.name])
        run = optimize(
            task, budget=Budget(minutes=seconds / 60), proposers=PROPOSERS, device="cpu", store=store
        ).run
    except Exception as error:  # noqa: BLE001  a region that cannot be searched brings nothing, as in `optimize`
        return [], f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    spent, best, points = 0.0, 1.0, []
    with Store(store) as kept:
        for one in kept.evaluations(run):
            spent += one.time_s
            speedup = one.decision.speedup.median if one.decision.speedup else 1.0
            if one.decision.status is DecisionStatus.IMPROVED and one.stage == "full" and speedup > best:
                best = speedup
                points.append([spent, best])
    return points, ""


def told(rows: Sequence[Row]) -> list[str]:
    """Return what a budget saves either way, in parts of a model's time, and how often the flow wins or ties."""
    lines, ends = [], dict.fromkeys(("won", "tied", "lost", "without a kernel"), 0)
    for row in rows:
        closed = closed_of([other for other in rows if other is not row])
        pairs = []
        for share in SHARES:
            budget_s = share * row["seconds"] * len(row["regions"])
            equal = {r["key"]: budget_s / len(row["regions"]) for r in row["regions"]}
            pairs.append((saved(row, flow(row, budget_s, closed)), saved(row, equal)))
        ends[_end(*map(sum, zip(*pairs, strict=True)))] += 1
        each = ", ".join(f"{mine:.3f} / {other:.3f}" for mine, other in pairs)
        lines.append(f"{row['model']}: {each} of the time saved, by expected gain / in equal shares")
    lines.append(f"{len(rows)} models: " + ", ".join(f"{count} {end}" for end, count in ends.items()))
    return lines


def _end(mine: float, other: float) -> str:
    if not mine and not other:
        return "without a kernel"
    return "tied" if abs(mine - other) <= _TIE * len(SHARES) else "won" if mine > other else "lost"


def flow(row: Row, budget_s: float, closed: Sequence[float] = CLOSED) -> dict[str, float]:
    """Return the seconds of each region as `optimize` gives them: a search at a time, where it is worth most.

    Example:
        >>> near = {"key": "a", "time_us": 30.0, "bound_us": 5.0, "cost_s": 10.0, "points": [[5, 2.0]]}
        >>> far = {**near, "key": "b", "bound_us": 25.0, "points": []}
        >>> row = {"time_us": 60.0, "regions": [far, near], "overlaps": {"a": [], "b": []}}
        >>> flow(row, 10.0), flow(row, 20.0)
        ({'b': 0.0, 'a': 10.0}, {'b': 10.0, 'a': 10.0})
    """
    spent = {r["key"]: 0.0 for r in row["regions"]}
    streams = {
        r["key"]: Stream(r["key"], gain_of(r["time_us"], r["bound_us"], closed), r["time_us"], r["cost_s"])
        for r in row["regions"]
    }
    least = LEAST_SHARE * row["time_us"]
    while (left := budget_s - sum(spent.values())) > 0:
        found = next_of(streams.values(), left, _overlaps(row), least)
        if found is None:
            break
        spent[found.key] += found.cost_s
        found.searches += 1
        found.speedup = _speedup(row, found.key, spent[found.key])
    return spent


def closed_of(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Return the share of their gap to the bound that regions closed: tenth, mean and ninetieth; today's without rows."""
    found = sorted(
        (1 - 1 / _speedup(row, r["key"], math.inf)) * r["time_us"] / (r["time_us"] - r["bound_us"])
        for row in rows
        for r in row["regions"]
        if r["time_us"] > r["bound_us"]
    )
    if not found:
        return CLOSED
    tenth = len(found) // 10
    return found[tenth], sum(found) / len(found), found[-1 - tenth]


def saved(row: Row, spent: dict[str, float]) -> float:
    """Return the part of the model's time that the kernels save which were accepted within these seconds."""
    gains = {
        r["key"]: r["time_us"] * (1 - 1 / _speedup(row, r["key"], spent[r["key"]])) for r in row["regions"]
    }
    return sum(gains[key] for key in kept_of(gains, _overlaps(row))) / float(row["time_us"])


def _overlaps(row: Row) -> dict[str, frozenset[str]]:
    return {key: frozenset(others) for key, others in row["overlaps"].items()}


def _speedup(row: Row, key: str, seconds: float) -> float:
    points = next(r["points"] for r in row["regions"] if r["key"] == key)
    return max((speedup for at, speedup in points if at <= seconds), default=1.0)


if __name__ == "__main__":
    raise SystemExit(main())
