"""Backward tasks: outputs and gradients are one graph, and one kernel writes them."""

from itertools import islice
from pathlib import Path

import pytest
import torch

from kernelwright.compiler import schedules
from kernelwright.compiler.graph import Native, NotSchedulable, Weight, interpret, read
from kernelwright.languages import get_language
from kernelwright.records import BuildStatus, TensorSpec
from kernelwright.tasks import Problem, load_task, with_gradients

HEAD = "import torch\nimport kernelwright as kw\nfrom torch.nn import functional as F\n\n"
X = 'x="float32[rows, dim]"'
QKV = ", ".join(f'{n}="float32[batch, heads, seq, half]"' for n in "qkv")
FEW, MANY = '{"rows": 12, "dim": 20}', '{"batch": 2, "heads": 3, "seq": 37, "half": 12}'
CASES = {
    "softmax": (X, FEW, "x", "return torch.softmax(x, -1)"),
    "norm": (f'{X}, w="float32[dim]"', FEW, "x, w", "return F.layer_norm(x, x.shape[-1:], w)"),
    "two": (X, FEW, "x", "return x.tanh(), F.silu(x).sum(-1)"),
    "loss": (f'{X}, at="int64[rows] index(dim)"', FEW, "x, at", "return F.cross_entropy(x, at, reduction='none')"),
    "product": (f'{X}, w="float32[24, dim]"', FEW, "x, w", "return F.gelu(F.linear(x, w))"),
    "lines": (QKV, MANY, "q, k, v", "return torch.softmax(q @ k.mT * 0.3, -1) @ v"),
    "causal": (QKV, MANY, "q, k, v", "return F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
}  # fmt: skip
LAYER = (
    "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.inner = torch.nn.Linear(20, 24)\n    def forward(self, x):\n"
    "        return torch.relu(self.inner(x))\n"
    "def get_inputs():\n    return [torch.randn(12, 20)]\ndef get_init_inputs():\n    return []\n"
)


def problem_of(folder, name):
    declared, sizes, given, body = CASES[name]
    path = folder / "task.py"
    path.write_text(f"{HEAD}@kw.task({declared}, workloads=[{sizes}])\ndef step({given}):\n    {body}\n")
    return Problem(load_task(str(path), backward=True))


def inputs_of(problem, workload):
    return [*problem.inputs(workload, 1), *problem.state(workload, 1).values()]


def wanted(problem, workload):
    """Return what outputs and gradients are in float64."""
    return problem.run_oracle(workload, problem.inputs(workload, 1), problem.state(workload, 1)).outputs


def assert_right(found, right):
    assert len(found) == len(right) > 1
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradients_are_one_graph_whose_sizes_follow(tmp_path, name):
    problem = problem_of(tmp_path, name)
    graph, workload = read(problem), problem.task.workloads[0]
    assert not any(isinstance(node, Native) for node in graph.nodes) and graph.symbols
    assert [n.name for n in graph.inputs][-1].startswith("grad_")
    assert_right(interpret(graph, inputs_of(problem, workload)), wanted(problem, workload))


def candidate_of(problem):
    """Return the first schedule as a candidate, and where it was built."""
    (schedule,) = islice(schedules(problem, ("cpp",)), 1)
    candidate = schedule.render(schedule.default())
    assert candidate.style == "destination"
    quick = candidate.model_copy(update={"flags": (*candidate.flags, "-O0")})
    build = get_language("cpp").build(quick, deadline_s=400)
    assert build.status is BuildStatus.OK, build.diagnostics
    return quick, Path(str(build.artefact))


def holds(problem, workload, candidate, artefact):
    kernel = get_language("cpp").load(candidate, artefact, workload.outputs)
    assert_right(kernel(*inputs_of(problem, workload)), wanted(problem, workload))


@pytest.mark.parametrize("name", ["norm", "lines"])
def test_a_kernel_writes_outputs_and_gradients_at_other_sizes_too(tmp_path, name):
    problem = problem_of(tmp_path, name)
    workload = problem.task.workloads[0]
    asked = frozenset(s.name for s in workload.arguments if isinstance(s, TensorSpec) and s.requires_grad)
    other = with_gradients(problem.at(workload, {n: s + 3 for n, s in workload.axes.items()}), asked)
    kernel = candidate_of(problem)
    for at in (workload, other):
        holds(problem, at, *kernel)


def test_gradients_of_parameters_are_results_and_nothing_is_packed_ahead(tmp_path):
    path = tmp_path / "layer.py"
    path.write_text(LAYER)
    problem = Problem(load_task(str(path), backward=True))
    graph, workload = read(problem), problem.task.workloads[0]
    assert len(graph.inputs) == 4 and not any(isinstance(n, Weight) for n in graph.inputs)
    assert len(graph.outputs) == 1 + sum(s.requires_grad for s in (*workload.arguments, *workload.state)) > 2
    assert_right(interpret(graph, inputs_of(problem, workload)), wanted(problem, workload))
    holds(problem, workload, *candidate_of(problem))


def test_gradients_that_torch_computes_have_no_schedule(tmp_path):
    path = tmp_path / "task.py"
    body = "return F.conv2d(x, w, padding=1)"
    declared = 'x="float32[2, 3, 8, width]", w="float32[4, 3, 3, 3]"'
    path.write_text(f"{HEAD}@kw.task({declared}, workloads=[{{'width': 9}}])\ndef step(x, w):\n    {body}\n")
    problem = Problem(load_task(str(path), backward=True))
    assert any(isinstance(node, Native) for node in read(problem).nodes)
    assert not list(schedules(problem, ("cpp",)))


def test_a_reference_whose_gradients_cannot_be_traced_says_why(tmp_path, monkeypatch):
    problem = problem_of(tmp_path, "softmax")

    def refuses(_problem, _workload):
        raise RuntimeError("no such thing\nand more")

    monkeypatch.setattr("kernelwright.compiler.graph._read.trace_step", refuses)
    with pytest.raises(NotSchedulable, match=r"forward and gradients have no graph: no such thing$"):
        read(problem)
