"""`optimize` of a whole model, killed at random moments of plan, search and verdict, and begun again each time.

    python -m benchmarks.killed_model [--kills 50] [--a-model 5] [--minutes 1] [--pieces] [--out rows.jsonl]

Searches, judge and model are real. Each model of the series is a fresh store: it is killed (SIGKILL) up to `--a-model`
times, each at a moment drawn from the time that an undisturbed run takes, and then let end. After each kill no
evaluation that was kept before may be gone, and no process of ours may be left; in the end the decision must be the
undisturbed one, a finished search must not have been searched again, and the result must patch the model and answer as
the native one does. With `--pieces` the model branches on a value between its blocks, so that its graph breaks.
A row for each model.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from kernelwright.models import load_model, model_result, patch
from kernelwright.records import RunStatus
from kernelwright.store import Store

_MODEL = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(96), nn.Linear(96, 192), nn.Linear(192, 96)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def build():
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block(), Block()).eval(), (torch.randn(32, 96),)
"""
_BRANCH = """

class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block())

    def forward(self, x):
        x = self.first(x)
        return self.second(x / 2 if x.abs().max() > 50.0 else x)


def build():
    torch.manual_seed(0)
    return Branching().eval(), (torch.randn(32, 96),)
"""
_GONE_S = 20.0


def main(argv: Sequence[str] | None = None) -> int:
    """Kill and begin again until that happened often enough; print and keep a row for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--a-model", type=int, default=5, help="kills of one model, at most")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--pieces", action="store_true", help="a model whose graph breaks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    chance, killed, good = random.Random(asked.seed), 0, True
    with tempfile.TemporaryDirectory() as made:
        model = Path(made) / "blocks.py"
        model.write_text(_MODEL + _BRANCH if asked.pieces else _MODEL)
        begun = time.monotonic()
        first = series(model, Path(made) / "undisturbed", asked.minutes, [])
        whole_s = time.monotonic() - begun
        _tell({"kills": 0, "seconds": round(whole_s, 1), **first}, asked.out)
        while killed < asked.kills:
            count = min(asked.a_model, asked.kills - killed)
            moments = [chance.uniform(1.0, whole_s) for _ in range(count)]
            row = series(model, Path(made) / f"store{killed}", asked.minutes, moments)
            row["same"] = row["decision"] == first["decision"]
            killed += max(row["kills"], 1)
            good = good and row["same"] and not (row["lost"] or row["again"] or row["left"]) and row["right"]
            _tell(row, asked.out)
    return 0 if good else 1


def series(model: Path, store: Path, minutes: float, moments: Sequence[float]) -> dict[str, Any]:
    """Optimise a model, killed at these moments, until it ends; return what was lost on the way, and the answer."""
    row: dict[str, Any] = {"kills": 0, "lost": 0, "again": 0, "left": 0, "moments_s": []}
    kept: set[tuple[str, str]] = set()
    finished: dict[str, str] = {}
    for moment in (*moments, None):
        ended, left = attempt(model, store, minutes, moment)
        runs, now = _kept(store)
        row["lost"] += len(kept - now)
        row["again"] += sum(task in finished.values() and run not in finished for run, task in runs.items())
        row["left"] += left
        kept, finished = now, runs
        if ended:
            break
        row["kills"] += 1
        row["moments_s"].append(round(moment or 0.0, 1))
    result = model_result("last", store)
    row |= {"decision": result.decision, "evaluations": len(kept), "program": "", "right": True}
    if result.improved:
        with Store(store) as open_store:
            row["program"] = open_store.run(result.run).id
        row["right"] = _answers(model, result.run, store)
    return row


def attempt(model: Path, store: Path, minutes: float, moment: float | None) -> tuple[bool, int]:
    """Run the program until it ends or is killed; return whether it ended, and how many of its processes stayed."""
    command = [sys.executable, "-m", "kernelwright", "optimize", f"{model}:build", "--minutes", str(minutes)]
    child = subprocess.Popen(
        [*command, "--store", str(store)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _, said = child.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        others = psutil.Process(child.pid).children(recursive=True)
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        return False, len(psutil.wait_procs(others, timeout=_GONE_S)[1])
    if child.returncode:
        raise SystemExit(f"an attempt failed by itself: {said[-2000:]}")
    return True, 0


def _kept(store: Path) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """Return the finished runs with their tasks, and all evaluations."""
    if not store.exists():
        return {}, set()
    with Store(store) as kept:
        runs = kept.runs()
        evaluations = {(run.id, e.candidate.key) for run in runs for e in kept.evaluations(run.id)}
    return {run.id: run.task for run in runs if run.status is RunStatus.FINISHED}, evaluations


def _answers(model: Path, run: str, store: Path) -> bool:
    """Tell whether the model, patched with what was accepted, answers as the native one does."""
    loaded = load_model(f"{model}:build")
    with torch.no_grad():
        x = torch.randn_like(loaded.args[0])
        wanted = loaded.module(x)
        with patch(loaded.module, run, store=store) as patched:
            loaded.module(x)
            return torch.allclose(loaded.module(x), wanted, atol=1e-4) and patched.calls == 1


def _tell(row: dict[str, Any], out: Path | None) -> None:
    text = json.dumps(row)
    print(text, flush=True)
    if out is not None:
        with out.open("a") as file:
            file.write(f"{text}\n")


if __name__ == "__main__":
    raise SystemExit(main())
