"""The library of ops on a GPU, held to float64.

    python -m benchmarks.gpu.ops --out FOLDER --seconds 85

Calls every op on its cases and every public function, with tensors on the GPU and results poisoned: a process for each
family, which is killed at its deadline. Rows go to `FOLDER/ops-right.jsonl`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

from kernelwright import ops

from .about import environment

AT_ONCE = 6
"""Families that are run at the same time."""
FIRST = ("attention", "scan", "moe", "norms", "lowbit", "loss", "logits", "optim", "kmeans", "sparse")


def right(out: TextIO, seconds: float, names: list[str], device: str) -> list[dict[str, Any]]:
    """Run every family in a process; return the rows."""
    until = time.monotonic() + seconds
    waiting = [n for n in FIRST if n in names] + [n for n in names if n not in FIRST]
    running: dict[str, tuple[subprocess.Popen[bytes], Path, float]] = {}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            left = until - time.monotonic()
            while waiting and len(running) < AT_ONCE and left > 5:
                name = waiting.pop(0)
                each = min(left - 4, seconds * 0.6)
                running[name] = (
                    _started(name, each - 8, device, Path(folder)),
                    Path(folder),
                    time.monotonic() + each,
                )
            for name, (process, _, deadline) in list(running.items()):
                if process.poll() is not None or time.monotonic() > deadline:
                    rows += _ended(name, process, Path(folder), out)
                    del running[name]
            if left <= 5 and not running:
                rows += [{"kind": "family", "family": n, "status": "not run: no time"} for n in waiting]
                break
            time.sleep(0.1)
    return rows


def _started(name: str, seconds: float, device: str, folder: Path) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu._ops.right",
        name,
        "--seconds",
        str(seconds),
        "--device",
        device,
    ]
    environment_of = {
        **os.environ,
        "OMP_NUM_THREADS": "2",
        "KERNELWRIGHT_CXX": "none",
    }  # expected values by references
    with (folder / f"{name}.out").open("wb") as said, (folder / f"{name}.err").open("wb") as errors:
        return subprocess.Popen(
            command, stdout=said, stderr=errors, env=environment_of, start_new_session=True
        )


def _ended(name: str, process: "subprocess.Popen[bytes]", folder: Path, out: TextIO) -> list[dict[str, Any]]:
    """Kill what still runs, and return and write the rows of a family."""
    hung = process.poll() is None
    if hung:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    rows = [
        json.loads(line) for line in (folder / f"{name}.out").read_text().splitlines() if line.endswith("}")
    ]
    if hung or process.returncode:
        last = (folder / f"{name}.err").read_text().splitlines()[-30:]
        rows.append({"kind": "family", "family": name, "status": "killed at its deadline" if hung else
                     f"exit code {process.returncode}", "trace": last})  # fmt: skip
    for row in rows:
        out.write(json.dumps(row) + "\n")
    out.flush()
    return rows


def table(rows: list[dict[str, Any]]) -> None:
    """Print a line for each family: how many were right by what ran, and the first thing that was not."""
    for name in ops.families():
        mine = [row for row in rows if row["family"] == name]
        counts = Counter(
            row["status"] + (f" ({row['ran'].split()[0]})" if row.get("ran") else "") for row in mine if "status" in row
        )  # fmt: skip
        print(f"{name}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
        bad: dict[str, str] = {}
        for row in mine:
            if row.get("status", "right") not in ("right", "refused", "skipped"):
                bad.setdefault(
                    row.get("op", ""), f"{row.get('workload', '')} {row.get('why', row['status'])}"
                )
        for op, why in list(bad.items())[:2]:
            print(f"  {op}: {why[:150]}")


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu"))
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--families", nargs="*", default=list(ops.families()))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    about = {} if options.device == "cpu" else environment("benchmarks.gpu.ops")
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "ops-right.jsonl").open("w") as out:
        out.write(json.dumps(about) + "\n")
        out.flush()
        table(right(out, options.seconds, options.families, options.device))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
