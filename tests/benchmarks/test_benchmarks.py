"""The benchmark scripts start, say what they need, and fit their own tasks; their figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.library import by_size, gain, of_sizes, targets

from benchmarks import library
from kernelwright.records import Bound, BoundTerm, Build, Split
from kernelwright.tasks import load_task
from kernelwright.testing import PlantedJudge, planted_candidate, planted_task

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


@pytest.mark.needs("no GPU")
@pytest.mark.long
def test_the_gpu_script_says_that_there_is_no_gpu() -> None:
    done = run("benchmarks.gpu.library")
    assert done.returncode == 4
    assert "no CUDA device" in done.stderr


def test_at_least_forty_tasks_of_two_sizes() -> None:
    names = list(targets())
    assert len(names) >= 40
    task = load_task(names[0])
    small, large = of_sizes(task, ["small"]), of_sizes(task, ["large"])
    assert of_sizes(task, library.SIZES) == task
    assert small.split(Split.SEARCH) != large.split(Split.SEARCH)
    assert len(small.split(Split.SEARCH)) == 1
    assert small.split(Split.HIDDEN) == task.split(Split.HIDDEN)


def row(**given: object) -> library.Row:
    speedup = {"median": 3.0, "low": 1.0, "high": 9.0}
    return {
        "target": "a.py:a", "size": "small", "decision": "inconclusive", "speedup": speedup, "baseline": "eager",
        "fraction_of_bound": 0.5, "binds": "dram", "in_cache": False, **given,
    }  # fmt: skip


@pytest.mark.long
def test_what_was_not_accepted_counts_as_no_gain(tmp_path: Path) -> None:
    assert gain(row()) == 1.0
    assert gain(row(decision="improved")) == 3.0
    path = tmp_path / "rows.jsonl"
    rows = [row(), row(decision="improved", binds="float32"), row(binds="l2-read", in_cache=True)]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    table = run("benchmarks.library", "--table", str(path)).stdout
    assert "all: 3 rows, 1 improved, 0 of them slower, geomean over the better baseline 1.44" in table
    assert "  out of cache (target: 0.7 of the bound): 1 rows, 0 improved" in table
    assert "  in cache: 1 rows" in table
    assert "operations or the launch: 1 rows, 1 improved" in table


def test_rows_that_are_there_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(
        target: str, sizes: list[str], evaluations: int, minutes: float, store: Path
    ) -> list[library.Row]:
        asked.append((target.split("/")[-1], sizes, minutes))
        return [row(target=target.split("/")[-1], size=size) for size in sizes]

    monkeypatch.setattr(library, "measure", measure)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row(target="softmax.py:softmax", size="large")) + "\n")
    words = [
        "library",
        "--out",
        str(path),
        "--only",
        "softmax",
        "--tasks",
        "softmax,log_softmax",
        "--minutes",
        "8",
    ]
    monkeypatch.setattr(sys, "argv", words)
    library.main()
    assert [a[:2] for a in asked] == [
        ("softmax.py:softmax", ["small"]),
        ("softmax.py:log_softmax", ["small", "large"]),
    ]
    assert asked[0][2] <= 4.0 < asked[1][2], "what one task leaves goes to the next"
    library.main()
    assert len(asked) == 2
    assert len(library.read(path)) == 4


def test_a_row_says_what_the_user_gets() -> None:
    built = Build(status="ok")
    judge = PlantedJudge()
    good = judge.accept(planted_candidate({"w": 50.0}), built)
    better = judge.screen(planted_candidate({"w": 20.0}), built)
    term = BoundTerm(name="dram-read", amount=10.0, unit="bytes", peak=1e6, source="planted")
    bound = Bound(workload="w", device="d", terms=(term,))
    served = library._row("w", good.candidate.key, [good, better], bound, {"w": 20.0})
    assert (served["decision"], served["time_us"], served["in_cache"]) == ("improved", 50.0, False)
    native = library._row("w", None, [better], bound, {"w": 20.0})
    assert (native["decision"], native["fraction_of_bound"]) == ("inconclusive", 0.1)
    assert native["fraction_of_bound_now"] == 0.2, "of twice the time, with peaks half as high"
    assert by_size(planted_task(workloads={"b": 8, "a": 4}))["small"].name == "a"
