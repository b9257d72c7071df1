"""The definition form: the JSON of FlashInfer-Bench and SOL-ExecBench."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from kernelwright.errors import MissingToolError, TaskError
from kernelwright.records import ScalarSpec, Split, Task, TensorSpec
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
STORED = {"type": "safetensors", "path": "w", "tensor_key": "w"}
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


def test_constraints_on_axes_are_enforced_and_others_noted(tmp_path: Path) -> None:
    constraints = ["batch_size % 7 == 0", "weight.max() < 1"]
    lines = [LINES[0], {"axes": {"batch_size": 14}, "inputs": {"eps": EPS}}]
    task = load_task(_write(tmp_path, {**RMSNORM, "constraints": constraints}, lines))
    assert task.notes == ("constraint not enforced: weight.max() < 1",)
    assert all(w.axes["batch_size"] % 7 == 0 for w in task.workloads)
    with pytest.raises(TaskError, match=r"'batch_size': 256.* breaks the constraint 'batch_size % 7 == 0'"):
        load_task(_write(tmp_path, {**RMSNORM, "constraints": constraints}))


GATHER: dict[str, Any] = {
    "name": "gather",
    "axes": {"n": {"type": "var"}, "ends": {"type": "expr", "expression": "n + 1"}, "width": {"type": "var"}},
    "inputs": {
        "ptr": {"shape": ["ends"], "dtype": "int32"},
        "x": {"shape": ["n", "width"], "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["n", "width"], "dtype": "float32"}},
    "reference": "def run(ptr, x):\n    return x * ptr.diff()[:, None]\n",
}


def _store(folder: Path, sizes: tuple[int, ...] = (5, 40), **change: Any) -> Path:
    """Write a definition whose `ptr` is stored for each size of `n`, all in one file in a folder below."""
    (folder / "blob").mkdir(exist_ok=True)
    tensors = {f"ptr{n}": torch.arange(n + 1, dtype=torch.int32) * 3 for n in sizes}
    save_file(tensors, folder / "blob" / "ptr.safetensors")
    lines = [
        {"axes": {"n": n, "width": 8}, "inputs": {"ptr": {
            "type": "safetensors", "path": "blob/ptr.safetensors", "tensor_key": f"ptr{n}"} | change}}
        for n in sizes
    ]  # fmt: skip
    return _write(folder, GATHER, lines)


def test_probabilities_are_a_distribution_and_eight_bits_may_be_an_answer(tmp_path: Path) -> None:
    picked = {
        "name": "picked", "op_type": "sampling", "axes": {"rows": {"type": "var"}, "words": {"type": "var"}},
        "inputs": {"probs": {"shape": ["rows", "words"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["rows", "words"], "dtype": "float8_e4m3"}},
        "reference": "import torch\n\ndef run(probs):\n    return probs.mul(2).to(torch.float8_e4m3fn)\n",
    }  # fmt: skip
    task = load_task(_write(tmp_path, picked, [{"axes": {"rows": 4, "words": 16}}]))
    (probs,) = Problem(task).inputs(task.workloads[0], seed=3)
    assert torch.allclose(probs.sum(-1), torch.ones(4)) and (probs >= 0).all()


def test_offsets_that_end_at_an_axis_are_drawn_so(tmp_path: Path) -> None:
    """With any integers most rows would be empty, and a kernel that returns zeros nearly right."""
    paged = {
        "name": "paged", "op_type": "paged", "constraints": ["total == indptr[-1].item()", "n == rows + 1"],
        "axes": {name: {"type": "var"} for name in ("rows", "n", "total")},
        "inputs": {"x": {"shape": ["total"], "dtype": "float32"}, "indptr": {"shape": ["n"], "dtype": "int32"}},
        "outputs": {"y": {"shape": ["rows"], "dtype": "float32"}},
        "reference": (
            "import torch\n\ndef run(x, indptr):\n    assert len(x) == indptr[-1].item()\n"
            "    return torch.stack([x[a:b].sum() for a, b in zip(indptr[:-1], indptr[1:])])\n"
        ),
    }  # fmt: skip
    task = load_task(_write(tmp_path, paged, [{"axes": {"rows": 8, "n": 9, "total": 40}}]))
    assert not [note for note in task.notes if "not enforced" in note]
    problem = Problem(task)
    for workload in task.workloads:
        indptr = problem.inputs(workload, seed=3)[1]
        assert (indptr[0], indptr[-1]) == (0, workload.axes["total"]) and (indptr.diff() >= 0).all()


def test_stored_inputs_are_read_from_beside_the_definition(tmp_path: Path, monkeypatch) -> None:
    task = load_task(_store(tmp_path))
    monkeypatch.chdir("/")
    problem = Problem(Task.from_json(task.to_json()))
    for workload in task.split(Split.SEARCH):
        ptr, x = problem.inputs(workload, 1)
        assert torch.equal(ptr, torch.arange(workload.axes["n"] + 1, dtype=torch.int32) * 3)
        assert not torch.equal(x, problem.inputs(workload, 2)[1])
    assert all(w.axes["n"] in (5, 40) for w in task.workloads)
    assert len({w.axes["width"] for w in task.workloads}) > 2


def test_what_is_stored_stays_what_the_task_was_made_with(tmp_path: Path) -> None:
    task = load_task(_store(tmp_path))
    save_file({"ptr5": torch.zeros(6, dtype=torch.int32)}, tmp_path / "blob" / "ptr.safetensors")
    with pytest.raises(TaskError, match="is not the file any more"):
        Problem(task).inputs(task.workloads[0], 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "nosuch"}, "'ptr' is stored in '.*nosuch', which cannot be read"),
        ({"path": "definition.json"}, "is no safetensors file"),
        ({"tensor_key": "other"}, "holds no tensor 'other'; it holds ptr40, ptr5"),
        ({"tensor_key": "ptr40"}, r"'ptr' is stored as int32\[41\] in .*; expected int32\[6\]"),
        ({"tensor_key": None}, "needs 'path' and 'tensor_key'"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load_task(_store(tmp_path, **change))


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    folder = _store(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingToolError, match=r"pip install 'kernelwright\[safetensors\]'"):
        load_task(folder)


@pytest.mark.parametrize(
    ("change", "lines", "message"),
    [
        ({}, [LINES[0], {"axes": {"batch_size": 9}, "inputs": {"eps": EPS, "weight": STORED}}],
         "'weight' is stored in some workloads and not in others"),
        ({}, [{"axes": {"batch_size": 7}, "inputs": {"eps": EPS, "weight": STORED, "hidden_states": STORED}}],
         "every tensor is stored"),
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


@pytest.mark.parametrize(
    ("named", "signature", "style"),
    [({}, "x, w, eps", "function"), ({}, "x, w, eps, out", "destination"),
     ({"destination_passing_style": True}, "*given", "destination")],
)  # fmt: skip
def test_a_python_solution_may_write_into_its_outputs(
    tmp_path: Path, named: dict[str, Any], signature: str, style: str
) -> None:
    task = load_task(_write(tmp_path, RMSNORM))
    solution = {
        "spec": {"language": "python", "entry_point": "main.py::run", **named},
        "sources": [{"path": "main.py", "content": f"def run({signature}): ..."}],
    }
    (tmp_path / "solution.json").write_text(json.dumps(solution))
    assert load_candidate(tmp_path, task).style == style
