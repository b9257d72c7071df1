"""An author is told where an output is wrong first, and that the layout of an argument is the likely cause."""

import re

import pytest
import torch

from kernelwright.records import Contract, Split
from kernelwright.sandbox import Fetched
from kernelwright.system.waiting import PatientDeadline
from kernelwright.verify import Oracle, Seeds, verify
from kernelwright.verify._explained import first_wrong
from kernelwright.verify._tolerance import output_tolerance
from kernelwright.verify._trial import Trial
from kernelwright.verify.checks import endurance
from kernelwright.verify.checks.correct import compare_outputs

MISREAD = """
def run(x, weight):
    x = torch.as_strided(x, x.shape, (x.shape[1], 1))
    return torch.softmax(x, -1) * weight
"""


@pytest.fixture(scope="module")
def oracle(problem):
    return Oracle(problem)


def off_by_one(case, index):
    output = case.outputs[0].native.clone()
    output[index] += 1
    return compare_outputs("correct", Fetched((output,), (), 0.0), case).message


def test_the_first_wrong_element_is_told_on_a_searched_workload(oracle):
    case = oracle.case(oracle.task.split(Split.SEARCH)[0], 1)
    right = case.outputs[0].native[3, 5].item()
    assert f"first at [3, 5]: {right + 1:.6g} instead of {right:.6g}" in off_by_one(case, ([3, 7], [5, 1]))
    assert "contiguous" not in off_by_one(case, (3, 5))


def test_of_a_hidden_workload_only_the_layout_is_told(oracle):
    apart = [w for w in oracle.task.split(Split.HIDDEN) if any(a.layout != "contiguous" for a in w.arguments)]
    message = off_by_one(oracle.case(apart[0], 1), (0, 0))
    (layout,) = {a.layout for a in apart[0].arguments if a.layout != "contiguous"}
    assert f"'x' is {layout}, which a kernel that takes its memory for contiguous misreads" in message
    assert not re.search(r"\[|\d\.\d", message)


def test_who_misreads_a_layout_is_wrong_there_and_counts_no_calls(problem, make, pool):
    verdict = verify(problem, *make(MISREAD), pool=pool)
    found = next(f for f in verdict.findings if f.status == "fail")
    assert found.check == "correct"
    assert re.match(r"on a hidden workload: .*'x' is (strided|transposed)", found.message)


def test_an_integer_output_has_a_first_place_too():
    whole = torch.arange(6).view(2, 3)
    tolerance = output_tolerance(whole, whole, Contract())
    assert first_wrong(whole.clone().index_fill_(1, torch.tensor([1]), 9), tolerance) == (0, 1)
    assert first_wrong(whole, tolerance) is None


def test_endurance_blames_no_count_where_a_first_call_is_wrong(oracle, make, pool, monkeypatch):
    apart = [w for w in oracle.task.split(Split.HIDDEN) if any(a.layout != "contiguous" for a in w.arguments)]
    case = oracle.case(apart[0], 1)
    monkeypatch.setattr(endurance, "_cheapest", lambda *_: None)
    with Trial(oracle, *make(MISREAD), pool, deadline=PatientDeadline(600), seeds=Seeds()) as trial:
        found = endurance.Endurance().probe(trial, case)
    assert found.check == "correct"
    assert found.message.startswith("on a hidden workload: error")
