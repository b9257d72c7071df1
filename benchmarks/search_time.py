"""Where the time of finished runs went: wall seconds by stage, and what no stage accounts for.

    python -m benchmarks.search_time STORE [--out rows.jsonl]

STORE is a store's folder (`KERNELWRIGHT_STORE`). A row is a run: its evaluations, and how many a minute of exploration,
when the first kernel was correct (`first_s`), when the exploration and the run ended, and seconds by stage. `vet` is
the part of verifying that went into checking templates further during the exploration. `inductor` is what the
candidates of torch.compile took to arrive, less their own stages. `rest` is what nothing above accounts for: proposing,
and waiting for builds; as these run side by side, `build` adds up more than was waited for, and `rest` may be negative.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from kernelwright.records import Run
from kernelwright.store import Store

Row = dict[str, Any]


def row_of(store: Store, run: Run) -> Row | None:
    """Return the row of one run; None if it did not end by itself."""
    events = [dict(e) for e in store.events(run.id)]
    last = {str(e["event"]): e for e in events}
    if "spent" not in last or "explored" not in last:
        return None
    evaluations = {e.candidate.key: e for e in store.evaluations(run.id) if not e.cached}
    stages, explored = _seconds(last["spent"]["stages_s"]), _seconds(last["explored"]["stages_s"])
    screened = [e.stages_s.get("verify", 0.0) for e in evaluations.values() if e.stage == "screen"]
    finals = sum(e.stage == "full" for e in evaluations.values())
    own_s = sum(screened) + finals * (median(screened) if screened else 0.0)
    vet_s = max(0.0, explored.get("verify", 0.0) - own_s)
    inductor_s, before_s = 0.0, _elapsed_s(last["hints"]) if "hints" in last else 0.0
    begun_s = before_s
    for event in events:
        if event["event"] != "evaluation":
            continue
        now_s, known = _elapsed_s(event), evaluations.get(str(event["candidate"]))
        if event["proposer"] == "inductor" and not event["cached"] and known is not None:
            inductor_s += max(0.0, now_s - before_s - sum(known.stages_s.values()))
        before_s = now_s
    end_s = _elapsed_s(last["spent"])
    first = next((_elapsed_s(e) for e in events if e["event"] == "verified"), None)
    stages |= {"verify": stages.get("verify", 0.0) - vet_s, "vet": vet_s, "inductor": inductor_s}
    return {
        "task": run.task_name, "run": run.id, "stopped_by": last["explored"]["stopped_by"],
        "evaluations": last["explored"]["evaluations"], "per_minute": _per_minute(last["explored"], begun_s),
        "first_s": first, "begun_s": round(begun_s, 2),
        "explored_s": _elapsed_s(last["explored"]), "end_s": end_s,
        "stages_s": {name: round(s, 2) for name, s in stages.items()},
        "rest_s": round(end_s - begun_s - sum(stages.values()), 2),
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return mean and median by stage over the runs, the longest first."""
    names = {name for row in rows for name in row["stages_s"]}
    columns = {name: [row["stages_s"].get(name, 0.0) for row in rows] for name in names}
    columns |= {name: [row[f"{name}_s"] for row in rows] for name in ("begun", "rest")}
    lines = [
        f"{'stage':12} {'mean':>7} {'median':>7}  seconds of {mean(r['end_s'] for r in rows):.1f} in the mean"
    ]
    for name, found in sorted(columns.items(), key=lambda item: -mean(item[1])):
        lines.append(f"{name:12} {mean(found):7.1f} {median(found):7.1f}")
    first = [row["first_s"] for row in rows if row["first_s"] is not None]
    told = f"; first correct kernel after {median(first):.1f} s" if first else ""
    count = median(row["evaluations"] for row in rows)
    pace = median(row["per_minute"] for row in rows)
    return "\n".join([*lines, f"{len(rows)} runs, medians: {count:g} evaluations, {pace:.1f} a minute{told}"])


def _per_minute(explored: Mapping[str, Any], begun_s: float) -> float:
    """Return the evaluations a minute of the exploration, its start-up and the first kernel's included."""
    return round(60 * explored["evaluations"] / max(_elapsed_s(explored) - begun_s, 1e-9), 2)


def _elapsed_s(event: Mapping[str, object]) -> float:
    return float(str(event["elapsed_s"]))


def _seconds(found: object) -> dict[str, float]:
    assert isinstance(found, Mapping), "stages are seconds by name"
    return {str(name): float(seconds) for name, seconds in found.items()}


def main() -> None:
    """Print the table of a store's finished runs, and write their rows where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, help="JSON lines file to write the rows to")
    given = parser.parse_args()
    if not given.store.is_dir():
        parser.error(
            f"{str(given.store)!r} is no folder; expected that of a store, with kernelwright.db in it"
        )
    with Store(given.store) as store:
        rows = [row for run in store.runs() if (row := row_of(store, run)) is not None]
    if given.out:
        given.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(table(rows) if rows else "no finished run")


if __name__ == "__main__":
    main()
