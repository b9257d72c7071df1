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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from kernelwright import ops

from ._ops.sizes import GROUPS
from .about import environment

TIMING = 3
"""Processes that time; one has the GPU at a time."""
SHARES = {"attention": 3, "lowbit": 3, "moe": 2, "norms": 2, "kmeans": 2, "rope": 2}
"""Families whose cases are shared by several processes: their kernels take long to compile."""


@dataclass
class Job:
    """Some cases of a family, in a process."""

    family: str
    share: int
    shares: int
    deadline: float = 0.0
    process: "subprocess.Popen[bytes] | None" = None

    def start(self, seconds: float, device: str, folder: Path) -> None:
        """Start the process."""
        command = [
            sys.executable, "-m", "benchmarks.gpu._ops.right", self.family, "--seconds", str(seconds - 8),
            "--device", device, "--share", str(self.share), str(self.shares),
        ]  # fmt: skip
        by_references = {**os.environ, "OMP_NUM_THREADS": "2", "KERNELWRIGHT_CXX": "none"}  # what is expected
        out, err = self._files(folder)
        with out.open("wb") as said, err.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=said, stderr=errors, env=by_references, start_new_session=True
            )
        self.deadline = time.monotonic() + seconds

    def rows(self, folder: Path) -> list[dict[str, Any]] | None:
        """Return what it found, killed if it is late; None while it runs."""
        assert self.process is not None
        late = self.process.poll() is None
        if late and time.monotonic() < self.deadline:
            return None
        _end([self.process])
        out, err = self._files(folder)
        rows = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
        if late or self.process.returncode:
            status = "killed at its deadline" if late else f"exit code {self.process.returncode}"
            last = err.read_text().splitlines()[-30:]
            rows.append({"kind": "family", "family": self.family, "status": status, "trace": last})
        return rows

    def _files(self, folder: Path) -> tuple[Path, Path]:
        return folder / f"{self.family}{self.share}.out", folder / f"{self.family}{self.share}.err"


def right(out: TextIO, seconds: float, names: list[str], device: str, at_once: int) -> list[dict[str, Any]]:
    """Run every family in processes; return the rows."""
    until = time.monotonic() + seconds
    jobs = [Job(name, i, SHARES.get(name, 1)) for name in names for i in range(SHARES.get(name, 1))]
    waiting, running = sorted(jobs, key=lambda job: -job.shares), list[Job]()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            left = until - time.monotonic()
            while waiting and len(running) < at_once and left > 12:
                running.append(waiting.pop(0))
                running[-1].start(min(left - 4, max(40.0, seconds * 0.5)), device, Path(folder))
            for job in list(running):
                rows = job.rows(Path(folder))
                if rows is not None:
                    running.remove(job)
                    found += rows
                    out.writelines(json.dumps(row) + "\n" for row in rows)
                    out.flush()
            if left <= 12 and not running:
                found += [
                    {"kind": "family", "family": j.family, "status": "not run: no time"} for j in waiting
                ]
                break
            time.sleep(0.1)
    return found


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
    """Time groups in some processes, which have the GPU in turn; return their rows."""
    until = time.monotonic() + seconds
    one_thread = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu._ops.timed", "--groups", *groups[i::TIMING],
             "--seconds", str(seconds - 12), "--out", str(path)], env=one_thread, start_new_session=True,
        ) for i in range(min(TIMING, len(groups)))
    ]  # fmt: skip
    while any(p.poll() is None for p in running) and time.monotonic() < until - 2:
        time.sleep(0.1)
    _end(running)
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
    parser.add_argument("--at-once", type=int, default=8, help="processes of `right` at the same time")
    options = parser.parse_args()
    about = {} if options.device == "cpu" else environment("benchmarks.gpu.ops")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"ops-{options.part}.jsonl"
    with path.open("w") as out:
        out.write(json.dumps(about) + "\n")
        out.flush()
        if options.part == "right":
            table(right(out, options.seconds, options.families, options.device, options.at_once))
    if options.part == "time":
        table_of_times(timed(path, options.seconds, options.groups))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
