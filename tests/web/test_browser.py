"""A task tuned in Chromium for real, and judged."""

import json

import pytest
from tests.web.cases import TASKS

from kernelwright.cli import main

pytestmark = pytest.mark.needs("Chromium")


def test_kernels_are_tuned_in_the_browser_and_right_on_fresh_inputs(capsys):
    assert main(["web", "tune", f"{TASKS}:linear_silu", "--seconds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["ok"]
    assert found["fresh_error"] <= 1
    assert found["device"]["simd"]
    assert found["rows"][0]["config"]["packed"]
    assert found["rows"][0]["tried"] > 1
    assert len(found["blocks"]["kernels, tuned"]) > 10
