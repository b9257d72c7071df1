"""Where there is no GPU, candidates of `cuda` and `triton` are verified by executing their PTX under the sanitiser."""

import pytest

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Candidate, CheckStatus, SourceFile, VerdictStatus
from kernelwright.sandbox._zygotes import PRELOADED

from .judging import judging

pytestmark = pytest.mark.needs("no GPU")

CUDA = """
#include "kernelwright.h"
__global__ void mirror(const float* x, float* out, int n) {
  __shared__ float row[64];
  for (int base = 0; base < n; base += 64) {
    const int i = base + threadIdx.x;
    if (i < n) row[threadIdx.x] = x[blockIdx.x * n + i];
    __syncthreads();
    if (i < n) out[blockIdx.x * n + n - 1 - i] = 2 * row[threadIdx.x];
    __syncthreads();
  }
}
KW_KERNEL(run) {
  auto x = args.tensor<const float>(0);
  auto out = args.tensor<float>(1);
  if (x.ndim() != 2) KW_UNSUPPORTED("x must be a matrix");
  const int n = static_cast<int>(x.shape(1));
  if (x.numel() == 0) return;
  mirror<<<static_cast<unsigned>(x.shape(0)), 64, 0, kw::stream(x)>>>(x.data(), out.data(), n);
  KW_CHECK_LAUNCH();
}
"""
RACY = (
    CUDA.replace("2 * row[threadIdx.x]", "2 * row[63 - threadIdx.x]")
    .replace("n - 1 - i]", "i]")
    .replace("    __syncthreads();\n    if", "    if")
)

TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def mirror(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + n - 1 - columns, mask=columns < n)
    tl.store(out + row * n + columns, 2 * value, mask=columns < n)

def run(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    mirror[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out
"""
BEYOND = TRITON.replace(
    "n - 1 - columns, mask",
    "n - 1 - columns + tl.where(tl.load(x + tl.num_programs(0) * n) == 12345.0, 1, 0), mask",
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("cache"))
    return Settings.from_environment({"KERNELWRIGHT_CACHE": folder, "KERNELWRIGHT_STORE": folder})


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    with judging(tmp_path_factory.mktemp("task")) as judge:
        yield judge


def found(verdict, check):
    return next(f for f in verdict.findings if f.check == check)


@pytest.mark.needs("nvcc")
def test_a_right_cuda_kernel_is_accepted_without_a_gpu(judged):
    verdict = judged(CUDA, "cuda", "full")
    assert verdict.status is VerdictStatus.ACCEPTED, [f for f in verdict.findings if f.message]
    assert found(verdict, "sanitised").status is CheckStatus.PASS
    assert not get_language("cuda").timeable("cpu")


@pytest.mark.needs("nvcc")
def test_a_race_refuses_a_cuda_kernel_and_names_its_lines(judged):
    verdict = judged(RACY, "cuda")
    assert verdict.status is VerdictStatus.REJECTED
    assert verdict.failure == "runs"
    assert "race at PTX line" in found(verdict, "runs").message
    assert "k.cu:" in found(verdict, "runs").message


@pytest.mark.long
@pytest.mark.needs("nvcc")
def test_a_kernel_of_warp_groups_is_built_for_the_gpu_that_has_them(judged):
    grouped = (
        CUDA.replace("[64]", "[128]").replace("base += 64", "base += 128").replace(", 64, 0,", ", 128, 0,")
    )
    text = grouped.replace(
        "__shared__", 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n  __shared__'
    )
    assert judged(text, "cuda").status is VerdictStatus.ACCEPTED


@pytest.mark.needs("triton")
def test_a_right_triton_kernel_is_interpreted_and_executed(judged):
    verdict = judged(TRITON, "triton", "full")
    assert verdict.status is VerdictStatus.ACCEPTED, [f for f in verdict.findings if f.message]
    assert found(verdict, "sanitised").status is CheckStatus.PASS


@pytest.mark.needs("triton")
def test_a_triton_kernel_that_reads_beyond_its_tensors_is_refused_though_its_values_are_right(judged):
    verdict = judged(BEYOND, "triton", "full")
    assert found(verdict, "correct").status is CheckStatus.PASS
    assert verdict.failure == "sanitised"
    message = found(verdict, "sanitised").message
    assert "out-of-bounds at PTX line" in message
    assert ", k.py:" in message


@pytest.mark.needs("triton")
def test_wrong_values_of_an_interpreted_kernel_are_traced_to_the_line_that_strays(judged):
    verdict = judged(
        TRITON.replace("tl.store(out + row * n", "tl.store(out + (row + 1) * n"), "triton", "full"
    )
    assert verdict.failure == "sanitised"
    message = found(verdict, "sanitised").message
    assert "out-of-bounds at PTX line" in message
    assert (
        f", k.py:{TRITON[: TRITON.index('tl.store')].count(chr(10)) + 1}: block (5, 0, 0), thread" in message
    )


@pytest.mark.long
@pytest.mark.needs("nvcc", "triton")
@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_launches_of_a_right_call_are_counted_and_modelled(judged, language):
    (made,), finding = judged.modelled({"cuda": CUDA, "triton": TRITON}[language], language)
    assert finding.status is CheckStatus.PASS and "modelled for NVIDIA H100" in finding.message
    assert (made.launches, made.limited_by) == (1, "the grid")
    assert 0 < made.low_us < made.high_us


@pytest.mark.long
@pytest.mark.needs("nvcc")
def test_a_race_has_no_modelled_time(judged):
    times, finding = judged.modelled(RACY, "cuda")
    assert not times and finding.status is CheckStatus.FAIL and "race at PTX line" in finding.message


@pytest.mark.needs("nvcc")
def test_what_is_not_executed_is_unknown_and_never_refused(settings):
    graph = CUDA.replace("if (x.numel() == 0) return;", "cudaGraph_t g; cudaGraphCreate(&g, 0);")
    candidate = Candidate(
        sources=(SourceFile(path="k.cu", text=graph),), language="cuda", entry="k.cu:run", style="destination"
    )
    build = get_language("cuda").build(candidate)
    assert build.status == "unavailable"
    assert build.diagnostics.startswith("not executed: cudaGraphCreate at k.cu:")


@pytest.mark.parametrize("language", ["cuda", "triton", "gluon"])
def test_workers_are_forked_with_the_executor_imported(language):
    """Each imported it anew otherwise, half a second of a processor."""
    assert type(get_language(language)).__module__ in PRELOADED[language]
