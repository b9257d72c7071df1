"""How long a candidate holds up the judge, from the command line: hostile ones, a wrong one, a right one.

    python -m benchmarks.hostile_cost                  # wall seconds, CPU seconds of the judge, what refused it
    python -m benchmarks.hostile_cost --only hang      # one of them
    python -m benchmarks.hostile_cost --repeat 3       # the median of several

Each row is one `kernelwright judge TASK CANDIDATE --json` in a process of its own with a store of its own; the caches
of builds and of measured peaks are shared, and warmed first. A busy machine stretches the wall seconds, for which the
load is printed, but not the goal beside them.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.adversarial.exploit import FOLDER, TASKS

_LIMIT_S = 300.0
_WARM = 3
"""Judgements before the first that counts: while the load is high, peaks are measured again in so many."""
_WRONG = "import torch\n\n\ndef run(x):\n    return torch.zeros_like(x)\n"
_RIGHT = "import torch\n\n\ndef run(x):\n    return x.clamp(min=0)\n"


@dataclass(frozen=True)
class Row:
    """One candidate and the most seconds that it may cost."""

    name: str
    task: str
    candidate: str
    """Name of an exploit, or a source."""
    goal_s: float


ROWS = (
    Row("hang", "cumsum", "hang", 10.0),
    Row("hang at work", "cumsum", "hang_at_work", 10.0),
    Row("fork bomb", "cumsum", "fork_bomb", 5.0),
    Row("memory scan", "softmax", "heap_scan", 5.0),
    Row("honest, wrong", "clip", _WRONG, 2.0),
    Row("honest, right", "clip", _RIGHT, 9.0),
)


@dataclass(frozen=True)
class Cost:
    """What one judgement took."""

    wall_s: float
    cpu_s: float
    verdict: str
    check: str


def judge_once(row: Row, folder: Path, cache: Path) -> Cost:
    """Judge a candidate from the command line, in a store that knows nothing."""
    source = FOLDER / f"{row.candidate}.py"
    if "\n" in row.candidate:
        source = folder / "candidate.py"
        source.write_text(row.candidate)
    line = [
        sys.executable,
        "-m",
        "kernelwright",
        "judge",
        str(TASKS / f"{row.task}.py"),
        f"{source}:run",
        "--json",
    ]
    environment = os.environ | {"KERNELWRIGHT_STORE": str(folder / "store"), "KERNELWRIGHT_CACHE": str(cache)}
    begun, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        line,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_LIMIT_S,
        check=False,
    )
    wall_s, now = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout.splitlines()[-1])
    failed = [f["check"] for f in result.get("findings", ()) if f["status"] == "fail"]
    cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return Cost(wall_s, cpu_s, str(result.get("verdict")), failed[0] if failed else "")


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 where a row costs more than its goal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[r.name for r in ROWS])
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args(arguments)
    over = False
    with tempfile.TemporaryDirectory() as made:
        cache = Path(made) / "cache"
        for _ in range(_WARM):
            with tempfile.TemporaryDirectory() as folder:
                judge_once(ROWS[-1], Path(folder), cache)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(f"{'candidate':15}{'wall s':>8}{'CPU s':>8}{'goal s':>8}  verdict")
        for row in ROWS:
            if given.only not in (None, row.name):
                continue
            costs = []
            for _ in range(given.repeat):
                with tempfile.TemporaryDirectory() as folder:
                    costs.append(judge_once(row, Path(folder), cache))
            wall_s, cpu_s = (
                statistics.median(c) for c in ([c.wall_s for c in costs], [c.cpu_s for c in costs])
            )
            over |= wall_s > row.goal_s
            print(
                f"{row.name:15}{wall_s:8.1f}{cpu_s:8.1f}{row.goal_s:8.0f}  {costs[-1].verdict} {costs[-1].check}",
                flush=True,
            )
        print(f"load {os.getloadavg()[0]:.1f}")
    return int(over)


if __name__ == "__main__":
    raise SystemExit(main())
