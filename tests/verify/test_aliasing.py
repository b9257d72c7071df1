"""Outputs that share storage: refused, unless the reference's share it at the same sizes."""

import pytest

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, verify

TRANSPOSE = """
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 6, "dim": 24}])
def transpose(x):
    return x.t().contiguous()
"""
EAGER = "def run(x):\n    return x.t().contiguous()\n"
FLAT = "def run(x):\n    return x.view(x.shape[1], 1) if x.shape[0] == 1 else x.reshape(x.shape[::-1])\n"


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "transpose.py"
    path.write_text(TRANSPOSE)
    return Oracle(Problem(load_task(path)))


def test_what_the_reference_shares_at_some_sizes_a_candidate_may_share_there(oracle, pool, make):
    assert not oracle.task.contract.may_alias
    assert any(w.axes.get("rows") == 1 for w in oracle.task.workloads), "where `contiguous` copies nothing"
    found = verify(oracle.problem, *make(EAGER), pool=pool, depth="full", oracle=oracle)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]


def test_where_the_reference_copies_a_view_is_refused(oracle, pool, make):
    found = verify(
        oracle.problem, *make(FLAT), pool=pool, depth="screen", oracle=oracle, disabled=frozenset({"correct"})
    )
    assert (found.status, found.failure) == ("rejected", "aliasing")
