"""Shared memory that nobody wrote is a finding where results depend on it, and only there."""

import numpy as np
import pytest

from kernelwright.executor import Module, Uninitialised

from .test_module import HEAD

MERGE = """
.visible .entry k(.param .u64 out) {{
  .reg .b64 %p; .reg .b32 %t, %a, %b; .reg .pred %q;
  .shared .align 4 .b32 s[33];
  ld.param.u64 %p, [out];
  mov.u32 %t, %tid.x;
  mul.lo.u32 %a, %t, 4;
  mov.u32 %b, s;
  add.u32 %a, %a, %b;
  st.shared.u32 [%a], %t;
  bar.sync 0;
  ld.shared.u32 %b, [%a+4];
  setp.lt.u32 %q, %t, 31;
  {use}
  {more}
  mad.wide.u32 %p, %t, 4, %p;
  st.global.u32 [%p], %b;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("use", "kinds"),
    [
        ("selp.b32 %b, %b, %t, %q;", set()),
        ("max.s32 %b, %b, 0;", {"uninitialised"}),
        ("min.f32 %b, %b, 0f42C80000;", {"uninitialised"}),
        ("setp.eq.or.u32 %q, %b, 0, %q; selp.b32 %b, %b, %t, %q;", {"uninitialised"}),
    ],
    ids=["discarded", "in a largest value", "in a least value", "as a flag"],
)
def test_a_value_that_nobody_wrote(use, kinds):
    out = np.empty(32, np.int32)
    run = Module.load(HEAD + MERGE.format(use=use, more=""))["k"](1, 32, [Uninitialised(out)])
    assert {f.kind for f in run.findings} == kinds
    assert out[:31].tolist() == list(range(1, 32))
    if not kinds:
        assert out[31] == 31
        assert "no result depends" in " ".join(run.notes)


def test_global_memory_that_nobody_wrote_is_always_a_finding():
    text = MERGE.format(use="selp.b32 %b, %b, %t, %q;", more="ld.global.u32 %a, [%p];")
    run = Module.load(HEAD + text)["k"](1, 32, [Uninitialised(np.empty(32, np.int32))])
    assert "uninitialised" in {f.kind for f in run.findings}
