"""Random programs through the printers: a right kernel passes, a wrong one is found, what has no form is left out."""

import dataclasses

import pytest
from benchmarks.random_graphs import case_of

from benchmarks import random_printers
from kernelwright.compiler.actions import Store
from kernelwright.testing import RandomProgram


def program(line: str) -> RandomProgram:
    return RandomProgram(1, ("torch.randn(5, 130, generator=g)",), (("v0", line),), ("v0",))


def test_a_program_is_printed_under_random_actions_and_only_where_all_of_it_has_a_form() -> None:
    softmax = case_of(program("torch.softmax(x0, 1)"))
    candidate = random_printers.printed(softmax, "cpp")
    assert candidate is not None and candidate.parameters["actions"]
    assert random_printers.printed(case_of(program("x0.double()")), "wgsl") is None


@pytest.mark.needs("C++ compiler")
def test_a_wrong_kernel_is_told_from_a_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one = program("torch.exp(x0) + 2.0")
    monkeypatch.setattr(random_printers, "DRAWN", (Store(),))
    assert random_printers.fault(one, "cpp") is None
    other = case_of(program("torch.exp(x0) + 2.5"))
    monkeypatch.setattr(
        random_printers, "case_of", lambda p: dataclasses.replace(case_of(p), graph=other.graph)
    )
    assert "off by 0.5" in str(random_printers.fault(one, "cpp"))
