"""Instructions that are not executed: each is refused by name and line, and none stops anything else."""

import pytest

from kernelwright.executor import Module, NotExecutedError

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
mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {F}, {A}, {A}, {F}, %r8, 0x0;
mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {F}, {B}, {B}, {F}, %r8, 0x0;
mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {A}, {B}, {B}, {A};
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 {F}, {A}, {B}, {F};
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {F}, %p, %q, %r1, 0, 1, 1, 1, 0, 0;
wmma.load.a.sync.aligned.row.m8n8k32.s4 {{%r0}}, [%p];
wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {B}, {{%r2}}, {{%r3}}, {B};
wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {B}, {{%r2}}, {{%r3}}, {B};
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 32;
tcgen05.mma.cta_group::2.kind::f16 [%r0], %p, %q, %r1, %t;
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r0];
tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %p, %q, [%r2], %r1, %t;
tcgen05.mma.ws.cta_group::1.kind::f16 [%r0], %p, %q, %r1, %t;
tcgen05.mma.cta_group::1.kind::i8 [%r0], %p, %q, %r1, %t;
tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r0], %p, %q, %r1, [%r2], [%r3], %t;
tcgen05.cp.cta_group::1.128x256b [%r0], %p;
tcgen05.shift.cta_group::1.down [%r0];
tcgen05.ld.sync.aligned.16x64b.x1.b32 {{%r1}}, [%r0];
tcgen05.ld.sync.aligned.32x32b.x1.pack::16b.b32 {{%r1}}, [%r0];
cp.async.bulk.tensor.2d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%r0], [%p, {B}], [%r3], {{%h}};
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r0], [%p, {B}], [%r3];
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%p], [%r0], 16, %h;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r1, [%r2];
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, [%r2];
multimem.ld_reduce.relaxed.sys.global.add.u32 %r0, [%p];
tex.2d.v4.f32.s32 {F}, [x, {B}];
suld.b.2d.b32.trap {{%r0}}, [x, {B}];
call (%r0), %p, (%r1);
vadd.s32.s32.s32 %r0, %r1, %r2;
vmad.s32.u32.u32 %r0, %r1, %r2, %r3;
vset.s32.u32.lt %r0, %r1, %r2;
vshl.u32.u32.u32.wrap %r0, %r1, %r2;
mov.b128 %w, {{%p, %q}};
atom.global.cas.b128 %w, [%p], %w, %w;
"""


@pytest.mark.parametrize("instruction", REFUSED.strip().splitlines())
def test_what_is_not_executed_is_refused_by_name_and_line(instruction):
    with pytest.raises(NotExecutedError) as error:
        Module.load(KERNEL.format(instruction))["k"]
    assert str(error.value).startswith(f"not executed: instruction {instruction.split()[0]} at line 7")
