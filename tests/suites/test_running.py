"""Searching a benchmark: what is kept, what is continued, and a kernel of ours under the benchmark's rules."""

import json

import pytest
import torch

from kernelwright.cli import main
from kernelwright.errors import StoreError
from kernelwright.flow import Event
from kernelwright.records import Budget, Candidate, SourceFile
from kernelwright.suites import (
    Journal,
    Searching,
    SuiteProblem,
    _search,
    get_suite,
    sampled,
    search_all,
    setup,
    theirs_of,
)
from kernelwright.suites._submission import submission_of
from kernelwright.testing import made_up_checkout

LINEAR_RELU = """
#include "kernelwright.h"
KW_KERNEL(run) {
  auto x = args.tensor<const float>(0), w = args.tensor<const float>(1), b = args.tensor<const float>(2);
  auto out = args.tensor<float>(3);
  int64_t rows = x.shape(0), inner = x.shape(1), columns = w.shape(0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float sum = b[j];
      for (int64_t k = 0; k < inner; ++k) sum += x[i * inner + k] * w[j * inner + k];
      out[i * columns + j] = sum > 0 ? sum : 0;
    }
}
"""


def searching(**arguments):
    return Searching(Budget(minutes=1), arguments)


def function(text, language="torch", **fields):
    return Candidate(
        sources=(SourceFile(path="k.py", text=text),), language=language, entry="k.py:run", **fields
    )


@pytest.fixture
def data(tmp_path):
    return made_up_checkout("kernelbench", tmp_path / "checkout")


@pytest.fixture
def searches(monkeypatch):
    """Replace the optimiser: each search finds nothing, and says which run it was."""
    made = []

    def optimize(task, *, on_event, **_):
        made.append(task.name)
        on_event(Event(event="run", run=f"r{len(made)}", elapsed_s=0.0))
        if task.name == "2_Max_Subtract" and made.count(task.name) == 1:
            raise KeyboardInterrupt("SIGTERM")
        return f"r{len(made)}"

    def found(given, run):
        return _search.unknown("nothing was found", str(run)), None

    monkeypatch.setattr(_search, "optimize", optimize)
    monkeypatch.setattr(_search, "_found", found)
    monkeypatch.setattr(_search, "_measure_once", lambda device: None)
    monkeypatch.setattr(_search, "_continued", lambda given, run, follow: f"continued {run}" if run else None)
    return made


def test_an_interrupted_run_continues_the_search_under_way_and_repeats_none(data, tmp_path, searches):
    suite, rows = get_suite("kernelbench"), tmp_path / "rows.jsonl"
    problems = suite.problems(data)
    with setup(suite, data) as given:
        with pytest.raises(KeyboardInterrupt):
            list(search_all(given, problems, searching(), Journal(rows)))
        assert searches == ["1_Softmax", "1_Linear_ReLU", "2_Max_Subtract"]
        rows.write_bytes(rows.read_bytes() + b'{"key": "cut')  # as a kill leaves it
        found = list(search_all(given, problems, searching(), Journal(rows)))
        assert searches == ["1_Softmax", "1_Linear_ReLU", "2_Max_Subtract"]
        assert [r.ours.run for r in found] == ["r1", "r2", "continued r3"]
        list(search_all(given, problems[:1], searching(seed=1), Journal(rows)))
    assert searches[3:] == ["1_Softmax"]  # another seed is another search


def test_one_problem_that_fails_stops_nothing_and_a_broken_store_stops_all(
    data, tmp_path, searches, monkeypatch
):
    (data / "KernelBench/level1/0_Broken.py").write_text("raise RuntimeError('no')\n")
    suite = get_suite("kernelbench")
    problems = [p for p in suite.problems(data) if p.group == "level1"]
    with setup(suite, data) as given:
        broken, fine = search_all(given, problems, searching(), Journal())
        assert "RuntimeError" in broken.ours.reason
        assert broken.theirs.status == "unknown"
        assert fine.ours.run == "r1"

        def full(*_, **__):
            raise StoreError("the disk is full")

        monkeypatch.setattr(_search, "optimize", full)
        with pytest.raises(StoreError, match="full"):
            list(search_all(given, problems, searching(), Journal()))


def test_no_problem_is_begun_that_could_end_too_late(data, searches):
    suite = get_suite("kernelbench")
    with setup(suite, data, minutes=1.0) as given:
        assert list(search_all(given, suite.problems(data), searching(), Journal(), ends_s=0.0)) == []
    assert searches == []


