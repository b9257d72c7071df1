"""HIP C++: what the compiler's assembly shows, for GPUs that are not here; each fact against a source that makes it."""

import re
from pathlib import Path

import pytest

from kernelwright.config import Settings
from kernelwright.errors import MissingToolError
from kernelwright.languages import hip
from kernelwright.languages._amdgcn import amd_facts
from kernelwright.languages.hip import Hip
from kernelwright.records import Build, BuildStatus, Candidate, SourceFile

SOURCE = """
#include "kernelwright.h"
#include "kernelwright_grid.h"
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 half4 __attribute__((ext_vector_type(4)));

__global__ __launch_bounds__(256) void smooth(const float* x, float* out, int n) {
  __shared__ float tile[10240];
  const int i = kw::chunked(blockIdx.x, gridDim.x, 8, 4) * 256 + threadIdx.x;
  for (int k = threadIdx.x; k < 10240; k += 256) tile[k] = x[(i + k) % n];
  __syncthreads();
  if (i < n) out[i] = expf(tile[(threadIdx.x * 37) % 10240]) + sinf(x[i]);
}

__global__ __launch_bounds__(64) void product(const half4* a, const half4* b, f32x4* c) {
  f32x4 sum = {0, 0, 0, 0};
  for (int k = 0; k < 4; ++k)
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(a[64 * k + threadIdx.x], b[64 * k + threadIdx.x], sum, 0, 0, 0);
  c[threadIdx.x] = sum;
}

#if defined(__gfx90a__)
#error not for MI200
#endif

#if defined(__gfx942__)
__global__ __launch_bounds__(1024, 8) void crowded(const f32x4* x, f32x4* out) {
  f32x4 held[40];
  for (int k = 0; k < 40; ++k) held[k] = x[64 * k + threadIdx.x];
  __syncthreads();
  for (int k = 0; k < 40; ++k) out[64 * k + threadIdx.x] = held[k] * held[39 - k];
}
#endif

KW_KERNEL(run) {
  auto x = args.tensor<const float>(0);
  auto out = args.tensor<float>(1);
  smooth<<<1, 256, 0, kw::stream(x)>>>(x.data(), out.data(), static_cast<int>(x.numel()));
  KW_CHECK_LAUNCH();
}
"""


def candidate(text: str = SOURCE, **more) -> Candidate:
    given = {"entry": "k.hip:run", "style": "destination", **more}
    return Candidate(sources=(SourceFile(path="k.hip", text=text),), language="hip", **given)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return Hip(Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path_factory.mktemp("c"))})).build(
        candidate()
    )


@pytest.mark.needs("HIP")
def test_what_assembly_shows_is_evidence_by_target(built: Build) -> None:
    assert built.status is BuildStatus.OK, built.diagnostics
    facts = built.evidence
    assert facts["gfx950.kernels"] == 2 and facts["gfx942.kernels"] == 3
    assert facts["gfx950.tensor_instructions"] == facts["gfx942.tensor_instructions"] == 4
    assert facts["gfx950.shared_bytes"] == 40960
    assert facts["gfx950.spill_bytes"] == 0 < facts["gfx942.spill_bytes"]
    assert facts["gfx942.spill_instructions"] > 0 and facts["gfx942.scratch_bytes"] > 0
    assert facts["gfx950.waves"] == 4 and facts["gfx942.waves"] == 1, (
        "160 and 64 KiB hold 4 and 1 of these blocks"
    )


@pytest.mark.needs("HIP")
def test_spills_and_targets_that_do_not_compile_are_findings(built: Build) -> None:
    assert not any(name.startswith("gfx90a") for name in built.evidence)
    spilled, refused = built.findings
    assert spilled.endswith("bytes of registers are spilled on gfx942")
    assert "does not compile for gfx90a" in refused and "k.hip:23:2: error: not for MI200" in refused


@pytest.mark.needs("HIP")
def test_waves_are_those_that_the_compiler_writes_beside_them(built: Build) -> None:
    assert built.artefact
    compared = 0
    for target in ("gfx942", "gfx950"):
        text = (Path(built.artefact) / f"{target}.s").read_text()
        written = [int(waves) for waves in re.findall(r"^; Occupancy: (\d+)$", text, re.MULTILINE)]
        if len(written) == text.count("; Occupancy:"):
            compared += 1
            assert amd_facts(text, target)["waves"] == min(written)
    assert compared


@pytest.mark.needs("HIP")
def test_memory_that_a_launch_asks_for_is_counted_when_it_is_named(built: Build) -> None:
    text = (Path(built.artefact or "") / "gfx950.s").read_text()
    assert [amd_facts(text, "gfx950", asked)["waves"] for asked in (0, 10240, 40960)] == [4, 3, 1]


@pytest.mark.needs("HIP")
@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        (SOURCE, {"style": "function"}, "is called in style 'destination'"),
        (SOURCE, {"flags": ("-fplugin=x",)}, "flag '-fplugin=x' is not allowed"),
        (SOURCE, {"flags": ("-Wl,x",)}, "flag '-Wl,x' is not allowed"),
        (
            "#include <hip/hip_runtime.h>\n__global__ void f() { y; }",
            {},
            "k.hip:2:23: error: use of undeclared",
        ),
        ("int x;", {}, "the sources export no kernel 'run'"),
    ],
)
def test_what_cannot_be_built_says_why(tmp_path: Path, text: str, more: dict, said: str) -> None:
    made = Hip(Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})).build(
        candidate(text, **more)
    )
    assert made.status is BuildStatus.FAILED
    assert said in made.diagnostics


@pytest.mark.needs("HIP")
def test_inline_assembly_that_no_assembler_takes_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hip, "_known", lambda _: ("gfx942",))
    text = (
        '#include "kernelwright.h"\n__global__ void f(float* x) { asm volatile("v_frob_b32 v0, v1"); *x = 1; }\n'
        "KW_KERNEL(run) { f<<<1, 64>>>(args.tensor<float>(0).data()); }\n"
    )
    made = Hip(Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})).build(candidate(text))
    assert made.status is BuildStatus.FAILED
    assert "it does not compile for gfx942: gfx942.s:" in made.diagnostics
    assert "v_frob_b32" in made.diagnostics


@pytest.mark.needs("HIP")
@pytest.mark.parametrize(
    ("line", "status"),
    [("#include <rocprim/rocprim.hpp>", BuildStatus.UNAVAILABLE), ('#include "mine.h"', BuildStatus.FAILED)],
)
def test_a_header_of_rocm_that_is_not_here_refuses_no_kernel(
    tmp_path: Path, line: str, status: BuildStatus
) -> None:
    made = Hip(Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})).build(
        candidate(f"{line}\nint x;")
    )
    assert made.status is status
    assert line.split()[1].strip('<>"') in made.diagnostics


def test_nothing_runs_it_and_no_time_of_it_means_anything(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="compiled here and not run"):
        Hip().load(candidate(), tmp_path, ())
    assert not any(Hip().timeable(device) for device in ("cpu", "cuda"))


def test_without_its_tools_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hip, "_clang", lambda: None)
    made = Hip().build(candidate())
    assert made.status is BuildStatus.UNAVAILABLE
    assert "no clang that knows gfx90a" in made.diagnostics and "clang-22" in made.diagnostics
    assert Hip().targets == ("gfx90a", "gfx942", "gfx950")
