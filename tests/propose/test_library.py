"""The library proposer on a task of its own form."""

from pathlib import Path

import pytest
import torch

from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.propose import Proposer, Request
from kernelwright.propose.library import LibraryProposer
from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task

SOURCE = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 33}])
def soft(x):
    return torch.softmax(x, -1)

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 33}])
def scaled(x, factor: float = 2.0):
    return torch.softmax(x * factor, -1)

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 33}, {"rows": 16, "dim": 33}])
def by_rows(x):
    return x.exp() / x.shape[0]

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 33}])
def by_all(x):
    return torch.relu(x) / x.numel() + 2 * x

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 8}, {"rows": 16, "dim": 16}])
def batch_mean(x):
    return (x * x).sum() / x.shape[0]

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 33}])
def by_next(x):
    return x.exp() * (1 / x.shape[0])

@kw.task(x="float32[batch, channels, side, side]",
         workloads=[{"batch": 1, "channels": 4, "side": 6}, {"batch": 2, "channels": 4, "side": 8}])
def instance_norm(x):
    return torch.nn.functional.instance_norm(x)

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 8}])
def inverse(x):
    return torch.linalg.inv(x)
"""


@pytest.fixture
def proposals(tmp_path):
    path = tmp_path / "tasks.py"
    path.write_text(SOURCE)

    def propose(symbol, languages):
        problem = Problem(load_task(f"{path}:{symbol}"))
        request = Request(problem=problem, device=detect(), bounds=(), languages=languages)
        return list(LibraryProposer().propose(request))

    return propose


def test_it_is_a_proposer():
    assert isinstance(LibraryProposer(), Proposer)


def test_templates_that_cover_the_task(proposals):
    found = proposals("soft", ("cpp",))
    assert found[0].name == "softmax"
    assert all(t.language == "cpp" for t in found)
    assert found[0].space.allows(found[0].default())


def test_a_form_that_takes_tensors_alone_is_not_for_a_task_with_a_number(proposals):
    languages = ("cpp", "triton", "opencl")
    assert [t.name for t in proposals("soft", languages)] == ["softmax", "triton/rows", "opencl/rows"]
    assert [t.name for t in proposals("scaled", languages)] == ["softmax", "triton/rows"]


def test_nothing_where_nothing_matches(proposals):
    assert proposals("inverse", ("cpp",)) == []
    assert proposals("soft", ()) == []


def test_a_batch_of_one_is_not_what_is_matched(proposals, tmp_path):
    """There an instance norm looks like a batch norm; what is proposed must be right for two."""
    problem = Problem(load_task(f"{tmp_path / 'tasks.py'}:instance_norm"))
    language, workload = get_language("cpp"), problem.task.split(Split.SEARCH)[1]
    for template in proposals("instance_norm", ("cpp",)):
        candidate = template.render(template.default())
        build = language.build(candidate)
        assert build.artefact is not None, build.diagnostics
        kernel = language.load(candidate, Path(build.artefact), workload.outputs)
        inputs = problem.inputs(workload, 3)
        (want,) = problem.run_oracle(workload, inputs, {}).outputs
        torch.testing.assert_close(kernel(*inputs).double(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("symbol", ["by_rows", "by_all", "batch_mean"])
def test_numbers_that_follow_sizes_are_read_from_them(symbol, proposals, tmp_path):
    problem = Problem(load_task(f"{tmp_path / 'tasks.py'}:{symbol}"))
    (template,) = proposals(symbol, ("cpp",))
    candidate = template.render(template.default())
    build = get_language("cpp").build(candidate)
    first = problem.task.split(Split.SEARCH)[0]
    for axes in ({"rows": 8, "dim": 33}, {"rows": 5, "dim": 70}):
        workload = problem.at(first, axes)
        kernel = get_language("cpp").load(candidate, Path(build.artefact), workload.outputs)
        inputs = problem.inputs(workload, 3)
        (want,) = problem.run_oracle(workload, inputs, {}).outputs
        torch.testing.assert_close(kernel(*inputs).double(), want, rtol=1e-4, atol=1e-5)


def test_nothing_where_numbers_follow_sizes_in_another_way(proposals):
    assert proposals("by_next", ("cpp",)) == []
