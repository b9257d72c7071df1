import pytest

from kernelwright.languages import _object
from kernelwright.languages._object import count_instructions, object_evidence
from kernelwright.languages.cpp import LIBRARY, Cpp

from .conftest import one_file

SPILLING = """
    #include "kernelwright.h"
    KW_KERNEL(f) {
      auto x = args.tensor<const float>(0);
      auto out = args.tensor<float>(1);
      typedef float vector __attribute__((vector_size(32)));
      const vector* p = reinterpret_cast<const vector*>(x.data());
      vector sums[40];
      for (int i = 0; i < 40; ++i) sums[i] = p[i];
      for (int64_t n = 0; n < x.numel(); ++n) {
        #pragma GCC unroll 40
        for (int i = 0; i < 40; ++i) sums[i] = sums[i] * sums[(i + 7) % 40] + p[n];
      }
      vector* q = reinterpret_cast<vector*>(out.data());
      for (int i = 0; i < 40; ++i) q[i] = sums[i];
    }
"""


def test_only_slots_that_are_reloaded_count_as_spills():
    text = (
        "0000 <f>:\n  1:\tvmovaps %ymm0,0x20(%rsp)\n  2:\tvmovaps %ymm1,0x40(%rsp)\n"
        "  3:\tvaddps 0x20(%rsp),%ymm2,%ymm2\n"
        "0010 <g>:\n  4:\tvmovaps 0x40(%rsp),%ymm3\n"
    )
    counts = count_instructions(text)
    assert (counts["spills"], counts["ymm"], counts["vector_width_bits"]) == (1, 4, 256)


@pytest.mark.parametrize(
    ("line", "bits"),
    [
        ("vfmadd231ps %zmm1,%zmm2,%zmm3", 512),
        ("addps  %xmm1,%xmm2", 128),
        ("addss  %xmm1,%xmm2", 0),
        ("add %rax,%rbx", 0),
    ],
)
def test_width_is_the_widest_packed_register(line, bits):
    assert count_instructions(f"  1:\t{line}\n")["vector_width_bits"] == bits


@pytest.mark.needs("objdump", "C++ compiler")
def test_a_kernel_that_spills_is_found_out(settings):
    candidate = one_file(SPILLING, "cpp", "k.cpp:f", "destination", ("-mno-avx512f",))
    build = Cpp(settings).build(candidate)
    assert build.evidence["spills"] > 5
    assert "spilled to the stack" in build.findings[0]
    assert build.evidence["text_bytes"] > 500


def test_without_objdump_there_is_no_evidence_rather_than_zero(monkeypatch, tmp_path):
    monkeypatch.setattr(_object.shutil, "which", lambda name: None)
    assert object_evidence(tmp_path / LIBRARY) == {}
