"""Bulk copies: tiles by tensor maps with every swizzle, plain copies, reductions, and what goes wrong with them."""

import numpy as np
import pytest
import torch

from kernelwright.errors import InputError
from kernelwright.executor import Module, NotExecutedError, Options, TensorMap, Uninitialised
from kernelwright.executor.cuda import load_cuda

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k("
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %over, [bar], 0;\n@!%over bra WAIT;\n"
INTO = "shared::cta.global.tile.mbarrier::complete_tx::bytes"
OUT_OF = "global.shared::cta.tile.bulk_group"
DONE = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
SEE = "bar.sync 0;\n"


def program(parameters, body, size):
    """Return a kernel with `size` bytes of tile, an mbarrier and the first thread's part of `body` after `ONE:`."""
    generic = ".reg .b64 %m; mov.b64 %m, m; cvta.param.u64 %m, %m; " if "m[128]" in parameters else ""
    return Module.load(
        f"""{HEAD}{parameters}) {{
{generic}.reg .b64 %p<8>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .pred %first, %over;
.shared .align 1024 .b8 tile[{size}]; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; setp.eq.u32 %first, %r0, 0;
@!%first bra READY;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
{body}
END: ret;
}}
"""
    )["k"]


def load(rank, coordinates, size, expected=None):
    return (
        f"@!%first bra ISSUED;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {expected or size};\n"
        f"cp.async.bulk.tensor.{rank}d.{INTO} [tile], [%m, {{{coordinates}}}], [bar];\nISSUED:\n"
    )


DUMP = """mov.u32 %r2, tile; ld.param.u64 %p1, [out]; shl.b32 %r3, %r0, 2; cvt.u64.u32 %p3, %r3; add.u64 %p1, %p1, %p3;
add.u32 %r2, %r2, %r3; ld.shared.b32 %r4, [%r2]; st.global.b32 [%p1], %r4;
"""
MAP = ".param .align 64 .b8 m[128], .param .u64 out"


def ran(kernel, arguments, threads, seeds=(0, 3), **more):
    for seed in seeds:
        run = kernel(1, threads, arguments, options=Options(seed=seed, deadline_s=20), **more)
        assert run.ok, (run.status, run.notes, [str(f) for f in run.findings])
    return run


def swizzled(tile, width):
    """Return bytes of a tile as they lie in shared memory, piece by piece."""
    flat = np.ascontiguousarray(tile).view(np.uint8).reshape(-1, 16)
    at = np.arange(len(flat)) * 16
    place = at ^ ((at >> 7 & {0: 0, 32: 1, 64: 3, 128: 7}[width]) << 4)
    out = np.empty_like(flat)
    out[place // 16] = flat
    return out.reshape(-1)


@pytest.mark.parametrize("width", [0, 32, 64, 128])
def test_a_tile_arrives_swizzled_with_zeros_outside(width):
    out = np.zeros(8 * (width or 128), np.uint8)
    place = "ld.param.u32 %r6, [column]; ld.param.u32 %r7, [row];\n"
    kernel = program(
        MAP + ", .param .u32 row, .param .u32 column",
        place + load(2, "%r6, %r7", out.size) + WAIT + DUMP,
        out.size,
    )
    for dtype, row, column in [(np.float32, 0, 0), (np.uint16, 3, 8), (np.uint8, -2, -16)]:
        columns = (width or 128) // np.dtype(dtype).itemsize
        x = np.random.default_rng(0).integers(1, 200, (12, 144)).astype(dtype)
        given = [TensorMap(x, (8, columns), swizzle=width), Uninitialised(out), row, column]
        ran(kernel, given, out.size // 4)
        tile = np.pad(x, 16)[16 + row : 24 + row, 16 + column : 16 + column + columns]
        assert np.array_equal(out, swizzled(tile, width))
    x = np.random.default_rng(0).integers(1, 200, (20, 144)).astype(np.uint8)
    given = [TensorMap(x, (22, columns), swizzle=width, steps=(3,)), Uninitialised(out), 1, 16]
    ran(kernel, given, out.size // 4)
    assert np.array_equal(out, swizzled(np.pad(x, ((0, 8), (0, 0)))[1:25:3, 16 : 16 + columns], width))


def test_tiles_of_one_and_three_dimensions():
    x, out = np.arange(100, dtype=np.float32), np.zeros(64, np.float32)
    ran(
        program(MAP, load(1, "60", 256) + WAIT + DUMP, 256),
        [TensorMap(x, (64,), fill="nan"), Uninitialised(out)],
        64,
    )
    assert np.array_equal(out[:40], x[60:])
    assert np.isnan(out[40:]).all()
    x, out = np.arange(4 * 5 * 8, dtype=np.float32).reshape(4, 5, 8), np.zeros((2, 3, 4), np.float32)
    kernel = program(MAP, load(3, "4, 2, 1", 96) + WAIT + DUMP, 96)
    ran(kernel, [TensorMap(x, (2, 3, 4)), Uninitialised(out)], 24)
    assert np.array_equal(out, x[1:3, 2:5, 4:])


def test_a_tile_is_stored_within_its_tensor_and_reduced():
    x, into = (
        np.random.default_rng(0).integers(0, 9, (8, 32)).astype(np.float32),
        np.zeros((6, 36), np.float32),
    )
    fill = """ld.param.u64 %p1, [out]; shl.b32 %r3, %r0, 2; cvt.u64.u32 %p3, %r3; add.u64 %p1, %p1, %p3;
ld.global.b32 %r4, [%p1]; mov.u32 %r2, tile; xor.b32 %r5, %r3, 0; shr.u32 %r6, %r3, 7; and.b32 %r6, %r6, 7;
shl.b32 %r6, %r6, 4; xor.b32 %r5, %r5, %r6; add.u32 %r2, %r2, %r5; st.shared.b32 [%r2], %r4;
fence.proxy.async.shared::cta; bar.sync 0; @!%first bra END;
"""
    store = "cp.async.bulk.tensor.2d." + OUT_OF + " [%m, {8, 1}], [tile];\n"
    add = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%m, {8, 1}], [tile];\n"
    given = TensorMap(into, (8, 32), swizzle=128)
    stored = program(MAP, fill + store + DONE, 1024)
    assert stored(1, 256, [TensorMap(into, (16, 32), swizzle=128, steps=(2,)), x]).status == "refused"
    ran(stored, [given, x], 256)
    expected = np.zeros_like(into)
    expected[1:6, 8:36] = x[:5, :28]
    assert np.array_equal(into, expected)
    ran(program(MAP, fill + add + DONE, 1024), [given, x], 256, seeds=(0,))
    assert np.array_equal(into, 2 * expected)


PLAIN = """ld.param.u64 %p0, [m]; ld.param.u64 %p1, [out];
@!%first bra ISSUED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%p0], 512, [bar];
ISSUED:
"""


def test_plain_copies_and_reductions():
    body = (
        PLAIN
        + WAIT
        + """mov.u32 %r2, tile; shl.b32 %r3, %r0, 2; add.u32 %r2, %r2, %r3;
ld.shared.f32 %f0, [%r2]; add.f32 %f0, %f0, %f0; st.shared.f32 [%r2], %f0;
fence.proxy.async; bar.sync 0; @!%first bra END;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%p1], [tile], 512;
"""
    )
    x, out = np.arange(128, dtype=np.float32), np.ones(128, np.float32)
    kernel = program(".param .u64 m, .param .u64 out", body + DONE, 512)
    ran(kernel, [x, out], 128, seeds=(5,))
    assert np.array_equal(out, 2 * x + 1)


STORE = "mov.u32 %r2, tile; shl.b32 %r3, %r0, 2; add.u32 %r2, %r2, %r3; st.shared.b32 [%r2], %r0;\n"
TO_GLOBAL = "cp.async.bulk.global.shared::cta.bulk_group [%p1], [tile], 512;\n"
NOT_EXPECTED = PLAIN.replace("arrive.expect_tx", "arrive").replace("_, [bar], 512", "_, [bar]")
FAULTS = {
    "no wait": (PLAIN + DUMP, "copy-not-waited"),
    "never waited": (PLAIN, "copy-left"),
    "not expected": (NOT_EXPECTED + WAIT + DUMP, "copy-not-waited"),
    "read before": (DUMP.replace("st.global", "// ") + PLAIN + WAIT + DUMP, "uninitialised race"),
    "written before": (STORE + PLAIN + WAIT + DUMP, "race"),
    "no fence": (PLAIN + WAIT + STORE + SEE + "@!%first bra END;\n" + TO_GLOBAL + DONE, "proxy-fence-missing"),
    "not committed": (PLAIN + WAIT + "@!%first bra END;\n" + TO_GLOBAL, "copy-left"),
    "written too early": (PLAIN + WAIT + "@!%first bra LATER;\n" + TO_GLOBAL + "LATER: bar.sync 0;\n" + STORE
                          + "bar.sync 0;\n@!%first bra END;\n" + DONE, "copy-not-waited"),
    "too many expected": (PLAIN.replace("[bar], 512", "[bar], 528") + WAIT + DUMP, "deadlock"),
    "another phase": (PLAIN + WAIT + WAIT.replace("WAIT", "AGAIN").replace("[bar], 0", "[bar], 1") + DUMP, "deadlock"),
    "a size": ("mov.b32 %r6, 520;\n" + PLAIN.replace("512", "%r6") + DUMP, "misaligned"),
    "beyond": (PLAIN.replace("[%p0]", "[%p0+16]") + WAIT + DUMP, "out-of-bounds"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", [0, 5])
def test_what_is_wrong_with_a_copy_is_found(name, seed):
    body, kinds = FAULTS[name]
    x, out = np.arange(128, dtype=np.uint32) + 7, np.zeros(128, np.uint32)
    kernel = program(".param .u64 m, .param .u64 out", body, 512)
    run = kernel(1, 128, [x, Uninitialised(out)], options=Options(seed=seed))
    assert set(kinds.split()) & {f.kind for f in run.findings}, (run.status, [str(f) for f in run.findings])


GROUP = """mov.b32 %r1, 0; shl.b32 %r3, %r0, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r3;
st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1}; st.shared.v4.b32 [%r2+2048], {%r1, %r1, %r1, %r1};
{fence} bar.sync 0;
mov.u32 %r2, tile; shr.u32 %r2, %r2, 4; cvt.u64.u32 %p2, %r2; or.b64 %p2, %p2, 0x1000080000; add.u64 %p3, %p2, 128;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; setp.ne.u32 %over, %r0, 1000;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %p2, %p3, %over, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
"""


STORED = "st.shared.b32 [tile], %r1;\n"
FENCED = GROUP.replace("{fence}", "fence.proxy.async;")


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (FENCED + "bar.sync 0;\n" + STORED, set()),
        (GROUP.replace("{fence}", ""), {"proxy-fence-missing"}),
        (FENCED.replace("wgmma.commit_group", STORED + "wgmma.commit_group"), {"copy-not-waited"}),
        (FENCED.replace("aligned 0;", "aligned 1; bar.sync 0;\n") + STORED, {"copy-not-waited"}),
    ],
    ids=["right", "no fence", "stored at once", "waits too little"],
)
def test_what_a_warp_group_multiplies_is_fenced_before_and_waited_for(body, kinds):
    run = program(".param .u64 m, .param .u64 out", body, 4096)(1, 128, [np.zeros(1), np.zeros(1)])
    found = {f.kind for f in run.findings}
    assert kinds <= found and (kinds or not found), [str(f) for f in run.findings]


def test_maps_that_no_device_has():
    x = np.zeros((8, 32), np.float32)
    for given, message in [
        (lambda: TensorMap(x, (8,)), "a box of \\(8,\\) for 2 dimensions"),
        (lambda: TensorMap(x, (8, 300)), "expected 1 to 256"),
        (lambda: TensorMap(x, (8, 3)), "lines of 12 bytes; expected a multiple of 16"),
        (lambda: TensorMap(x, (8, 32), swizzle=64), "64 at most"),
        (lambda: TensorMap(x, (8, 32), swizzle=16), "a swizzle of 16"),
        (lambda: TensorMap(x, (8, 32), steps=(9,)), "expected 1 to 8 for each dimension but the last"),
        (lambda: TensorMap(x, (8, 32), steps=(2, 1)), "expected 1 to 8 for each dimension but the last"),
        (lambda: TensorMap(x[:, ::2], (8, 16)), "not contiguous"),
        (lambda: TensorMap(np.zeros((8, 30), np.float32), (8, 4)), "multiples of 16"),
        (lambda: TensorMap(x.astype(complex), (8, 4)), "an array of complex128"),
        (lambda: TensorMap(7, (8, 4)), "a tensor map of int"),
    ]:
        with pytest.raises(InputError, match=message):
            given()
    kernel = program(MAP, load(2, "0, 0", 1024) + WAIT + DUMP, 1024)
    with pytest.raises(InputError, match="argument 1 is a tensor map"):
        kernel(1, 32, [TensorMap(x, (8, 32)), TensorMap(x, (8, 32))])
    run = kernel(1, 32, [bytes(128), np.zeros(256, np.float32)], options=Options(deadline_s=1))
    assert "bad-tensor-map" in {f.kind for f in run.findings}


@pytest.mark.parametrize(
    "copy",
    [
        f"cp.async.bulk.tensor.2d.{INTO.replace('tile', 'tile::gather4')} [tile], [%m, {{0, 0}}], [bar];",
        f"cp.async.bulk.tensor.2d.{INTO} [tile], [%m, {{0, 0, 0}}], [bar];",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.f32 "
        "[tile], [tile], 16, [bar];",
    ],
    ids=["gather4", "rank", "reduced within a cluster in float32"],
)
def test_other_copies_are_refused(copy):
    with pytest.raises(NotExecutedError, match=r"not executed: instruction .* at line 12"):
        program(MAP, copy, 256)


CUDA = """
#include <cuda/ptx>
#include <cuda.h>
namespace ptx = cuda::ptx;
extern "C" __global__ void scale(const __grid_constant__ CUtensorMap m, float* sums) {
  __shared__ alignas(128) float s[16][32];
  __shared__ alignas(8) uint64_t bar;
  int x = threadIdx.x % 32, y = threadIdx.x / 32, place[2] = {int(blockIdx.x) * 32, int(blockIdx.y) * 16};
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, s, &m, place, &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof s);
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  atomicAdd(sums, s[y][x]);
  s[y][x] *= 2;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &m, place, s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
"""


@pytest.mark.needs("nvcc")
def test_tiles_in_cuda():
    x = torch.randint(-9, 9, (40, 68)).float()
    before, total = x.clone(), np.zeros(1, np.float32)
    run = load_cuda(CUDA, target="sm_90")["scale"]((3, 3), 512, [TensorMap(x, (16, 32)), total])
    assert run.ok, [str(f) for f in run.findings]
    assert torch.equal(x, 2 * before)
    assert total[0] == before.sum().item()
    assert run.counters.total("global", "bytes") >= 2 * 9 * 2048
