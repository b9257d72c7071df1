"""`kernelwright ops`: the list, the builds, and verification by the judge, which catches wrong kernels."""

import json

import pytest
import torch
from tests.ops.mutants import verdicts

from kernelwright import ops
from kernelwright.api import ops as api
from kernelwright.cli import main
from kernelwright.cli._common import Common
from kernelwright.cli.ops import _judged, _meant
from kernelwright.errors import InputError
from kernelwright.records import Task


def events(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_the_list_says_what_runs_here(capsys):
    assert main(["ops", "list", "kmeans", "--json"]) == 0
    *found, last = events(capsys.readouterr().out)
    assert {one["op"] for one in found} >= {"kmeans_assign", "kmeans_step"}
    assert {one["runs"] for one in found} == {"kernel"}
    assert all(one["gpu"] in ("triton", "reference") for one in found)
    assert last["ops"] == len(found)


def test_a_build_is_found_again(capsys):
    assert main(["ops", "build", "kmeans"]) == 0
    assert main(["ops", "build", "kmeans"]) == 0
    assert capsys.readouterr().out.endswith("kmeans: in the cache\n")


def test_ops_and_cases_are_named_to_list_and_build_as_to_verify(capsys):
    assert main(["ops", "list", "kmeans_step-2", "rope", "--json"]) == 0
    *found, _ = events(capsys.readouterr().out)
    assert [one["op"] for one in found if one["family"] == "kmeans"] == ["kmeans_step"]
    assert {one["family"] for one in found} == {"kmeans", "rope"}
    assert main(["ops", "build", "kmeans_step", "kmeans"]) == 0
    assert capsys.readouterr().out.count("kmeans: ") == 1
    assert len(_meant(("all",))) == len(_meant(())) > 15


@pytest.mark.parametrize("ask", [ops.explain, ops.watch])
def test_what_is_no_call_is_refused_with_an_example(ask):
    with pytest.raises(
        InputError, match="call is a Tensor; expected a function without arguments, such as `lambda: ops"
    ):
        ask(torch.ones(3))


def test_unknown_families_and_missing_ones_are_named(capsys):
    assert main(["ops", "build", "kmaens"]) == 2
    assert "did you mean 'kmeans'" in capsys.readouterr().err
    assert main(["ops", "verify"]) == 2
    assert "needs the name of a family" in capsys.readouterr().err
    assert main(["ops", "verify", "kmeans", "kmeans_stop", "--screen"]) == 2
    said = capsys.readouterr()
    assert "did you mean 'kmeans_step'" in said.err and not said.out, "before the first is judged"


def test_an_op_or_a_case_of_one_is_verified_by_itself(monkeypatch):
    monkeypatch.setattr(api, "judge", lambda *_, **__: None)
    monkeypatch.setattr(api, "admit", lambda _: None)
    monkeypatch.setattr(api, "task_of", lambda *_: Task.model_construct(workloads=()))
    monkeypatch.setattr(api, "Problem", lambda _: None)

    def judged(*names):
        return [one.op for one in _judged(names, ("eager",), True, Common())]

    assert judged("kmeans_step-2", "kmeans_assign") == ["kmeans_step-2", "kmeans_assign", "kmeans_assign-2"]
    assert judged("rope") == ["rope"]


MUTANTS = {
    ("kmeans", "kmeans_assign"): {
        "the last panel left out": (
            "if (c.rows <= W) assign",
            "c.rows -= c.rows > W; if (c.rows <= W) assign",
        ),
        "later of equals": ("other < v", "other > v"),
        "half the bias": ("-0.5 * squares", "-0.25 * squares"),
        "distance without the tail": ("if (k < out.inner) step", "if (false) step"),
    },
    ("loss", "linear_cross_entropy"): {
        "a sum that is not scaled to the new maximum": ("select(best == higher, sum, sum * share)", "sum"),
        "a logit of the target that is not found in the last lane": (
            "== static_cast<int32_t>(s.row)",
            "== static_cast<int32_t>(s.row + 1)",
        ),
    },
}
"""Wrong kernels, each one edit away from the right one, by family and op."""


@pytest.mark.long
@pytest.mark.parametrize(("family", "op"), MUTANTS, ids=str)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(family, op, tmp_path):
    found = verdicts(family, op, MUTANTS[family, op], tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(MUTANTS[family, op], "rejected")
