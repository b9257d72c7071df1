"""Clusters: shared memory of other blocks, the cluster's barrier, copies to many blocks, remote mbarriers."""

import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.executor import Module, Options, Uninitialised
from kernelwright.executor.cuda import load_cuda

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 out)"
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
START = """.reg .b64 %p<8>; .reg .b32 %r<12>; .reg .pred %q<3>; .shared .align 16 .b32 s[32]; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank;
ld.param.u64 %p0, [x]; ld.param.u64 %p1, [out]; shl.b32 %r4, %r1, 5; add.u32 %r4, %r4, %r0; mul.wide.u32 %p2, %r4, 4;
add.u64 %p0, %p0, %p2; add.u64 %p1, %p1, %p2; shl.b32 %r5, %r0, 2; mov.u32 %r6, s; add.u32 %r7, %r6, %r5;
setp.eq.u32 %q0, %r0, 0; add.u32 %r8, %r2, 1; rem.u32 %r8, %r8, %r3;
"""
FILL = "ld.global.b32 %r9, [%p0]; st.shared.b32 [%r7], %r9;\n"
REMOTE = "mapa.shared::cluster.u32 %r10, %r7, %r8; ld.shared::cluster.b32 %r11, [%r10];\n"
GENERIC = """cvta.shared.u64 %p3, %p3; cvt.u64.u32 %p3, %r7; cvta.shared.u64 %p3, %p3; mapa.u64 %p4, %p3, %r8;
ld.b32 %r11, [%p4];
"""
KEEP = "st.global.b32 [%p1], %r11;\n"


def kernel(body, cluster=""):
    return Module.load(f"{HEAD}{cluster} {{\n{START}{body}\nret;\n}}\n")["k"]


