"""Definitions whose own sizes need more memory than there is: another problem, which says so."""

import json
from types import SimpleNamespace

import pytest

from kernelwright.suites import diagnose, get_suite, setup
from kernelwright.suites._scaled import scaled
from kernelwright.testing import made_up_checkout


def definition(**sizes):
    axes = {name: {"type": "const", "value": value} for name, value in sizes.items()}
    literals = ", ".join(map(str, sizes.values()))
    return json.dumps({"name": "moe", "axes": axes, "reference": f"def run(x):\n    sizes = ({literals})"})


def test_choices_stay_and_experts_are_not_fewer_than_are_chosen():
    text = definition(num_experts=16, hidden_size=512, num_hidden_blocks=64, top_k=6)
    small = json.loads(scaled(text, lambda axes: axes["hidden_size"] <= 128))
    sizes = {name: axis["value"] for name, axis in small["axes"].items()}
    assert sizes == {"num_experts": 16, "hidden_size": 128, "num_hidden_blocks": 16, "top_k": 6}
    assert small["name"] == "moe_scaled_4" and "(16, 128, 16, 6)" in small["reference"]
    assert small["notes"][0].startswith("shrunk hidden_size from 512 to 128")


@pytest.mark.parametrize("sizes", [{"hidden_size": 30, "n": 45}, {"hidden_size": 64, "top_k": 64}])
def test_what_cannot_be_divided_alike_stays_as_it_is(sizes):
    text = definition(**sizes)
    assert scaled(text, lambda axes: axes["hidden_size"] < 20) == text


def test_a_definition_that_memory_lacks_for_loads_smaller_and_says_so(tmp_path, monkeypatch):
    suite, data = get_suite("flashinfer-bench"), made_up_checkout("flashinfer-bench", tmp_path)
    (problem,) = suite.problems(data)
    memory = SimpleNamespace(available=3 * 4 * (2 * 32 * 16 + 16))
    monkeypatch.setattr(
        "kernelwright.suites.flashinferbench.psutil", SimpleNamespace(virtual_memory=lambda: memory)
    )
    with setup(suite, data) as given:
        with given.task(problem) as task:
            assert task.name == "scale_n64_scaled_4"
        (found,) = diagnose(given, (problem,), admits=False)
    assert found.loads and found.sizes == "n from 64 to 16, which makes it another definition"
