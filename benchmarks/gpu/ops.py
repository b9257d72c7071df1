"""The library of ops on a GPU: right first, then how fast.

    python -m benchmarks.gpu.ops right --out FOLDER --seconds 85
    python -m benchmarks.gpu.ops time --out FOLDER --seconds 85

`right` calls every op on its cases and every public function, with tensors on the GPU and results poisoned, and holds
them to float64: a process for each family, which is killed at its deadline. `time` times ops at sizes of real models
against eager torch, torch's own fused ops and `torch.compile`. Rows go to `FOLDER/ops-right.jsonl`, `ops-time.jsonl`.
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

from ._ops.sizes import GROUPS
from .about import environment

AT_ONCE = 8
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
                each = min(left - 4, seconds * 0.42)
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


def timed(path: Path, seconds: float, groups: list[str]) -> list[dict[str, Any]]:
    """Compile in processes beside each other, time in one, and return its rows."""
    until = time.monotonic() + seconds
    command = [sys.executable, "-m", "benchmarks.gpu._ops.timed", "--groups"]
    errors = subprocess.DEVNULL
    warming = [
        subprocess.Popen([*command, g, "--warm"], stdout=errors, stderr=errors, start_new_session=True)
        for g in groups
    ]
    while any(p.poll() is None for p in warming) and time.monotonic() < until - seconds * 0.55:
        time.sleep(0.2)
    _end(warming)
    left = until - time.monotonic()
    run = [*command, *groups, "--seconds", str(left - 14), "--out", str(path)]
    with subprocess.Popen(run, start_new_session=True) as process:
        try:
            process.wait(timeout=left - 2)
        except subprocess.TimeoutExpired:
            _end([process])
    return [json.loads(line) for line in path.read_text().splitlines()[1:] if line.endswith("}")]


def _end(processes: "list[subprocess.Popen[bytes]]") -> None:
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def table_of_times(rows: list[dict[str, Any]]) -> None:
    """Print a line for each size: times, and the ratio to the best of the others."""
    peaks = next((row for row in rows if row["op"] == "peaks"), {})
    print(f"copy {peaks.get('copy_gbps')} GB/s, bfloat16 {peaks.get('bf16_tflops')} TFLOP/s")
    for row in rows:
        times = row.get("times_us")
        if not times:
            if row["op"] != "peaks":
                print(f"{row['op']} {row['size']}: {row['status'][:100]}")
            continue
        others = {name: t for name, t in times.items() if name != "ours"}
        best = min(others, key=lambda name: others[name])
        least = max(row["bytes"] / peaks["copy_gbps"] / 1e3, row["flops"] / peaks["bf16_tflops"] / 1e6)
        print(f"{row['op']} {row['size']}: {times['ours']:.1f} us, {others[best] / times['ours']:.2f} x {best}, "
              f"{least / times['ours']:.2f} of the bound, wall {row['wall_us']['ours']:.0f}")  # fmt: skip


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("right", "time"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu"))
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--groups", nargs="*", default=list(GROUPS))
    parser.add_argument("--families", nargs="*", default=list(ops.families()))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    about = {} if options.device == "cpu" else environment("benchmarks.gpu.ops")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"ops-{options.part}.jsonl"
    with path.open("w") as out:
        out.write(json.dumps(about) + "\n")
        out.flush()
        if options.part == "right":
            table(right(out, options.seconds, options.families, options.device))
    if options.part == "time":
        table_of_times(timed(path, options.seconds, options.groups))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
