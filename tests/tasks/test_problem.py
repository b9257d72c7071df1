"""Problem: the oracle, its fallback, and what a call may not disturb."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.tasks import Problem, load_task

Load = Callable[..., Problem]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def make(body: str, x: str = "float32[n]") -> Problem:
        file = tmp_path / "op.py"
        file.write_text(
            "import torch\nimport kernelwright as kw\n"
            f"@kw.task(x='{x}', workloads=[{{'n': 512}}])\ndef op(x):\n    {body}\n"
        )
        return Problem(load_task(file))

    return make


def _oracle(problem: Problem, seed: int = 0) -> tuple[torch.Tensor, tuple[torch.Tensor, ...], str]:
    workload = problem.task.workloads[0]
    inputs = problem.inputs(workload, seed)
    outcome = problem.run_oracle(workload, inputs, {})
    return inputs[0], outcome.outputs, outcome.precision


@pytest.mark.parametrize(
    "body",
    [
        "return x.float().exp().to(x.dtype)",
        "return torch.exp(x.to(torch.float32))",
        "return torch.empty(x.shape, dtype=torch.float32).copy_(x).exp()",
        "return torch.zeros(x.shape[0]) + x.exp()",
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_oracle_computes_in_float64_whatever_the_reference_casts_to(
    load: Load, body: str, dtype: str
) -> None:
    if "empty" in body or "zeros" in body:
        body = body.replace("x.shape[0]", "x.shape[0], device=x.device").replace(
            "x.shape,", "x.shape, device=x.device,"
        )
    x, (y,), precision = _oracle(load(body, f"{dtype}[n]"))
    assert (precision, y.dtype) == ("float64", torch.float64)
    assert torch.allclose(y, x.double().exp(), rtol=1e-14)


def test_the_oracle_says_where_it_had_to_fall_back(load: Load) -> None:
    body = "if x.dtype == torch.float64: raise RuntimeError('not implemented for Double')\n    return x.exp()"
    x, (y,), precision = _oracle(load(body))
    assert (precision, y.dtype) == ("float32", torch.float64)
    assert torch.equal(y, x.exp().double())


def test_half_precision_falls_back_to_float32(load: Load) -> None:
    body = "if x.dtype == torch.float64: raise RuntimeError('not implemented for Double')\n    return x.exp()"
    x, (y,), precision = _oracle(load(body, "bfloat16[n]"))
    assert precision == "float32"
    assert torch.equal(y, x.float().exp().double())


def test_integers_stay_integers_in_the_oracle(load: Load) -> None:
    x, (y, z), _ = _oracle(load("return x + 1, x.float().mean()", "int64[n] index(100)"))
    assert y.dtype == torch.int64
    assert torch.equal(y, x + 1)
    assert float(z) == pytest.approx(float(x.double().mean()), rel=1e-14)


def test_the_default_dtype_comes_back(load: Load) -> None:
    _oracle(load("return x + 1"))
    assert torch.get_default_dtype() is torch.float32


def test_a_random_reference_is_repeatable_and_the_process_s_state_stays(load: Load) -> None:
    problem = load("return x + torch.rand_like(x)")
    workload = problem.task.workloads[0]
    inputs = problem.inputs(workload, 0)
    before = torch.random.get_rng_state()
    first, again = (problem.run_reference(workload, inputs, {}).outputs[0] for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, again)
    assert problem.task.contract.stochastic


def test_mutation_and_layout(load: Load) -> None:
    problem = load("x[0] += 1\n    return x.sum()", "float32[n, 4] transposed")
    workload = problem.task.workloads[0]
    (x,) = problem.inputs(workload, 0)
    copy = x.clone()
    outcome = problem.run_reference(workload, [x], {})
    assert torch.equal(x, copy)
    assert outcome.mutated["x"].stride() == x.stride() == (1, 512)
    assert torch.equal(outcome.mutated["x"][0], copy[0] + 1)
    assert problem.task.contract.mutates == ("x",)


def test_nan_in_an_input_is_no_mutation(load: Load) -> None:
    problem = load("return x * 2")
    special = next(w for w in problem.task.workloads if w.regime == "special")
    outcome = problem.run_reference(special, problem.inputs(special, 0), {})
    assert bool(outcome.outputs[0].isnan().any() or outcome.outputs[0].isinf().any())
    assert outcome.mutated == {}


def test_eval_mode_is_the_contract_s(tmp_path: Path) -> None:
    from kernelwright.records import Contract

    file = tmp_path / "m.py"
    file.write_text(
        "import torch, torch.nn as nn\nclass Model(nn.Module):\n"
        "    def forward(self, x): return x + (1 if self.training else 0)\n"
        "def get_inputs(): return [torch.zeros(8)]\n"
    )
    for mode, expected in (("train", 1.0), ("eval", 0.0)):
        problem = Problem(load_task(file, contract=Contract.model_validate({"mode": mode})))
        workload = problem.task.workloads[0]
        assert (
            float(problem.run_reference(workload, problem.inputs(workload, 0), {}).outputs[0][0]) == expected
        )


def test_the_task_record_survives_the_disk(load: Load) -> None:
    task = load("return x + 1").task
    again = type(task).from_json(task.to_json())
    assert again == task
    workload = again.workloads[-1]
    Problem(again).run_reference(workload, Problem(again).inputs(workload, 0), {})