def test_a_run_that_the_store_lost_is_begun_again(data, tmp_path):
    suite = get_suite("kernelbench")
    with setup(suite, data, store=tmp_path / "store") as given:
        assert _search._continued(given, "261125-000000-abcdef", lambda event: None) is None


def test_a_sample_is_stratified_and_deterministic():
    known = [
        SuiteProblem(suite="s", name=f"{group}/{i}", group=group, file="f")
        for group, size in (("a", 60), ("b", 30), ("c", 10))
        for i in range(size)
    ]
    ten = sampled(known, 10, seed=1)
    assert [sum(p.group == g for p in ten) for g in "abc"] == [6, 3, 1]
    assert sampled(known[::-1], 10, seed=1) == ten[::-1]
    assert set(ten) < set(sampled(known, 20, seed=1))
    assert sampled(known, 10, seed=2) != ten
    assert len(sampled(known, 500, seed=1)) == 100


def test_kernels_of_ours_are_judged_in_the_benchmarks_form(data):
    suite = get_suite("kernelbench")
    problem = next(p for p in suite.problems(data) if "Linear" in p.name)
    plain = function(
        "import torch\ndef run(x, weight, bias):\n    return torch.relu(x @ weight.t() + bias)\n"
    )
    packed = function(
        "import torch\ndef prepare(weights):\n"
        "    return weights['linear.weight'].t().contiguous(), weights['linear.bias']\n"
        "def run(x, packed):\n    return torch.relu(torch.addmm(packed[1], x, packed[0]))\n"
    )
    wrong = function("def run(x, weight, bias):\n    return x @ weight.t()\n")
    with setup(suite, data) as given, given.task(problem) as task:
        said = [
            theirs_of(given, problem, task, suite.submission(task, c)).status for c in (plain, packed, wrong)
        ]
        assert suite.submission(task, function("", "opencl")) is None
    assert said == ["correct", "correct", "wrong"]


def test_a_submission_packs_weights_again_when_they_change():
    kernel = function(
        "def prepare(weights):\n    return [w * 2 for w in weights.values()]\n"
        "def run(x, packed):\n    return x * packed[0]\n"
    )
    found = {}
    exec(submission_of(None, kernel, "").text, found)
    weight, x = torch.ones(()), torch.ones(())
    assert found["found_kernel"]((x,), {"w": weight}) == 2
    weight.fill_(3.0)
    assert found["found_kernel"]((x,), {"w": weight}) == 6
    assert found["found_kernel"]((x,), {"w": torch.ones(()) * 5}) == 10


@pytest.mark.needs("C++ compiler")
def test_a_compiled_kernel_is_judged_in_the_benchmarks_form(data):
    suite = get_suite("kernelbench")
    problem = next(p for p in suite.problems(data) if "Linear" in p.name)
    source = SourceFile(path="k.cpp", text=LINEAR_RELU)
    kernel = Candidate(sources=(source,), language="cpp", entry="k.cpp:run", style="destination")
    with setup(suite, data) as given, given.task(problem) as task:
        found = theirs_of(given, problem, task, suite.submission(task, kernel))
    assert found.status == "correct", found.message
    assert found.speedup


def run_words(data, tmp_path):
    """Return the words of a run of KernelBench that keeps to itself."""
    store = str(tmp_path / "store")
    return ["suite", "run", "kernelbench", "--device", "cpu", "--data", str(data), "--store", store]


def test_the_command_tells_what_is_done_when_it_is_cut_short(data, tmp_path, searches, capsys):
    words = run_words(data, tmp_path)
    rows = ["--to", str(tmp_path / "rows.jsonl"), "--proposer", "library", "--json"]
    assert main([*words, *rows]) == 130
    told = capsys.readouterr()
    assert "2 of 3 problems are done" in told.err
    assert main([*words, *rows]) == 0
    *lines, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["done"] for line in lines] == [1, 2, 3]
    assert result["problems"] == 3
    assert len(searches) == 3


def test_wrong_words_are_told_before_any_search(data, tmp_path, searches, capsys):
    words = run_words(data, tmp_path)
    for more, said in (
        (["--proposer", "librery"], "library"),
        (["--recipe", "cudaforge"], "--model"),
        (["--total-minutes", "1"], "less than the 3 of one problem"),
        (["--only", "nosuch"], "no problem whose name contains"),
        (["--candidates", str(tmp_path / "none")], "one folder with finished kernels"),
    ):
        assert main([*words, *more]) == 2
        assert said in capsys.readouterr().err
    assert searches == []
