from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.errors import MissingToolError
from kernelwright.languages import cuda as module_under_test
from kernelwright.languages._cuda_targets import architecture, ptxas_evidence, targets_asked
from kernelwright.languages.cuda import Cuda
from kernelwright.records import BuildStatus, Candidate, SourceFile

from .conftest import one_file, spec

needs_nvcc = pytest.mark.needs("nvcc")

SPILLING = """
    #include "kernelwright.h"
    __global__ void many(const float* x, float* out) {
      float v[64];
      for (int i = 0; i < 64; ++i) v[i] = x[i * blockDim.x + threadIdx.x];
      __syncthreads();
      for (int r = 0; r < 9; ++r)
        #pragma unroll
        for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 7) % 64] + x[r];
      __shared__ float part[64];
      part[threadIdx.x] = v[threadIdx.x & 3];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 64; ++i) out[i * blockDim.x + threadIdx.x] = v[i] + part[i];
    }
    KW_KERNEL(f) {
      auto x = args.tensor<const float>(0);
      many<<<1, 64, 0, kw::stream(x)>>>(x.data(), args.tensor<float>(1).data());
      KW_CHECK_LAUNCH();
    }
"""


def _documented(example) -> Candidate:
    source, entry = example(module_under_test)
    return Candidate(sources=(source,), language="cuda", entry=entry, style="destination")


def test_without_nvcc_it_says_how_to_get_it(fresh, example):
    language = Cuda(replace(fresh, nvcc="/no/such/nvcc"))
    said = language.available()
    assert not said.ok
    assert "KERNELWRIGHT_NVCC" in said.remedy
    build = language.build(_documented(example))
    assert build.status is BuildStatus.UNAVAILABLE
    assert "KERNELWRIGHT_NVCC" in build.diagnostics


def test_nvcc_is_found_in_cuda_home(fresh, tmp_path, monkeypatch):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 99.9, V99.9.1'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(module_under_test.shutil, "which", _only_absolute(module_under_test.shutil.which))
    assert "nvcc 99.9.1" in Cuda(replace(fresh, cuda_home=tmp_path)).available().what


def _only_absolute(which):
    return lambda name: which(name) if "/" in str(name) else None


def test_ptxas_words_become_evidence_by_target():
    text = (
        "ptxas info    : Compiling entry function '_Z1fPf' for 'sm_90'\n"
        "    32 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads\n"
        "ptxas info    : Used 64 registers, used 1 barriers, 2048 bytes smem, 400 bytes cmem[0]\n"
        "ptxas info    : Compiling entry function '_Z1gPf' for 'sm_90'\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 10 registers, used 0 barriers\n"
    )
    assert ptxas_evidence(text) == {
        "sm_90.kernels": 2, "sm_90.spill_bytes": 84, "sm_90.registers": 64, "sm_90.shared_bytes": 2048,
        "sm_90.resident_warps": 32,
    }  # fmt: skip


def test_a_source_names_further_targets_and_what_needs_a_variant():
    plain = one_file("// targets: sm_90, sm_80 and sm_120\n", "cuda", "k.cu:f", "destination")
    assert targets_asked(plain) == ("sm_80", "sm_120")
    assert [architecture(target, plain) for target in ("sm_90", "sm_100")] == ["sm_90", "sm_100"]
    grouped = one_file('asm volatile("wgmma.fence.sync.aligned;");', "cuda", "k.cu:f", "destination")
    assert not targets_asked(grouped)
    assert [architecture(target, grouped) for target in ("sm_90", "sm_100")] == ["sm_90a", "sm_100"]


PRODUCT = """// targets: sm_80, sm_100, sm_120
#include <mma.h>
#include "kernelwright.h"
using namespace nvcuda::wmma;
__global__ void product(const half* a, const half* b, float* c) {
  fragment<matrix_a, 16, 16, 16, half, row_major> x;
  fragment<matrix_b, 16, 16, 16, half, row_major> y;
  fragment<accumulator, 16, 16, 16, float> z;
  load_matrix_sync(x, a, 16), load_matrix_sync(y, b, 16), fill_fragment(z, 0);
  mma_sync(z, x, y, z);
  store_matrix_sync(c, z, 16, mem_row_major);
}
KW_KERNEL(f) {
  auto c = args.tensor<float>(0);
  product<<<1, 32, 0, kw::stream(c)>>>(nullptr, nullptr, c.data());
}
"""


@needs_nvcc
@pytest.mark.long
@pytest.mark.needs("triton")
class TestTargets:
    def test_each_target_has_registers_and_its_tensor_instructions(self, settings):
        build = Cuda(settings).build(one_file(PRODUCT, "cuda", "k.cu:f", "destination"))
        assert build.status is BuildStatus.OK and not build.findings, build.diagnostics
        for target in ("sm_80", "sm_90", "sm_100", "sm_120"):
            assert build.evidence[f"{target}.registers"] > 8, build.evidence
            assert build.evidence[f"{target}.tensor_instructions"] >= 1
            assert build.evidence[f"{target}.kernels"] == 1

    def test_what_one_target_alone_has_is_a_finding_on_the_others(self, settings):
        fence = 'fill_fragment(z, 0);\n  asm volatile("wgmma.fence.sync.aligned;");'
        text = PRODUCT.replace("fill_fragment(z, 0);", fence).replace("sm_100, sm_120", "")
        build = Cuda(settings).build(one_file(text, "cuda", "k.cu:f", "destination"))
        assert build.status is BuildStatus.OK, build.diagnostics
        assert build.evidence["sm_90.tensor_instructions"] >= 1
        assert "sm_80.registers" not in build.evidence
        assert "k.cu does not compile for sm_80" in build.findings[0]


@needs_nvcc
class TestBuilds:
    def test_the_documented_example_for_sm_90(self, settings, example):
        build = Cuda(settings).build(_documented(example))
        assert build.status is BuildStatus.OK, build.diagnostics
        assert 4 <= build.evidence["sm_90.registers"] <= 40
        assert build.evidence["sm_90.spill_bytes"] == 0
        assert build.evidence["sm_90.kernels"] == 1
        assert build.findings == ()

    def test_a_spill_is_a_finding(self, settings):
        candidate = one_file(SPILLING, "cuda", "k.cu:f", "destination", ("-maxrregcount=32",))
        build = Cuda(settings).build(candidate)
        assert build.evidence["sm_90.spill_bytes"] > 0, build.diagnostics
        assert build.evidence["sm_90.shared_bytes"] >= 256
        assert "spilled on sm_90" in build.findings[0]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"entry": "scale.cu:other"}, "export no kernel 'other'"),
            ({"style": "function"}, "'destination'"),
            ({"flags": ("-Xcompiler=-fplugin=x",)}, "not allowed"),
            ({"sources": (SourceFile(path="k.txt", text=""),)}, "no CUDA file"),
            ({"sources": (SourceFile(path="scale.cu", text="nonsense"),)}, "nonsense"),
        ],
    )
    def test_what_cannot_be_built_says_why(self, settings, example, change, words):
        build = Cuda(settings).build(_documented(example).model_copy(update=change))
        assert build.status is BuildStatus.FAILED
        assert words in build.diagnostics

    @pytest.mark.needs("no GPU")
    def test_without_a_gpu_it_does_not_load(self, settings, example):
        candidate = _documented(example)
        language = Cuda(settings)
        build = language.build(candidate)
        with pytest.raises(MissingToolError, match="needs an NVIDIA GPU"):
            language.load(candidate, Path(build.artefact), (spec(1),))
