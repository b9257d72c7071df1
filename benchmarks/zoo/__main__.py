"""Plan and optimize the models of the zoo, and make a table.

    python -m benchmarks.zoo [--only vision,llama] [--minutes 4 | --plan] [--baseline eager --baseline compile]
                             [--out rows.jsonl]

Each model is a target as a user names it, `benchmarks/zoo/vision.py:resnet`, in a process of its own; it goes through
`kernelwright plan`, and without `--plan` through `kernelwright optimize`, which judges it end to end; what was improved goes
through the drift gate (`benchmarks.zoo.gate`). A row is written to `--out` as soon as it is known, and models that are there
already are left out. Needs transformers, diffusers and torch_geometric.
"""

import argparse
import ast
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from kernelwright.system.waiting import got_share

HERE = Path(__file__).parent
CATEGORIES = ("dense", "mixture", "recurrent", "diffusion", "vision", "audio", "relational", "science")
_PLAN_S = 900.0
_GATE_S = 300.0
_MORE_S = 240.0
"""Seconds beyond its minutes after which a model is given up."""
_PACKAGES = re.compile(r"/\S*?/site-packages/")
"""Where packages lie here, which says nothing elsewhere."""
Row = dict[str, Any]


def models() -> Iterator[tuple[str, str]]:
    """Yield category and name of every model.

    Example:
        >>> ("vision", "resnet") in set(models()), len(list(models())) >= 46
        (True, True)
    """
    for category in CATEGORIES:
        for node in ast.parse((HERE / f"{category}.py").read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield category, node.name


def main(argv: Sequence[str] | None = None) -> int:
    """Run the models that were asked for, and print the table; the exit code is 1 where one could not be planned."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", default="", help="categories and models, by comma")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--plan", action="store_true", help="plan alone")
    parser.add_argument("--baseline", action="append", default=[])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    wanted = set(filter(None, asked.only.split(",")))
    chosen = [(c, n) for c, n in models() if not wanted or wanted & {c, n}]
    if unknown := wanted - {word for pair in models() for word in pair}:
        parser.error(f"no category or model is called {sorted(unknown)[0]!r}")
    known = _read(asked.out)
    for at, (category, name) in enumerate(chosen):
        if name in known:
            continue
        row = _row(category, name, asked)
        known[name] = row
        print(f"[{at + 1}/{len(chosen)}] {name}: {_line(row)}", file=sys.stderr, flush=True)
        if asked.out is not None:
            with asked.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    rows = [known[name] for _, name in chosen if name in known]
    print(table(rows))
    return int(any("error" in row for row in rows))


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown, and what they come to."""
    lines = [
        "| model | plan, of the processor | graph breaks | forecast over eager | decision | against the best native "
        "| over eager | drift |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        speedup = row.get("speedup")
        gain = (
            f"{speedup['median']:.2f} ({speedup['low'] or 0:.2f} to {speedup['high'] or 0:.2f})"
            if speedup
            else ""
        )
        lines.append(
            f"| {row['category']}/{row['model']} | {row.get('plan_s', 0):.0f} s, "
            f"{_seconds(row.get('plan_processor_s'))} | {len(row.get('breaks', ()))} | {row.get('forecast', 0):.2f} "
            f"| {row.get('error') or row.get('decision', '')} | {gain} | {row.get('eager_speedup') or 0:.2f} "
            f"| {row.get('drift', '')} |"
        )
    judged = [row for row in rows if "decision" in row]
    gains = [row["speedup"]["median"] if row["decision"] == "improved" else 1.0 for row in judged]
    lines.append("")
    lines.append(f"{len(rows)} models, {sum('error' not in r for r in rows)} planned")
    if gains:
        better = sum(row["decision"] == "improved" for row in judged)
        mean = math.exp(sum(map(math.log, gains)) / len(gains))
        lines[-1] += f"; {better} of {len(judged)} improved, geometric mean {mean:.2f} with 1 for the rest"
    gated = [row["drift"] for row in rows if "drift" in row]
    if gated:
        lines[-1] += (
            f"; of {len(gated)} improved ones {gated.count('same')} are the same by the drift gate, "
            + (f"{gated.count('drifted')} drifted, {gated.count('inconclusive')} inconclusive")
        )
    errors = [abs(1 / r["forecast"] - 1 / r["eager_speedup"]) for r in judged if r.get("eager_speedup")]
    if errors:
        lines[-1] += (
            f"; the forecast of the time saved is off by {100 * median(errors):.0f} points in the median"
        )
    piloted = [r for r in judged if r.get("pilot") and r["eager_speedup"]]
    if piloted:
        errors = [abs(1 / r["forecast_of_pilot"] - 1 / r["eager_speedup"]) for r in piloted]
        lines[-1] += f"; after its pilot by {100 * median(errors):.1f} ({len(piloted)} models)"
    return "\n".join(lines)


def _row(category: str, name: str, asked: argparse.Namespace) -> Row:
    target, row = f"{HERE / category}.py:{name}", {"category": category, "model": name}
    begun, spent = time.monotonic(), _processor_s()
    plan = _called(["plan", target, "--device", "cpu"], _PLAN_S)
    if "error" in plan:
        return {**row, **plan}
    row |= {
        "plan_s": time.monotonic() - begun, "plan_processor_s": _processor_s() - spent, "breaks": [_PACKAGES.sub("", told) for told in plan["breaks"]], "native": plan["native"],
        "time_us": plan["time_us"], "bound_us": plan["whole"]["bound_us"] if plan["whole"] else None,
        "reach_us": plan["whole"]["reach_us"] if plan["whole"] else None,
        "regions": len(plan["regions"]), "forecast": _forecast(plan), "planned_s": plan["seconds"],
    }  # fmt: skip
    if asked.plan:
        return row
    row |= {"load": os.getloadavg()[0], "got_share": got_share()}
    baselines = [word for name in asked.baseline for word in ("--baseline", name)]
    with tempfile.TemporaryDirectory(prefix="zoo-") as store:
        minutes = ["--minutes", str(asked.minutes), "--store", store]
        found = _called(
            ["optimize", target, "--device", "cpu", *minutes, *baselines], 60 * asked.minutes + _MORE_S
        )
        if found.get("decision") == "improved":
            row |= _gate(target, found["run"], store)
    if "error" in found:
        return {**row, **found}
    kept = ("decision", "speedup", "baseline", "eager_speedup", "reason", "ended", "seconds")
    row |= {"pilot": found["pilot"], "forecast_of_pilot": found["expected"][1]}
    untold = [f"{tried['label']}: {tried['reason']}" for tried in found["regions"] if not tried["kept"]]
    return {
        **row,
        **{key: found[key] for key in kept},
        "regions_tried": len(found["regions"]),
        "not_kept": untold,
    }


def _seconds(found: float | None) -> str:
    return "not measured" if found is None else f"{found:.0f} s"


def _processor_s() -> float:
    """Return the processor seconds of all child processes that ended: what a plan takes, whatever else runs here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _forecast(plan: Row) -> float:
    whole = plan["whole"]
    return plan["time_us"] / (plan["time_us"] - whole["gain"]["expected"]) if whole else plan["expected"][1]


def _called(words: Sequence[str], most_s: float) -> Row:
    """Return what a command of Kernelwright prints as its result, or an error."""
    return _told([sys.executable, "-m", "kernelwright", *words, "--json"], most_s)


def _gate(target: str, run: str, store: str) -> Row:
    """Return what the drift gate says of an improved model."""
    command = [sys.executable, "-m", "benchmarks.zoo.gate", target, run, "--store", store]
    found = _told(command, _GATE_S)
    return {"drift": "inconclusive", "drift_reason": found["error"]} if "error" in found else found


def _told(command: Sequence[str], most_s: float) -> Row:
    """Return the result that a command prints as a line of JSON, or an error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most_s, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer after {most_s:.0f} s"}
    for line in reversed(done.stdout.splitlines()):
        found: Row = json.loads(line) if line.startswith("{") else {}
        if found.get("event") == "result" or "drift" in found:
            return found
    said = (done.stderr.strip() or done.stdout.strip() or f"ended with {done.returncode}").splitlines()
    return {"error": said[-1][:300]}


def _line(row: Row) -> str:
    if "error" in row:
        return str(row["error"])
    if "decision" not in row:
        return f"planned in {row['plan_s']:.0f} s ({row['plan_processor_s']:.0f} s of the processor), {row['forecast']:.2f} times as fast as eager expected"
    gain = f", {row['speedup']['median']:.2f} against {row['baseline']}" if row["speedup"] else ""
    return f"{row['decision']}{gain}{', ' + row['drift'] if 'drift' in row else ''}"


def _read(path: Path | None) -> dict[str, Row]:
    if path is None or not path.is_file():
        return {}
    return {row["model"]: row for row in map(json.loads, path.read_text().splitlines())}


if __name__ == "__main__":
    raise SystemExit(main())
