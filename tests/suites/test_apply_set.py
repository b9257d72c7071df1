"""A kernel as a trace set for FlashInfer-Bench's `apply`: its folders, its solution, and traces of its own verdict."""

import json
from types import SimpleNamespace

import pytest

from kernelwright.cli import main
from kernelwright.devices import detect
from kernelwright.errors import TaskError
from kernelwright.records import Budget, Candidate, Reference, SourceFile, Task
from kernelwright.store import Store
from kernelwright.suites import get_suite, setup, write_apply_set
from kernelwright.suites.flashinferbench import solution_of
from kernelwright.testing import made_up_checkout

RIGHT = "import torch\n\ndef run(x, w):\n    return torch.softmax(x, 1) * w\n"


def made(text):
    return Candidate(sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run")


def test_a_compiled_kernel_is_a_solution_with_its_header():
    source = SourceFile(path="k.cpp", text='#include "kernelwright.h"\n')
    kernel = Candidate(sources=(source,), language="cpp", entry="k.cpp:run", style="destination")
    solution = solution_of(kernel, "scale_n64")
    assert [one["path"] for one in solution["sources"]] == ["k.cpp", "kernelwright.h"]
    assert solution["spec"]["destination_passing_style"] is True


def test_what_is_no_definition_has_no_trace_set(tmp_path):
    reference = Reference(files=(SourceFile(path="a.py", text=RIGHT),), entry="a.py:run", style="function")
    task = Task.model_construct(name="a", form="own", reference=reference)
    with pytest.raises(TaskError, match="which is no definition"):
        write_apply_set(task, made(RIGHT), tmp_path, hardware="cpu", at="now")


@pytest.mark.long
def test_a_trace_set_has_a_trace_with_errors_for_each_size(tmp_path):
    suite, data = get_suite("flashinfer-bench"), made_up_checkout("flashinfer-bench", tmp_path / "data")
    (problem,) = suite.problems(data)
    near = RIGHT.replace("* w", "* w + 1e-4")
    with setup(suite, data) as given, given.task(problem) as task:
        write_apply_set(task, made(near), tmp_path / "set", hardware="cpu", at="2026-01-01T00:00:00")
    (solution,) = (tmp_path / "set/solutions").rglob("*.json")
    assert json.loads(solution.read_text())["definition"] == "scale_n64"
    lines = (tmp_path / "set/traces/scale/scale_n64.jsonl").read_text().splitlines()
    traces = [json.loads(line) for line in lines]
    assert {4, 32} <= {one["workload"]["axes"]["rows"] for one in traces}
    for one in traces:
        assert one["solution"] == solution.stem and one["evaluation"]["status"] == "PASSED"
        assert 0.5e-4 < one["evaluation"]["correctness"]["max_absolute_error"] < 2e-4
        assert one["evaluation"]["correctness"]["max_relative_error"] > 0
        assert one["workload"]["inputs"] == {"x": {"type": "random"}, "w": {"type": "random"}}


def test_the_command_writes_the_accepted_kernel_of_a_run_as_a_trace_set(tmp_path, monkeypatch, capsys):
    """The run is made here, with a kernel that counts as accepted; all that is written is real."""
    data = made_up_checkout("flashinfer-bench", tmp_path / "data")
    suite = get_suite("flashinfer-bench")
    (problem,) = suite.problems(data)
    with setup(suite, data) as given, given.task(problem) as loaded:
        definition = tmp_path / "definition.json"
        definition.write_text(next(f.text for f in loaded.reference.files if f.path == "definition.json"))
        known = loaded.reference.model_copy(update={"origin": str(definition)})
        task = loaded.model_copy(update={"reference": known})
    with Store(tmp_path / "store") as store:
        store.create_run(task, device=detect("cpu").fingerprint, budget=Budget(evaluations=1), seed=0)
    accepted = SimpleNamespace(candidate=made(RIGHT))
    monkeypatch.setattr("kernelwright.search.accepted_of", lambda *_: [accepted])
    words = ["export", "last", "--format", "flashinfer-bench", "--to", str(tmp_path / "set")]
    assert main([*words, "--store", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "set")
    (solution,) = (tmp_path / "set/solutions").rglob("*.json")
    written = json.loads(solution.read_text())
    assert (written["definition"], written["sources"][0]["content"]) == ("scale_n64", RIGHT)
    traces = (tmp_path / "set/traces/scale/scale_n64.jsonl").read_text().splitlines()
    assert all(json.loads(line)["evaluation"]["status"] == "PASSED" for line in traces)
    assert json.loads((tmp_path / "set/definitions/scale/scale_n64.json").read_text())["name"] == "scale_n64"
