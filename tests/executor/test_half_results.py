"""Comparisons whose result is 1.0 or 0.0 of two bytes, and sums of vectors with the type before the operation."""

import operator

import numpy as np
import pytest

from kernelwright.executor import Module

ONE = {"f16": 0x3C00, "bf16": 0x3F80}
TYPES = {
    "f16": (np.float16, "ld.global.b16", "b16"), "f32": (np.float32, "ld.global.f32", "f32"),
    "f64": (np.float64, "ld.global.f64", "f64"), "u16": (np.uint16, "ld.global.u16", "b16"),
    "s32": (np.int32, "ld.global.s32", "b32"), "b64": (np.uint64, "ld.global.b64", "b64"),
}  # fmt: skip
HEAD = ".version 8.6\n.target sm_90\n.address_size 64\n"


@pytest.mark.parametrize("into", ONE)
@pytest.mark.parametrize("kind", TYPES)
def test_a_comparison_gives_one_or_nothing(kind, into):
    dtype, load, register = TYPES[kind]
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 3, 32).astype(dtype) for _ in range(2))
    hows = {"eq": operator.eq, "ne": operator.ne}
    if kind != "b64":
        hows |= {"lt": operator.lt, "ge": operator.ge}
    if kind[0] == "f":
        x[5] = y[9] = np.nan
    size = x.itemsize
    lines = "".join(
        f"set.{how}.{into}.{kind} %r, %a, %b; st.global.b16 [%o+{64 * n}], %r;\n"
        f"set.{how}.xor.{into}.{kind} %r, %a, %b, %odd; st.global.b16 [%o+{64 * (n + len(hows))}], %r;\n"
        for n, how in enumerate(hows)
    )
    text = f"""{HEAD}.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 out) {{
.reg .b64 %x, %y, %o, %at; .reg .b32 %t; .reg .b16 %r; .reg .{register} %a, %b; .reg .pred %odd;
ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, {size}; add.u64 %x, %x, %at; add.u64 %y, %y, %at; mul.wide.u32 %at, %t, 2; add.u64 %o, %o, %at;
and.b32 %t, %t, 1; setp.eq.u32 %odd, %t, 1; {load} %a, [%x]; {load} %b, [%y];
{lines}ret;
}}"""
    out = np.zeros((2 * len(hows), 32), np.uint16)
    run = Module.load(text)["k"](1, 32, [x, y, out])
    assert run.ok, run.findings
    odd = np.arange(32) % 2 == 1
    number = ~(np.isnan(x) | np.isnan(y)) if kind[0] == "f" else True
    for n, how in enumerate(hows.values()):
        holds = how(x, y) & number
        assert np.array_equal(out[n], np.where(holds, ONE[into], 0))
        assert np.array_equal(out[n + len(hows)], np.where(holds ^ odd, ONE[into], 0))


@pytest.mark.parametrize("order", ["add.v2.f32", "v2.f32.add"])
def test_vectors_are_added_whichever_way_the_form_is_written(order):
    text = f"""{HEAD}.visible .entry k(.param .u64 x) {{
.reg .b64 %x; .reg .f32 %f<2>; ld.param.u64 %x, [x]; mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000;
red.global.{order} [%x], {{%f0, %f1}};
ret;
}}"""
    x = np.zeros(2, np.float32)
    run = Module.load(text)["k"](2, 64, [x])
    assert run.ok, run.findings
    assert x.tolist() == [128, 256]
