"""Instructions that are not executed: each is refused by name and line, and none stops anything else."""

import json
import random
from pathlib import Path

import pytest

from kernelwright.executor import Module, NotExecutedError, PtxError

from . import video

KERNEL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x)
{{
.reg .b64 %p, %q; .reg .b32 %r<9>; .reg .pred %t; .reg .f32 %f<4>; .reg .b16 %h; .reg .b128 %w;
{}
ret;
}}
"""
F, A, B = "{%f0, %f1, %f2, %f3}", "{%r0, %r1, %r2, %r3}", "{%r4, %r5}"
REFUSED = f"""
mma.sp.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {F}, {B}, {B}, {F}, %r8, 0;
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 {F}, {A}, {A}, {F}, %r8, 0;
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 {F}, {A}, {B}, {F};
tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %p, %q, [%r2], %r1, %t;
tcgen05.mma.ws.cta_group::1.kind::f16 [%r0], %p, %q, %r1, %t;
tcgen05.mma.sp.cta_group::1.kind::i8 [%r0], %p, %q, [%r2], %r1, %t;
tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%r0], %p, %q, %r1, [%r2], [%r3], %t;
tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r0], %p, %q, %r1, [%r2], [%r3], %t;
tcgen05.cp.cta_group::1.128x256b [%r0], %p;
tcgen05.shift.cta_group::1.down [%r0];
tcgen05.ld.sync.aligned.16x64b.x1.b32 {{%r1}}, [%r0];
tcgen05.ld.sync.aligned.32x32b.x1.pack::16b.b32 {{%r1}}, [%r0];
cp.async.bulk.tensor.2d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%r0], [%p, {B}], [%r3], {{%h}};
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r0], [%p, {B}], [%r3];
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%p], [%r0], 16, %h;
fma.rn.oob.f16 %h, %h, %h, %h;
discard.global.L2 [%p], 64;
alloca.u32 %r0, %r1;
stacksave.u32 %r0;
multimem.ld_reduce.relaxed.sys.global.add.u32 %r0, [%p];
tex.2d.v4.f32.s32 {F}, [x, {B}];
suld.b.2d.b32.trap {{%r0}}, [x, {B}];
call (%r0), %p, (%r1);
vadd.s32.s32.s32 %r0, %r1.h3, %r2;
vmin4.s32.s32.s32 %r0, %r1.h10, %r2, %r3;
vmad.s32.s32.s32 %r0, -%r1, %r2, -%r3;
vabsdiff.u32.s32.u32 %r0.h1, %r1.h1, %r2.b2, %r3;
vadd.s32.s32.s32.sat %r0.b3, %r1.b1, %r2.b1, %r3;
vadd.u32.u32.u32.sat %r0, %r1.h0, %r2;
vset.s32.s32.gt.min %r0, %r1.b2, %r2.b0, %r3;
vmad.u32.u32.u32.shr15 %r0, %r1.h0, %r2.h0, %r3;
vmad.s32.s32.u32.sat %r0, %r1.h0, %r2, %r3;
mov.b128 {{%p, %q}}, {{%q, %p}};
red.global.add.b128 [%p], %w;
"""


@pytest.mark.parametrize("instruction", REFUSED.strip().splitlines())
def test_what_is_not_executed_is_refused_by_name_and_line(instruction):
    with pytest.raises(NotExecutedError) as error:
        Module.load(KERNEL.format(instruction))["k"]
    assert str(error.value).startswith(f"not executed: instruction {instruction.split()[0]} at line 7")


@pytest.mark.parametrize("operand", ["%r1.b0", "-%r1"])
def test_parts_and_signs_stand_in_video_instructions_alone(operand):
    with pytest.raises(PtxError, match=r"line 7: .* stands where a value was expected"):
        Module.load(KERNEL.format(f"add.s32 %r0, {operand}, %r2;"))["k"]


WHAT_AN_H100_SAID = Path(__file__).parents[2] / "benchmarks/results/h100/2026-11-27-executor.jsonl"


def test_of_random_video_instructions_of_words_those_are_refused_whose_results_an_h100_contradicted():
    rng, drawn = random.Random(77), {}  # the draw whose kernels the rows are about
    while len(drawn) < 180:
        made = rng.choice((video.any_word_case, video.any_product_case))(rng)
        drawn[made.text] = made
    rows = map(json.loads, WHAT_AN_H100_SAID.read_text().splitlines())
    contradicted = {wrong["text"] for row in rows for wrong in row.get("wrong", ())}
    assert len(contradicted) == 37
    assert contradicted <= set(drawn)
    refused = {text for text, made in drawn.items() if not video.is_executed(made)}
    assert contradicted <= refused
    assert len(refused - contradicted) == 2  # of `.sat` into a byte, whose operands never reached the bound
