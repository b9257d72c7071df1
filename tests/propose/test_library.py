"""The library proposer on a task of its own form."""

import pytest

from kernelwright.devices import detect
from kernelwright.propose import Proposer, Request
from kernelwright.propose.library import LibraryProposer
from kernelwright.tasks import Problem, load_task

SOURCE = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 33}])
def soft(x):
    return torch.softmax(x, -1)

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 33}, {"rows": 16, "dim": 33}])
def by_rows(x):
    return x.exp() / x.shape[0]

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


def test_nothing_where_nothing_matches(proposals):
    assert proposals("inverse", ("cpp",)) == []
    assert proposals("soft", ()) == []


def test_nothing_where_constants_follow_sizes(proposals):
    assert proposals("by_rows", ("cpp",)) == []
