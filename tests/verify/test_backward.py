"""Backward tasks: outputs and gradients are held to float64, whoever defines the backward."""

import pytest
import torch

from kernelwright.devices import detect
from kernelwright.errors import InputError, TaskError
from kernelwright.languages import get_language
from kernelwright.measure import Bench
from kernelwright.propose import Request
from kernelwright.propose.inductor import InductorProposer
from kernelwright.propose.library import LibraryProposer
from kernelwright.records import Candidate, SourceFile, Split
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import capture
from kernelwright.verify import Oracle, admit, verify

OWN = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", weight="float32[dim]", workloads=[{"rows": 24, "dim": 48}], backward=True)
def scaled_tanh(x, weight, power: float = 2.0):
    return torch.tanh(x) * weight, x.mean()

@kw.task(x="float32[rows]", workloads=[{"rows": 24}])
def steps(x):
    return torch.sign(x.detach())
"""
MODULE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x):
        return torch.tanh(self.linear(x))

rows = 16
dim = 32

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return [dim]
"""
FUNCTION = """
import torch

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        y = torch.tanh(x)
        ctx.save_for_backward(y, weight)
        return y * weight

    @staticmethod
    def backward(ctx, g):
        y, weight = ctx.saved_tensors
        {backward}

def run(x, weight, power):
    return Scaled.apply(x, weight), x.mean()
"""
RIGHT = "return torch.ops.aten.tanh_backward(g * weight, y), (g * y).sum(0)"
WRONG = {
    "weight's gradient of one row": "return g * weight * (1 - y * y), (g * y)[0]",
    "no gradient of the weight": "return g * weight * (1 - y * y), None",
    "derivative of the identity": "return g * weight, (g * y).sum(0)",
    "half precision": "return (g * weight * (1 - y * y)).half().float(), (g * y).sum(0)",
    "cotangent ignored": "return weight * (1 - y * y) + 0 * g, (g * y).sum(0)",
}
NO_GRAPH = "import torch\ndef run(x, weight, power):\n    return (torch.tanh(x) * weight).detach(), x.mean().detach()\n"
PLAIN = "import torch\ndef run(x, weight, power):\n    return torch.tanh(x) * weight, x.mean()\n"
DETACHED = MODULE.replace(
    "self.linear(x)", "nn.functional.linear(x, self.linear.weight.detach(), self.linear.bias)"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    (folder / "own.py").write_text(OWN)
    (folder / "module.py").write_text(MODULE)
    return folder


@pytest.fixture(scope="module")
def oracle(folder):
    return Oracle(Problem(load_task(f"{folder}/own.py:scaled_tanh")))


def built(text, symbol="run"):
    style = "function" if symbol == "run" else "module"
    source = SourceFile(path="c.py", text=text)
    candidate = Candidate(sources=(source,), language="torch", entry=f"c.py:{symbol}", style=style)
    return candidate, get_language("torch").build(candidate)


def test_gradients_are_the_last_outputs_and_cotangents_the_last_arguments(oracle):
    (workload,) = oracle.task.split(Split.SEARCH)
    assert [s.name for s in workload.arguments] == ["x", "weight", "power", "grad_output0", "grad_output1"]
    assert [s.name for s in workload.outputs] == ["output0", "output1", "grad_x", "grad_weight"]
    assert [s.name for s in workload.forward.arguments] == ["x", "weight", "power"]
    assert all(w.cotangents == 2 for w in oracle.task.workloads)
    assert len(oracle.task.split(Split.HIDDEN)) > 3
    assert capture(oracle.problem, workload).inputs == ("x", "weight", None)


def test_the_oracle_differentiates_in_float64(oracle):
    (workload,) = oracle.task.split(Split.SEARCH)
    x, weight, power, g, h = oracle.problem.inputs(workload, 3)
    truth = oracle.problem.run_oracle(workload, [x, weight, power, g, h], {}).outputs
    y = torch.tanh(x.double())
    torch.testing.assert_close(truth[2], g.double() * weight.double() * (1 - y * y) + h.double() / x.numel())
    torch.testing.assert_close(truth[3], (g.double() * y).sum(0))


@pytest.mark.parametrize(
    "text",
    [pytest.param(PLAIN, marks=pytest.mark.long), FUNCTION.format(backward=RIGHT)],
    ids=["torch", "function"],
)
def test_a_right_backward_is_accepted(text, oracle, pool):
    found = verify(oracle.problem, *built(text), pool=pool, oracle=oracle)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_backward_is_rejected_although_the_forward_is_right(name, oracle, pool):
    found = verify(
        oracle.problem,
        *built(FUNCTION.format(backward=WRONG[name])),
        pool=pool,
        depth="screen",
        oracle=oracle,
    )
    assert found.failure == "correct"
    assert "output 2" in found.findings[-1].message or "output 3" in found.findings[-1].message


def test_without_a_graph_there_is_no_backward(oracle, pool):
    found = verify(oracle.problem, *built(NO_GRAPH), pool=pool, depth="screen", oracle=oracle)
    assert found.failure == "runs"
    assert "no output has a gradient" in found.findings[-1].message


def test_a_forward_task_lets_a_wrong_backward_pass(folder, pool):
    text = (folder / "own.py").read_text().replace(", backward=True", "")
    (folder / "forward.py").write_text(text)
    problem = Problem(load_task(f"{folder}/forward.py:scaled_tanh"))
    text = FUNCTION.format(backward=WRONG["derivative of the identity"])
    assert verify(problem, *built(text), pool=pool, depth="screen").status == "accepted"


@pytest.mark.long
def test_parameters_get_gradients_too(folder, pool):
    task = load_task(folder / "module.py", backward=True)
    (workload,) = task.split(Split.SEARCH)
    assert [s.name for s in workload.outputs[1:]] == ["grad_x", "grad_linear.weight", "grad_linear.bias"]
    problem = Problem(task)
    honest = verify(problem, *built(MODULE, "Model"), pool=pool)
    assert honest.status == "accepted", [f for f in honest.findings if f.status != "pass"]
    assert verify(problem, *built(DETACHED, "Model"), pool=pool, depth="screen").failure == "correct"


def test_forward_and_backward_are_timed_together(oracle, pool):
    bad = FUNCTION.format(backward=WRONG["derivative of the identity"])
    with Bench(oracle.problem, pool, detect("cpu"), baselines=("eager",)) as bench:
        workloads = oracle.task.split(Split.SEARCH)
        timing, findings = bench.measure(
            *built(FUNCTION.format(backward=RIGHT)), phase="screen", workloads=workloads, deadline_s=0.0
        )
        assert {f.check for f in findings if f.status == "pass"} >= {"timed-calls", "timed-outputs"}
        assert all(set(b.times_us) == {"candidate", "eager"} for b in timing.blocks)
        _, findings = bench.measure(*built(bad), phase="screen", workloads=workloads, deadline_s=0.0)
        assert [f.check for f in findings if f.status == "fail"] == ["timed-outputs"]


def test_admission_tries_gradients_like_any_output(oracle):
    assert not admit(oracle.problem, oracle=oracle).degenerate


def test_what_has_no_gradient_is_no_backward_task(folder):
    with pytest.raises(TaskError, match="no argument or parameter gets a gradient"):
        load_task(f"{folder}/own.py:steps", backward=True)


def test_forward_kernels_are_not_proposed_for_it(oracle):
    request = Request(oracle.problem, detect("cpu"), (), ("cpp",))
    for proposer in (LibraryProposer(), InductorProposer()):
        with pytest.raises(InputError, match="asks for gradients"):
            next(iter(proposer.propose(request)))


CPP = """
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using T = tvm::ffi::TensorView;
void run(T x, T weight, double power, T g, T h, T y, T mean, T grad_x, T grad_weight) {
  const float *a = static_cast<const float*>(x.data_ptr()), *w = static_cast<const float*>(weight.data_ptr());
  const float *in = static_cast<const float*>(g.data_ptr()), *one = static_cast<const float*>(h.data_ptr());
  float *out = static_cast<float*>(y.data_ptr()), *dx = static_cast<float*>(grad_x.data_ptr());
  float *dw = static_cast<float*>(grad_weight.data_ptr());
  int64_t rows = x.size(0), dim = x.size(1);
  double sum = 0;
  for (int64_t c = 0; c < dim; ++c) {
    double total = 0;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t i = r * dim + c;
      double t = std::tanh(static_cast<double>(a[i]));
      sum += a[i];
      out[i] = t * w[c];
      dx[i] = in[i] * w[c] * (1 - t * t) + one[0] / static_cast<double>(rows * dim);
      total += in[i] * t;
    }
    dw[c] = total;
  }
  *static_cast<float*>(mean.data_ptr()) = sum / static_cast<double>(rows * dim);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)
"""


@pytest.mark.needs("C++ compiler")
def test_a_compiled_kernel_writes_outputs_and_gradients_itself(oracle, pool):
    source = SourceFile(path="k.cpp", text=CPP)
    candidate = Candidate(sources=(source,), language="cpp", entry="k.cpp:run", style="destination")
    build = get_language("cpp").build(candidate)
    found = verify(oracle.problem, candidate, build, pool=pool, oracle=oracle)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]
