"""The benchmark scripts start, say what they need, and fit their own tasks; their figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.library import accepted, one_size, targets

from kernelwright.records import Split
from kernelwright.tasks import load_task

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, and the script would run")
def test_the_gpu_script_says_that_there_is_no_gpu() -> None:
    done = run("benchmarks.gpu")
    assert done.returncode == 4
    assert "no CUDA device" in done.stderr


def test_at_least_forty_tasks_of_two_sizes() -> None:
    names = list(targets([]))
    assert len(names) >= 40
    task = load_task(names[0])
    small, large = one_size(task, "small"), one_size(task, "large")
    assert small.split(Split.SEARCH) != large.split(Split.SEARCH)
    assert len(small.split(Split.SEARCH)) == 1
    assert small.split(Split.HIDDEN) == task.split(Split.HIDDEN)


def test_what_was_not_accepted_counts_as_no_gain(tmp_path: Path) -> None:
    row = {
        "target": "a",
        "size": "small",
        "decision": "inconclusive",
        "speedup": {"median": 3.0, "low": 1, "high": 9},
    }
    assert accepted(row) == 1.0
    assert accepted({**row, "decision": "improved"}) == 3.0
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({**row, "baseline": "eager", "fraction_of_bound": 0.5}) + "\n")
    table = run("benchmarks.library", "--table", str(path)).stdout
    assert "geomean over the better baseline 1.00" in table
