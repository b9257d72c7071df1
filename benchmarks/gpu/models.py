"""Whole models on a GPU: planned, optimized end to end, and patched.

    python -m benchmarks.gpu.models --out FOLDER [--seconds 120] [--minutes 1.1] [--only llama,mlp:regions]

Each model is a process of its own, which is ended when the time is up. Some run at once: who times holds the lock of
the device, so that one has the GPU. Rows go to `FOLDER/models.jsonl` as they are known; what a process left on standard
error is in the row that says how it ended. `NAME:regions` searches regions alone.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelwright.devices import detect, peaks_of
from kernelwright.models._optimize import BASELINES

from ._models.one import tried
from .about import environment

MODELS = ("llama", "vit", "mlp", "resnet", "mixed", "mlp:regions", "llama:regions")
"""What is run, the first first."""
_TAIL = 20


class Running:
    """A model in a process."""

    def __init__(self, name: str, folder: Path, asked: argparse.Namespace, rows: Path) -> None:
        self.name, self.began, self.errors = name, time.monotonic(), folder / f"{name.replace(':', '-')}.err"
        model, _, how = name.partition(":")
        self.store = folder / name.replace(":", "-")
        command = [
            sys.executable, "-m", "benchmarks.gpu._models.one", model, "--minutes", str(asked.minutes), "--device",
            asked.device, "--store", str(self.store), "--out", str(rows), "--baselines", asked.baselines,
            *(["--regions"] if how else []),
        ]  # fmt: skip
        few = {**os.environ, "OMP_NUM_THREADS": str(asked.threads), "TORCHINDUCTOR_COMPILE_THREADS": "2"}
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=errors, stderr=errors, env=few, start_new_session=True
            )

    def ended(self, late: bool) -> dict[str, Any] | None:
        """Return how it ended; None while it runs and is not late."""
        code = self.process.poll()
        if code is None and not late:
            return None
        found = []
        if code is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            if self.store.exists():
                found = tried(self.store)
        row: dict[str, Any] = {
            "model": self.name,
            "step": "process",
            "seconds": round(time.monotonic() - self.began, 1),
        }
        row["status"] = "killed at its deadline" if code is None else f"exit code {code}"
        row["tried"] = found
        row["errors"] = self.errors.read_text(errors="replace").splitlines()[-_TAIL:]
        return row


def run(asked: argparse.Namespace, path: Path) -> None:
    """Run the models, so many at once, until the time is up."""
    until = time.monotonic() + asked.seconds
    waiting, running = list(asked.only), list[Running]()
    with tempfile.TemporaryDirectory() as made:
        while waiting or running:
            left = until - time.monotonic()
            while waiting and len(running) < asked.at_once and left > 30:
                running.append(Running(waiting.pop(0), Path(made), asked, path))
            for one in list(running):
                row = one.ended(left <= 0)
                if row is not None:
                    running.remove(one)
                    _write(path, row)
            if left <= 30 and not running:
                for name in waiting:
                    _write(path, {"model": name, "step": "process", "status": "not run: no time"})
                break
            time.sleep(0.1)


def _write(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as out:
        out.write(json.dumps(row) + "\n")


def table(path: Path) -> None:
    """Print a line for each step."""
    for line in path.read_text().splitlines()[1:]:
        row = json.loads(line)
        told = {
            "plan": lambda r: f"{r['time_us']:.0f} us eager, as a whole {r['expected_of_whole']}",
            "result": lambda r: f"{r['decision']}, {(r['speedup'] or {}).get('median')} x {r['baseline']}, over eager "
            f"{r['eager_speedup']}; {len(r['tried'])} tried; {r['reason'][:200]}",
            "patched": lambda r: f"{r['calls']} calls, off by {r['difference']:.3g} of {r['largest']:.3g}, "
            f"{r['native_us']:.0f} us native, {r['patched_us']:.0f} us patched",
        }  # fmt: skip
        said = told[row["step"]](row) if row["status"] == "ran" and row["step"] in told else row["status"]
        print(f"{row['model']} {row.get('by', '')} {row['step']}: {said}")


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu"))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--minutes", type=float, default=1.1, help="of each model, as for `optimize`")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--threads", type=int, default=3, help="of each model's references on the processor")
    parser.add_argument("--baselines", default=",".join(BASELINES), help="native forms that are to be beaten")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "models.jsonl"
    path.write_text(json.dumps(environment("benchmarks.gpu.models")) + "\n")
    begun = time.monotonic()
    peaks = peaks_of(detect(asked.device))  # measured once, before others want them
    _write(path, {
        "model": "", "step": "peaks", "status": "ran", "seconds": round(time.monotonic() - begun, 1),
        "peaks": peaks.model_dump(mode="json"),
    })  # fmt: skip
    run(asked, path)
    table(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