def executed(k, grid, seed=0, cluster=1):
    x, out = np.arange(32 * grid, dtype=np.int32), np.zeros(32 * grid, np.int32)
    run = k(grid, 32, [x, Uninitialised(out)], cluster=cluster, options=Options(seed=seed, deadline_s=5))
    return run, x.reshape(grid, 32), out.reshape(grid, 32)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("read", [REMOTE, GENERIC], ids=["window", "generic"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_blocks_read_each_other(seed, read, size):
    read = read.removeprefix("cvta.shared.u64 %p3, %p3; ")
    run, x, out = executed(kernel(FILL + SYNC + read + SYNC + KEEP), 8, seed, size)
    assert run.ok, [str(f) for f in run.findings]
    assert np.array_equal(out, np.roll(x.reshape(-1, size, 32), -1, axis=1).reshape(8, 32))


@pytest.mark.parametrize(
    ("declared", "given", "seen"),
    [("", None, 0), ("", 1, 1), ("", 2, 1), (".reqnctapercluster 2, 1, 1", None, 1)],
)
def test_a_kernel_sees_whether_clusters_were_asked_for(declared, given, seen):
    k = kernel("mov.pred %q1, %is_explicit_cluster; selp.b32 %r11, 1, 0, %q1;\n" + KEEP, declared)
    run, _, out = executed(k, 2, cluster=given)
    assert run.ok and (out == seen).all()


def test_a_kernel_names_its_cluster():
    k = kernel(FILL + SYNC + REMOTE + SYNC + KEEP, ".reqnctapercluster 2, 1, 1")
    run, x, out = executed(k, 4)
    assert run.ok
    assert np.array_equal(out[0], x[1])
    with pytest.raises(InputError, match=r"a grid of \(3, 1, 1\) is not made of clusters of \(2, 1, 1\)"):
        executed(k, 3)
    with pytest.raises(InputError, match="must be launched in clusters of"):
        executed(k, 4, cluster=4)
    with pytest.raises(InputError, match="more than 16 blocks"):
        executed(kernel(FILL), 32, cluster=32)


FAULTS = {
    "no barrier before": (FILL + REMOTE + SYNC + KEEP, "race uninitialised block-ended"),
    "no barrier after": (FILL + SYNC + REMOTE + KEEP, "block-ended"),
    "relaxed": (FILL + SYNC.replace("arrive", "arrive.relaxed") + REMOTE + SYNC + KEEP, "race"),
    "twice": (FILL + "barrier.cluster.arrive.aligned;\n" + SYNC + REMOTE + SYNC + KEEP, "cluster-barrier"),
    "no arrival": (FILL + "barrier.cluster.wait.aligned;\n" + REMOTE + SYNC + KEEP, "cluster-barrier"),
    "too far": (FILL + SYNC + REMOTE.replace("%r8;", "7;") + SYNC + KEEP, "out-of-bounds"),
    "own space": (FILL + SYNC + REMOTE.replace("ld.shared::cluster", "ld.shared") + SYNC + KEEP, "out-of-bounds"),
    "written at once": (FILL + SYNC + REMOTE + "st.shared.b32 [%r7], %r11;\n" + SYNC + KEEP, "race"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_in_a_cluster_is_found(name):
    body, kinds = FAULTS[name]
    found = {f.kind for seed in (0, 5) for f in executed(kernel(body), 4, seed, 2)[0].findings}
    assert set(kinds.split()) & found, found


MANY = """@!%q0 bra READY;
mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
READY: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.ne.u32 %q1, %r2, 0; or.pred %q1, %q1, !%q0;
@%q1 bra WAIT;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s], [%p0], 128, [bar], 3;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q1, [bar], 0;
@!%q1 bra WAIT;
ld.shared.b32 %r11, [%r7];
"""


@pytest.mark.parametrize("seed", [0, 4])
def test_one_copy_goes_to_many_blocks(seed):
    run, x, out = executed(kernel(MANY + SYNC + KEEP), 6, seed, 2)
    assert run.ok, [str(f) for f in run.findings]
    assert np.array_equal(out, np.repeat(x[::2], 2, axis=0))


ARRIVE = """@!%q0 bra READY;
mbarrier.init.shared::cta.b64 [bar], 32; fence.mbarrier_init.release.cluster;
READY: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.global.b32 %r9, [%p0]; mapa.shared::cluster.u32 %r10, %r7, %r8; st.shared::cluster.b32 [%r10], %r9;
mov.u32 %r6, bar; mapa.shared::cluster.u32 %r6, %r6, %r8;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q1, [bar], 0;
@!%q1 bra WAIT;
ld.shared.b32 %r11, [%r7];
"""


@pytest.mark.parametrize("seed", [0, 4])
def test_a_remote_arrival_orders_what_was_stored_before(seed):
    run, x, out = executed(kernel(ARRIVE + SYNC + KEEP), 6, seed, 2)
    assert run.ok, [str(f) for f in run.findings]
    assert np.array_equal(out, np.roll(x.reshape(-1, 2, 32), 1, axis=1).reshape(6, 32))
    early = ARRIVE.replace("@!%q1 bra WAIT;\nld.shared", "ld.shared")
    run, *_ = executed(kernel(early + SYNC + KEEP), 6, seed, 2)
    assert {f.kind for f in run.findings} & {"race", "uninitialised"}


CUDA = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(4, 1, 1) total(const int* x, int* out) {
  __shared__ int sum;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) sum = 0;
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&sum, 0), x[blockIdx.x * 64 + threadIdx.x]);
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) out[blockIdx.x / cluster.num_blocks()] = sum;
}
"""


@pytest.mark.needs("nvcc")
@pytest.mark.parametrize("seed", [0, 7])
def test_a_cluster_in_cuda_adds_in_one_block(seed):
    x, out = np.arange(64 * 8, dtype=np.int32), np.zeros(2, np.int32)
    run = load_cuda(CUDA, target="sm_90")["total"](8, 64, [x, Uninitialised(out)], options=Options(seed=seed))
    assert run.ok, [str(f) for f in run.findings]
    assert out.tolist() == x.reshape(2, -1).sum(1).tolist()


ASYNC = """@!%q0 bra READY;
mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 384;
READY: @%q0 st.shared.u64 [far], %p7; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.global.b32 %r9, [%p0]; mapa.shared::cluster.u32 %r10, %r7, %r8; mov.u32 %r6, bar;
mapa.shared::cluster.u32 %r6, %r6, %r8; mov.u32 %r5, far; mapa.shared::cluster.u32 %r5, %r5, %r8; cvt.u64.u32 %p5, %r9;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r10], %r9, [%r6];
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r5], %p5, [%r6];
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q1, [bar], 0;
@!%q1 bra WAIT;
ld.shared.b32 %r11, [%r7]; ld.shared.u64 %p6, [far]; cvt.u32.u64 %r9, %p6; add.u32 %r11, %r11, %r9;
"""


@pytest.mark.parametrize("seed", [0, 4])
def test_what_is_stored_in_another_block_arrives_by_its_mbarrier(seed):
    far = ".shared .align 8 .b64 far; mov.u64 %p7, 0;\n"
    run, x, out = executed(kernel(far + ASYNC + SYNC + KEEP), 6, seed, 2)
    assert run.ok, [str(f) for f in run.findings]
    others = x.reshape(-1, 2, 32)[:, ::-1].reshape(6, 32)
    assert np.array_equal(out, others + others.sum(1, keepdims=True))
    early = ASYNC.replace("@!%q1 bra WAIT;\nld.shared", "ld.shared")
    run, *_ = executed(kernel(far + early + SYNC + KEEP), 6, seed, 2)
    assert {f.kind for f in run.findings} & {"race", "uninitialised", "copy-not-waited"}
    short = ASYNC.replace("], 384", "], 388")
    run, *_ = executed(kernel(far + short + SYNC + KEEP), 6, seed, 2)
    assert "deadlock" in {f.kind for f in run.findings}


WHERE = """cvt.u64.u32 %p3, %r7; cvta.shared::cluster.u64 %p3, %p3; mapa.u64 %p4, %p3, %r8;
mapa.u64 %p5, %p3, %r2; mov.u32 %r11, 0;
isspacep.shared::cta %q1, %p3; @%q1 or.b32 %r11, %r11, 1; isspacep.shared::cta %q1, %p4; @%q1 or.b32 %r11, %r11, 2;
isspacep.shared::cluster %q1, %p4; @%q1 or.b32 %r11, %r11, 4; isspacep.shared %q1, %p5; @%q1 or.b32 %r11, %r11, 8;
isspacep.shared::cluster %q1, %p0; @%q1 or.b32 %r11, %r11, 16;
"""


def test_addresses_tell_whether_they_are_of_the_block_or_of_the_cluster():
    run, _, out = executed(kernel(FILL + SYNC + WHERE + KEEP), 4, cluster=2)
    assert run.ok, [str(f) for f in run.findings]
    assert set(out.ravel().tolist()) == {1 | 4 | 8}
