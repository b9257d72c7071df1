"""Problems of `benchmarks.peer_problems` from file to verdict, with every peer to beat.

    python -m benchmarks.peers_judged --out rows.jsonl [--only "softmax of long rows"] [--minutes 2]
    python -m benchmarks.peers_judged --table rows.jsonl

Each is what a user would run: `kernelwright optimize FILE --proposer schedule --minutes 2` with eager, torch.compile,
max-autotune with freezing, OpenVINO and ONNX Runtime as baselines, in a store of its own. A row is the run's own
result, and what kept it from one where it has none. Problems that the file holds are not run again. The machine has to
be idle: what is read off two minutes is as good as what else they are given to.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from kernelwright.store import Store

from .peer_problems import PROBLEMS, Case
from .search_time import row_of

PEERS = ("eager", "compile", "compile-max-autotune-freezing", "openvino", "onnxruntime")
USUAL = (
    "rms norm of a residual sum", "group norm, silu", "layer norm, gelu", "depthwise 7x7", "softmax of long rows",
    "swiglu mlp, 256 rows", "swiglu mlp, 1 row", "conv 3x3, norm, relu, pool", "attention in four lines", "cross entropy",
)  # fmt: skip
"""What people compare first; `--only` names others."""
LINE = "{problem:28} {decision:14} {speedup:24} {against:30} {evaluations:>4} {first_s:>6} {end_s:>6}"


def judged(case: Case, minutes: float) -> dict[str, Any]:
    """Run the search on one problem and return its row."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{case.file_name}.py"
        file.write_text(case.text("float32"))
        command = [sys.executable, "-m", "kernelwright", "optimize", str(file), "--proposer", "schedule"]
        command += [
            "--minutes",
            str(minutes),
            "--json",
            *(part for peer in PEERS for part in ("--baseline", peer)),
        ]
        started = time.monotonic()
        done = subprocess.run(
            command,
            cwd=scratch,
            env=os.environ | {"KERNELWRIGHT_STORE": scratch},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        row: dict[str, Any] = {"problem": case.name, "minutes": minutes, "seconds": round(seconds, 1)}
        last = done.stdout.strip().splitlines()[-1:] or ["{}"]
        result = json.loads(last[0]) if last[0].startswith("{") else {}
        names = ("decision", "speedup", "baseline", "kernel", "reason", "stopped_by", "confidence", "summary")
        row |= {name: result[name] for name in names if name in result}
        if done.returncode:
            row |= {"exit": done.returncode, "error": done.stderr.strip()[-400:]}
        with Store(scratch) as store:
            row |= {"spent": found for run in store.runs() if (found := row_of(store, run))}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return a line per problem."""
    lines = [LINE.format(problem="problem", decision="decision", speedup="speedup", against="fastest baseline",
                         evaluations="n", first_s="first", end_s="end")]  # fmt: skip
    for row in rows:
        speedup, spent = row.get("speedup") or {}, row.get("spent") or {}
        told = "{low:.2f} {median:.2f} {high:.2f}".format(**speedup) if speedup.get("low") else "-"
        lines.append(
            LINE.format(
                problem=row["problem"],
                decision=str(row.get("decision")),
                speedup=told,
                against=str(row.get("baseline")),
                evaluations=spent.get("evaluations", "-"),
                first_s=spent.get("first_s") or "-",
                end_s=spent.get("end_s") or "-",
            )  # fmt: skip
        )
    return "\n".join(lines)


def main() -> None:
    """Run the problems asked for, saving each row as it comes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="where rows go")
    parser.add_argument("--only", action="append", help="a problem's name; repeat for more")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--table", type=Path, help="print rows that were saved")
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    wanted = options.only or USUAL
    if unknown := set(wanted) - {case.name for case in PROBLEMS}:
        parser.error(f"no problem is called {sorted(unknown)}; they are {[case.name for case in PROBLEMS]}")
    kept = (
        [json.loads(line) for line in options.out.read_text().splitlines()]
        if options.out and options.out.exists()
        else []
    )
    known = {row["problem"] for row in kept}
    for name in wanted:
        if name in known:
            continue
        case = next(case for case in PROBLEMS if case.name == name)
        row = {**judged(case, options.minutes), "threads": torch.get_num_threads(), "peers": list(PEERS)}
        print(table([row]).splitlines()[1], flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
