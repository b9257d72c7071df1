"""Problems whose reference is a Triton kernel: executed where there is no GPU, and never timed."""

import pytest
import torch
from tests.tools import require

from kernelwright.devices import detect
from kernelwright.executor.python import launching
from kernelwright.languages._autotuned import block_of
from kernelwright.records import Candidate, Reference, SourceFile
from kernelwright.search.evaluation._join import without_device
from kernelwright.suites import get_suite, judge_both, setup
from kernelwright.suites._tested import entry_of, parts_of, written_executed
from kernelwright.tasks import Problem, load_task
from kernelwright.testing import made_up_checkout

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def _scaled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)


def scaled(x, out):
    assert x.is_cuda
    with torch.cuda.device(x.device):
        _scaled[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
"""
TEST = """
import torch


def test_scaled():
    x, out = torch.randn(100, device="cuda"), torch.empty(100, device="cuda")
    scaled(x, out)
    return {"first": out}


if __name__ == "__main__":
    print(test_scaled()["first"].shape)
"""
PLAIN = "def scaled(x, out):\n    out.copy_(x * 3)\n"


def reference(text):
    return Reference(files=(SourceFile(path="a.py", text=text),), entry="a.py:Model", style="module")


def test_nothing_is_timed_against_what_is_executed():
    torch_candidate = Candidate(sources=(), language="torch", entry="k.py:run")
    executed = reference(written_executed(KERNEL, TEST, "scaled", "scaled"))
    assert without_device(detect("cpu"), reference("import torch"))(torch_candidate) is None
    found = without_device(detect("cpu"), executed)(torch_candidate)
    assert (found.check, found.status) == ("timed", "unknown")
    assert "executed on the CPU" in found.message


def test_what_a_test_calls_is_the_last_that_it_does_not_define_itself():
    text = "def help(x): ...\ndef relu(x): ...\nclass Grad(Function): ...\n"
    assert entry_of(text, "def test():\n    relu(help(1))", "G/a") == ("relu", "relu")
    assert entry_of(text, "def relu(x): ...\nrelu(help(1))", "G/a") == ("help", "help")
    assert entry_of(text, "# relu(1)\nGrad.forward(None, 1)", "G/a") == ("Grad", "Grad.forward")


@pytest.mark.needs("triton")
def test_a_file_may_ask_for_a_gpu_while_it_is_imported_and_not_call_its_test():
    kernel = """import torch
from triton.ops.matmul_perf_model import early_config_prune, estimate_matmul_time
NAME = torch.cuda.get_device_name(0)
def scaled(x):
    return x
"""
    test = "def test_scaled():\n    scaled(torch.ones(2, device='cuda'))\n"
    space = {}
    exec(written_executed(kernel, test, "scaled", "scaled"), space)
    assert space["NAME"] == "PTX executor" and [x.shape for x in space["get_inputs"]()] == [(2,)]
    assert space["early_config_prune"]([1, 2], {}) == [1, 2]


@pytest.mark.needs("triton")
def test_values_that_sizes_are_made_of_stay_and_others_are_drawn_anew(tmp_path):
    kernel = """import torch
def chosen(x, mask):
    return torch.zeros(mask.sum().item()).copy_(x[mask])
"""
    test = "chosen(torch.rand(64), torch.randint(0, 2, (64,)).bool())\n"
    path = tmp_path / "problem.py"
    path.write_text(written_executed(kernel, test, "chosen", "chosen"))
    task = load_task(path)
    given = {s.name: s.distribution.kind for s in task.workloads[0].arguments}
    assert list(given.values()) == ["uniform", "given"]
    live = Problem(task)
    masks = [live.inputs(task.workloads[0], seed)[1] for seed in (1, 2)]
    assert masks[0].equal(masks[1]) and 0 < masks[0].sum() < 64


@pytest.mark.needs("triton")
def test_a_kernel_that_its_test_launches_is_called_by_its_grid():
    kernel = """import torch
class scaled:
    def __class_getitem__(cls, grid):
        return lambda x, out: out.copy_(x * grid({"BLOCK": 3})[0])
"""
    test = "scaled[lambda meta: (meta['BLOCK'],)](torch.ones(4, device='cuda'), torch.empty(4))\n"
    symbol, call = entry_of(kernel, test, "G/scaled")
    space = {}
    exec(written_executed(kernel, test, symbol, call), space)
    x, out = space["get_inputs"]()
    assert [t.tolist() for t in space["Model"]()(x, out)] == [[3.0] * 4, [1.0] * 4, [3.0] * 4]


def test_of_several_parts_the_last_is_the_test():
    line = "#" * 40
    assert parts_of(f"a = 1\n{line}\nb = 2\n{line}\nf(1)\n") == ("a = 1\n\nb = 2\n", "\nf(1)\n")
    assert parts_of("a = 1\n") == ("a = 1\n", "")


@pytest.mark.needs("triton")
def test_of_an_autotuner_the_configuration_of_the_smallest_blocks_is_executed():
    import triton

    configs = [triton.Config({"M": 128, "N": 16}), triton.Config({"M": 32, "N": 32, "EVEN": True})]
    assert min(configs, key=block_of).kwargs["M"] == 32


def test_python_that_asks_for_a_gpu_has_the_cpu_where_there_is_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with launching():
        x = torch.ones(3, device="cuda").cuda()
        assert x.is_cuda
        with torch.cuda.device(x.device):
            assert torch.cuda.get_device_capability() == (8, 0)
        seed_and_offset = torch.cuda.default_generators[0].get_state().view(torch.int64)
        assert seed_and_offset.tolist() == [0, 0]
    assert not x.is_cuda
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with launching():
        assert not x.is_cuda, "where there is one, nothing stands in for it"


@pytest.mark.long
def test_a_kernel_is_compared_with_the_executed_reference(tmp_path):
    require("triton")
    data, suite = made_up_checkout("tritonbench", tmp_path / "data"), get_suite("tritonbench")
    (data / "data/TritonBench_G_v1/scaled.py").write_text(f"{KERNEL}\n{'#' * 146}\n{TEST}")
    problem = next(p for p in suite.problems(data) if p.group == "G")
    said = {}
    with setup(suite, data, store=tmp_path / "store", device="cpu") as given:
        with given.task(problem) as task:
            assert [o.shape for o in task.workloads[0].outputs] == [(100,), (100,)]
        for name, text in {
            "right": KERNEL.replace("BLOCK=64", "BLOCK=128").replace("x.numel(), 64", "x.numel(), 128"),
            "wrong": KERNEL.replace("* 3", "* 3.01"),
            "plain": PLAIN,
        }.items():
            file = tmp_path / "kernel.py"
            file.write_text(text)
            row = judge_both(given, problem, file)
            said[name] = (row.theirs.status, str(row.ours.verdict), str(row.ours.decision))
    assert said == {
        "right": ("correct", "unknown", "unknown"),
        "wrong": ("correct", "rejected", "rejected"),  # its test prints a shape alone
        "plain": ("correct", "unknown", "unknown"),
    }
