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
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from kernelwright.store import Store

from .peer_problems import PROBLEMS, Case
from .search_time import row_of

PEERS = ("eager", "compile", "compile-max-autotune-freezing", "openvino", "onnxruntime")
USUAL = (
    "rms norm of a residual sum", "group norm, silu", "layer norm, gelu", "depthwise 7x7", "softmax of long rows",
    "swiglu mlp, 256 rows", "swiglu mlp, 1 row", "conv 3x3, norm, relu, pool", "attention in four lines",
    "cross entropy",
)  # fmt: skip
"""What people compare first; `--only` names others."""
LINE = "{:28} {:14} {:22} {:30} {:>5} {:>7} {:>7}"
Row = dict[str, Any]


def judged(case: Case, minutes: float) -> Row:
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
        started, store = time.monotonic(), os.environ | {"KERNELWRIGHT_STORE": scratch}
        done = subprocess.run(command, cwd=scratch, env=store, capture_output=True, text=True, check=False)
        row: Row = {"problem": case.name, "minutes": minutes, "seconds": round(time.monotonic() - started, 1)}
        said = done.stdout.strip().splitlines()
        result = json.loads(said[-1]) if said and said[-1].startswith("{") else {}
        names = ("decision", "speedup", "baseline", "reason")
        row |= {name: result[name] for name in names if name in result}
        if done.returncode:
            row |= {"exit": done.returncode, "error": done.stderr.strip()[-400:]}
        with closing(Store(scratch)) as kept:
            row["spent"] = next(filter(None, (row_of(kept, run) for run in kept.runs())), None)
    return row


def table(rows: Sequence[Row]) -> str:
    """Return a line per problem: the verdict, the speedup with its limits, against what, and how the minutes went."""
    head = ("problem", "decision", "speedup", "fastest baseline", "tried", "first", "end")
    lines = [LINE.format(*head)]
    for row in rows:
        speedup, spent = row.get("speedup") or {}, row.get("spent") or {}
        told = "{median:.2f} ({low:.2f} to {high:.2f})".format(**speedup) if speedup.get("low") else "-"
        times = (spent.get(name, "-") for name in ("evaluations", "first_s", "end_s"))
        lines.append(
            LINE.format(*map(str, (row["problem"], row.get("decision"), told, row.get("baseline"), *times)))
        )
    return "\n".join(lines)


def rows_of(path: Path) -> list[Row]:
    """Read saved rows; none where there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Run the problems asked for, saving each row as it comes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("rows.jsonl"), help="where rows go")
    parser.add_argument("--only", action="append", help="a problem's name; repeat for more")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--table", type=Path, help="print rows that were saved")
    options = parser.parse_args()
    if options.table:
        print(table(rows_of(options.table)))
        return
    wanted = options.only or USUAL
    if unknown := set(wanted) - {case.name for case in PROBLEMS}:
        parser.error(f"no problem is called {sorted(unknown)}; they are {[case.name for case in PROBLEMS]}")
    known = {row["problem"] for row in rows_of(options.out)}
    for case in [case for case in PROBLEMS if case.name in wanted and case.name not in known]:
        row = {**judged(case, options.minutes), "threads": torch.get_num_threads(), "peers": list(PEERS)}
        print(table([row]).splitlines()[1], flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
