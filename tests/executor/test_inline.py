"""KernelBench-form candidates that build CUDA extensions inline are executed as they are, without a GPU."""

import re
from pathlib import Path

import pytest
import torch

from kernelwright.executor import FaultError, Module, _cudart
from kernelwright.executor._cudart import nvcc
from kernelwright.executor._extension import compile_inline, headers_left_out
from kernelwright.executor._translate import translate
from kernelwright.languages import get_language
from kernelwright.languages._inline import NotLiteralError, calls_in, key_of
from kernelwright.records import BuildStatus, Candidate, SourceFile
from kernelwright.tasks import load_candidate, load_task

from .judging import TASK

pytestmark = [pytest.mark.needs("no GPU"), pytest.mark.needs("nvcc")]

CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <ATen/cuda/CUDAContext.h>
#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
template <typename scalar_t>
__global__ void mirror(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int n) {
  __shared__ scalar_t row[64];
  for (int base = 0; base < n; base += 64) {
    const int i = base + threadIdx.x;
    if (i < n) row[threadIdx.x] = x[blockIdx.x * n + i];
    __syncthreads();
    if (i < n) out[blockIdx.x * n + n - 1 - i] = static_cast<scalar_t>(2) * row[threadIdx.x];
    __syncthreads();
  }
}
torch::Tensor mirror_cuda(torch::Tensor x) {
  CHECK_CUDA(x);
  x = x.contiguous();
  auto out = torch::empty_like(x);
  if (x.numel() == 0) return out;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "mirror", ([&] {
    mirror<scalar_t><<<x.numel() / x.size(-1), 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), static_cast<int>(x.size(-1)));
  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""
mirror = load_inline(name="mirror", cpp_sources="torch::Tensor mirror_cuda(torch::Tensor x);", cuda_sources=source,
                     functions=["mirror_cuda"], verbose=False)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.mirror = mirror

    def forward(self, x):
        assert x.cuda().is_cuda
        return self.mirror.mirror_cuda(x)
'''


ASSEMBLY = '''
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
__global__ void k(float* x) {
  float y = *x;
  asm("tanh.approx.ftz.f32 %0, %0;" : "+f"(y));
  *x = y;
}
void run(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<float>()); }
"""
module = load_inline(name="k", cpp_sources="void run(torch::Tensor x);", cuda_sources=source, functions=["run"])

class ModelNew:
    pass
'''


def built(text):
    candidate = Candidate(
        sources=(SourceFile(path="k.py", text=text),), language="cuda", entry="k.py:ModelNew", style="module"
    )
    return candidate, get_language("cuda").build(candidate)


@pytest.fixture
def load(monkeypatch):
    """Build a candidate and make its module; `load_inline` is what it was afterwards."""
    import torch.utils.cpp_extension as extension

    monkeypatch.setattr(extension, "load_inline", extension.load_inline)

    def make(text):
        candidate, build = built(text)
        assert build.status is BuildStatus.OK, build.diagnostics
        return get_language("cuda").load(candidate, Path(build.artefact), ())()

    return make


def test_a_candidate_runs_unchanged_for_every_type_that_it_dispatches(load):
    model = load(CANDIDATE)
    for dtype in (torch.float32, torch.float64):
        x = torch.arange(6 * 100, dtype=dtype).reshape(6, 100)
        assert torch.equal(model(x), 2 * x.flip(-1))
        assert torch.equal(model(x.t()), 2 * x.t().flip(-1))
    with pytest.raises(RuntimeError, match="\"mirror\" not implemented for 'Half'"):
        model(torch.ones(2, 2).half())


def test_what_torch_empty_left_unwritten_is_found_where_it_is_read(load):
    model = load(
        CANDIDATE.replace(
            "2) * row[threadIdx.x]", "2) * row[threadIdx.x] + 0 * out[blockIdx.x * n + n - 1 - i]"
        )
    )
    with pytest.raises(
        FaultError, match=r"uninitialised at PTX line \d+, cuda_sources:13: .*torch::empty of \(6, 64\)"
    ):
        model(torch.randn(6, 64))


def test_what_the_small_torch_lacks_is_refused_by_line():
    _, build = built(CANDIDATE.replace("x = x.contiguous();", "x = x.erfinv();"))
    assert build.status is BuildStatus.UNAVAILABLE
    assert re.match(
        r"not executed: cuda_sources\(19\): error: .*erfinv.*; the executor's torch is a small one\n",
        build.diagnostics,
    )


def test_assembly_that_ptxas_refuses_is_no_unknown():
    _, build = built(ASSEMBLY)
    assert build.status is BuildStatus.FAILED
    said = (
        r"ptxas refuses this PTX at line \d+, cuda_sources:5: Illegal modifier '\.ftz' for instruction 'tanh'"
    )
    assert re.fullmatch(said, build.diagnostics), build.diagnostics


@pytest.mark.long
def test_headers_that_a_source_does_not_use_are_left_out_and_those_that_it_uses_are_there(load):
    assert headers_left_out(CANDIDATE) == ["-DKW_NO_HALVES", "-DKW_FEW_HEADERS"]
    words = CANDIDATE.replace(
        "  x = x.contiguous();",
        "  std::map<int, at::Half> kept; std::ostringstream said; said << x.sizes();\n"
        "  TORCH_CHECK(kept.empty() && said.str()[0] != '[', said.str(), ' ', 2.5);",
    )
    assert headers_left_out(words) == []
    with pytest.raises(RuntimeError, match=r"\[3, 2\] 2\.5"):
        load(words)(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="\"mirror\" not implemented for 'Int'"):
        load(CANDIDATE)(torch.ones(2, 2, dtype=torch.int32))


def translated(ptx):
    """Return the code that is compiled for each kernel, by which its library is found again."""
    module = Module.load(ptx)
    return [translate(module._parsed, module._layout, name).source for name in module]


@pytest.mark.long
def test_kernels_are_handed_on_while_the_host_half_is_compiled_and_the_library_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    (call,), told = calls_in(CANDIDATE), []
    library = tmp_path / f"{key_of(call)}.so"

    def hand_on(ptx):
        told.append((translated(ptx), bool(list(tmp_path.rglob("made.o")))))

    for _ in range(2):  # the second finds what the first has left
        compile_inline(nvcc(), call, tmp_path, 120, hand_on)
        assert told == [(translated(_cudart.ptx_of(library)[0]), False)]


def test_sources_that_are_put_together_at_run_time_are_refused_by_line():
    with pytest.raises(NotLiteralError, match="load_inline of 'make_source\\(\\)' at line 2"):
        calls_in("\nload_inline(name='f', cuda_sources=make_source(), functions=['f'])")
    _, build = built(CANDIDATE.replace("cuda_sources=source", "cuda_sources=source.upper()"))
    assert build.status is BuildStatus.UNAVAILABLE
    assert build.diagnostics.startswith("not executed: load_inline of 'source.upper()'")


def test_such_a_file_is_a_candidate_of_cuda(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "new.py").write_text(CANDIDATE)
    candidate = load_candidate(tmp_path / "new.py", load_task(str(tmp_path / "task.py")))
    assert (candidate.language, candidate.style) == ("cuda", "module")
