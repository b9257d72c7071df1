"""A task tuned in Chromium for real, and judged."""

import json

import pytest
from tests.web.cases import TASKS, made

from kernelwright.api.web import tune
from kernelwright.cli import main
from kernelwright.web import Peer

pytestmark = pytest.mark.needs("Chromium")


def test_kernels_are_tuned_in_the_browser_and_right_on_fresh_inputs(capsys):
    assert main(["web", "tune", f"{TASKS}:linear_silu", "--seconds", "1", "--webgpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["ok"]
    assert found["fresh_error"] <= 1
    assert found["device"]["simd"]
    assert found["rows"][0]["config"]["packed"]
    assert found["rows"][0]["tried"] > 1
    assert len(found["blocks"]["kernels, tuned"]) > 10
    if webgpu := found["webgpu"]:
        assert webgpu["tried"] >= 1
        assert webgpu["wrong"] == webgpu["broken"] == []
        assert webgpu["best"]["error"] <= 1


PEER = """
export const open = async (place, task, inputs) => {
  const seen = inputs.map(({ name, floats }) => `${name} ${floats.length}`).join(", ");
  const call = async () => [new Float32Array(1)];
  const floats = ([one]) => [new Float32Array(5 * 45).fill(one[0])];
  return { name: "mine", version: `${task}: ${seen}`, call, floats };
};
"""


def test_another_library_is_timed_in_the_same_blocks_and_its_error_is_told(tmp_path):
    (tmp_path / "mine.mjs").write_text(PEER)
    task = made("norms")
    found = tune(task, budget_s=0.5, peer=Peer(tmp_path / "mine.mjs", ())).report
    (mine,) = found["runtimes"]
    assert mine["name"] == "mine"
    assert mine["version"].startswith(f"{task.problem.task.name}, ")
    assert "x 225" in mine["version"]
    assert mine["error"] > 1, "it gives zeros"
    assert len(found["blocks"]["call, mine"]) == len(found["blocks"]["call, tuned"])
    assert found["ratios"]["mine"] > 0
