"""The definition form: the JSON of FlashInfer-Bench and SOL-ExecBench."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.errors import TaskError
from kernelwright.records import ScalarSpec, Split, TensorSpec
from kernelwright.tasks import Problem, load_candidate, load_task

RMSNORM: dict[str, Any] = {
    "name": "rmsnorm_h64",
    "op_type": "rmsnorm",
    "axes": {
        "batch_size": {"type": "var"},
        "hidden_size": {"type": "const", "value": 64},
        "twice": {"type": "expr", "expression": "hidden_size * 2"},
    },
    "inputs": {
        "hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"},
        "weight": {"shape": ["hidden_size"], "dtype": "bfloat16"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"output": {"shape": ["batch_size", "twice"], "dtype": "bfloat16"}},
    "reference": (
        "import torch\n\ndef run(hidden_states, weight, eps):\n"
        "    x = hidden_states.to(torch.float32)\n"
        "    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight.to(torch.float32)\n"
        "    return torch.cat([y, y], -1).to(hidden_states.dtype)\n"
    ),
}
EPS = {"type": "scalar", "value": 1e-6}
LINES: list[dict[str, Any]] = [
    {"uuid": "a", "axes": {"batch_size": 7}, "inputs": {"hidden_states": {"type": "random"}, "eps": EPS},
     "tolerance": {"max_atol": 0.01, "max_rtol": 0.02, "required_matched_ratio": 0.99}},
    {"definition": "rmsnorm_h64", "workload": {"axes": {"batch_size": 256}, "inputs": {"eps": EPS}}},
]  # fmt: skip


def _write(folder: Path, definition: dict[str, Any], lines: list[dict[str, Any]] | None = None) -> Path:
    (folder / "definition.json").write_text(json.dumps(definition))
    text = "\n".join(json.dumps(line) for line in (LINES if lines is None else lines))
    (folder / "workload.jsonl").write_text(text + "\n")
    return folder


def test_a_folder_becomes_a_task(tmp_path: Path) -> None:
    task = load_task(_write(tmp_path, RMSNORM))
    assert (task.name, task.form, task.reference.style) == ("rmsnorm_h64", "definition", "function")
    small, large = task.split(Split.SEARCH)
    assert [w.axes for w in (small, large)] == [{"batch_size": 7}, {"batch_size": 256}]
    assert small.arguments[0] == TensorSpec(name="hidden_states", shape=(7, 64), dtype="bfloat16")
    assert small.arguments[2] == ScalarSpec(name="eps", value=1e-6)
    assert small.outputs == (TensorSpec(name="output", shape=(7, 128), dtype="bfloat16"),)
    assert task.contract.error_cap == 0.02


def test_hidden_workloads_change_var_axes_only(tmp_path: Path) -> None:
    task = load_task(_write(tmp_path, RMSNORM))
    sizes = {w.axes["batch_size"] for w in task.split(Split.HIDDEN)}
    assert {1, 251} <= sizes
    assert all(
        w.arguments[0].shape[1] == 64 for w in task.workloads if isinstance(w.arguments[0], TensorSpec)
    )


def test_the_oracle_widens_the_reference_s_own_casts(tmp_path: Path) -> None:
    problem = Problem(load_task(_write(tmp_path, RMSNORM)))
    workload = problem.task.workloads[0]
    inputs = problem.inputs(workload, 1)
    truth = problem.run_oracle(workload, inputs, {})
    x, weight = inputs[0].double(), inputs[1].double()
    expected = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
    assert truth.precision == "float64"
    assert torch.allclose(truth.outputs[0], torch.cat([expected, expected], -1), rtol=1e-12)


def test_workloads_inside_the_definition(tmp_path: Path) -> None:
    file = tmp_path / "definition.json"
    file.write_text(json.dumps({**RMSNORM, "workloads": LINES}))
    assert len(load_task(file).split(Split.SEARCH)) == 2


def test_a_generator_of_the_definition_s_own(tmp_path: Path) -> None:
    definition = {
        "name": "ragged",
        "axes": {"n": {"type": "var"}},
        "custom_inputs_entrypoint": "make",
        "inputs": {"ptr": {"shape": ["n + 1"], "dtype": "int32"}, "x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": (
            "import torch\ndef run(ptr, x):\n    assert int(ptr[0]) == 0\n    return x * ptr.diff()\n"
            "def make(axes_and_scalars, device):\n    n = axes_and_scalars['n']\n"
            "    return {'ptr': torch.arange(n + 1, dtype=torch.int32), 'x': torch.rand(n)}\n"
        ),
    }
    problem = Problem(load_task(_write(tmp_path, definition, [{"axes": {"n": 40}}])))
    workload = problem.task.workloads[0]
    ptr, x = problem.inputs(workload, 3)
    assert torch.equal(ptr, torch.arange(41, dtype=torch.int32))
    assert torch.equal(x, problem.inputs(workload, 3)[1])
    assert not torch.equal(x, problem.inputs(workload, 4)[1])


def test_constraints_are_noted(tmp_path: Path) -> None:
    task = load_task(_write(tmp_path, {**RMSNORM, "constraints": ["batch_size > 0"]}))
    assert task.notes == ("constraint not enforced: batch_size > 0",)


@pytest.mark.parametrize(
    ("change", "lines", "message"),
    [
        ({}, [{"axes": {"batch_size": 7}, "inputs": {"eps": EPS, "weight": {"type": "safetensors", "path": "w"}}}],
         "'weight' is stored as safetensors, which is not supported"),
        ({}, [{"axes": {"batch_size": 7}}], "scalar input 'eps' has no 'value'"),
        ({}, [{"axes": {}, "inputs": {"eps": EPS}}], "no size for axis 'batch_size'"),
        ({}, [], "each workload needs 'axes'"),
        ({}, [{"axes": {"batch_size": 7}, "inputs": {"eps": EPS, "weight": {"type": "odd"}}}], "'odd' is unknown"),
        ({"axes": {"batch_size": {"type": "free"}}}, LINES, "axis 'batch_size' is of type 'free'"),
        ({"reference": "def run(x:\n"}, LINES, "is not Python"),
        ({"reference": "def go(x):\n    pass\n"}, LINES, "no symbol 'run'"),
        ({"outputs": {"output": {"shape": ["batch_size"], "dtype": "bfloat16"}}}, LINES, "declared was"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, change: dict[str, Any], lines: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(TaskError, match=message):
        load_task(_write(tmp_path, {**RMSNORM, **change}, lines))


def test_broken_json_and_missing_keys(tmp_path: Path) -> None:
    file = tmp_path / "definition.json"
    file.write_text("{")
    with pytest.raises(TaskError, match="line 1 is not JSON"):
        load_task(file)
    file.write_text('{"name": "x"}')
    with pytest.raises(TaskError, match="no 'axes' in the definition"):
        load_task(file)
    file.write_text(json.dumps(RMSNORM))
    with pytest.raises(TaskError, match=r"workload\.jsonl beside it"):
        load_task(file)


def test_a_solution_becomes_a_candidate(tmp_path: Path) -> None:
    task = load_task(_write(tmp_path, RMSNORM))
    solution = {
        "name": "mine", "definition": "rmsnorm_h64", "author": "someone",
        "spec": {"language": "triton", "target_hardware": ["H100"], "entry_point": "main.py::run",
                 "destination_passing_style": False},
        "sources": [{"path": "main.py", "content": "def run(x, w, eps): ..."}],
    }  # fmt: skip
    (tmp_path / "solution.json").write_text(json.dumps(solution))
    for path in (tmp_path, tmp_path / "solution.json"):
        candidate = load_candidate(path, task)
        assert (candidate.language, candidate.entry, candidate.style) == ("triton", "main.py:run", "function")
        assert candidate.proposer == "someone"
