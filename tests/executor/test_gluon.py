"""Gluon kernels are executed from their PTX: right ones pass, and a copy that nobody waits for is found."""

import pytest
import torch
from tests.tools import require

from kernelwright.executor import Options
from kernelwright.languages import get_language
from kernelwright.records import CheckStatus, VerdictStatus

require("triton")
from triton.experimental import gluon  # noqa: E402
from triton.experimental.gluon import language as gl  # noqa: E402
from triton.experimental.gluon.language.nvidia.ampere import async_copy  # noqa: E402
from triton.experimental.gluon.language.nvidia.hopper import (  # noqa: E402
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col  # noqa: E402

from kernelwright.executor.triton import executing  # noqa: E402

from .conftest import keep_compiler  # noqa: E402
from .judging import judging  # noqa: E402

keep_compiler()
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.needs("no GPU"),
    pytest.mark.usefixtures("compiler_again"),
]


@gluon.jit
def copied(x, out, n, BLOCK: gl.constexpr, WAIT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    held = gl.allocate_shared_memory(gl.float32, [BLOCK], layout=shared)
    async_copy.async_load(held, x + i, mask=i < n)
    async_copy.commit_group()
    if WAIT:
        async_copy.wait_group(0)
    gl.store(out + i, 2 * held.load(layout), mask=i < n)


@gluon.jit
def product(a, b, c, K, FENCE: gl.constexpr):
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    a_held = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    b_held = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    total = gl.zeros((64, 64), gl.float32, layout)
    row, column = gl.program_id(0) * 64, gl.program_id(1) * 64
    phase = 0
    for k in range(0, K, 64):
        mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, k], bar, a_held)
        tma.async_load(b, [k, column], bar, b_held)
        mbarrier.wait(bar, phase)
        phase ^= 1
        total = warpgroup_mma(a_held, b_held, total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
    mbarrier.invalidate(bar)
    c_held = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    c_held.store(total.to(c.dtype))
    if FENCE:
        fence_async_shared()
    tma.async_store(c, [row, column], c_held)
    tma.store_wait(0)


@gluon.jit
def column(images, out, ROW: gl.constexpr, TAP: gl.constexpr):
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    held = gl.allocate_shared_memory(images.dtype, images.block_type.shape, images.layout)
    mbarrier.expect(bar, images.block_type.nbytes)
    tma.async_load_im2col(images, [0, ROW, -1, 0], [TAP, TAP], bar, held)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    pixel = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))
    channel = gl.arange(0, 32, layout=gl.SliceLayout(0, layout))
    gl.store(out + pixel[:, None] * 32 + channel[None, :], held.load(layout))


def kinds(runs) -> set[str]:
    assert [run.status for run in runs] == ["ok"]
    return {finding.kind for finding in runs[0].findings}


@pytest.mark.parametrize(("wait", "found"), [(True, set()), (False, {"copy-left"})])
def test_a_copy_that_nobody_waits_for_is_found_at_its_line(wait: bool, found: set[str]) -> None:
    x, out = torch.randn(200), torch.empty(200)
    with executing(target=90, options=Options(count=False)) as runs:
        copied[(2,)](x, out, 200, BLOCK=128, WAIT=wait)
    assert found <= kinds(runs)
    assert bool(runs[0].findings) == bool(found)
    assert torch.equal(out, 2 * x) == wait
    assert all("test_gluon.py" in str(finding) for finding in runs[0].findings)


@pytest.mark.long
@pytest.mark.parametrize("fence", [True, False])  # Triton's compiler sets the fence that is not asked for
def test_a_product_by_wgmma_and_tma_is_right(fence: bool) -> None:
    a, b, c = torch.randn(64, 128).bfloat16(), torch.randn(128, 64).bfloat16(), torch.empty(64, 64).bfloat16()
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.bfloat16)
    maps = [TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (a, b, c)]
    with executing(target=90, options=Options(count=False)) as runs:
        product[(1, 1)](*maps, 128, FENCE=fence, num_warps=4)
    assert kinds(runs) == set()
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-2, atol=0.1)


@pytest.mark.long
@pytest.mark.parametrize("tap", [0, 2])
def test_a_column_of_pixels_is_read_at_its_tap(tap: int) -> None:
    images, out = torch.randn(2, 6, 5, 32), torch.empty(16, 32)
    layout = gl.NVMMASharedLayout.get_default_for([16, 32], gl.float32)
    given = TensorDescriptorIm2Col.from_tensor(
        images,
        [16, 32],
        layout,
        element_strides=[1, 2, 1, 1],
        pixel_box_lower_corner=[0, -1],
        pixel_box_upper_corner=[-2, -1],
    )
    with executing(target=90, options=Options(count=False)) as runs:
        column[(1,)](given, out, ROW=2, TAP=tap, num_warps=4)
    assert kinds(runs) == set()
    padded = torch.nn.functional.pad(images, (0, 0, 1, 1))
    read = padded[:, tap : tap + 3 : 2, tap : tap + 5].reshape(
        -1, 32
    )  # two rows of five pixels of each image
    assert torch.equal(out[:15], read[5:20])
    assert not out[15:].any()


GLUON = """
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def mirror(x, out, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    row = gl.program_id(0)
    columns = gl.arange(0, BLOCK, layout=layout)
    value = gl.load(x + row * n + n - 1 - columns, mask=columns < n)
    gl.store(out + row * n + columns, 2 * value, mask=columns < n)

def run(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    mirror[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out
"""
RACY = GLUON.replace("out + row * n + columns, 2", "out + columns, 2")
WRONG = GLUON.replace("2 * value", "3 * value")


@pytest.mark.long
class TestJudged:
    @pytest.fixture(scope="class")
    def judge(self, tmp_path_factory):
        with judging(tmp_path_factory.mktemp("gluon")) as judge:
            yield judge

    def test_a_right_kernel_is_accepted_and_never_timed(self, judge) -> None:
        verdict = judge(GLUON, "gluon", "full")
        assert verdict.status is VerdictStatus.ACCEPTED, [f for f in verdict.findings if f.message]
        assert next(f for f in verdict.findings if f.check == "sanitised").status is CheckStatus.PASS
        assert not get_language("gluon").timeable("cpu")

    def test_a_wrong_one_is_refused(self, judge) -> None:
        assert judge(WRONG, "gluon").failure == "correct"

    def test_a_race_refuses_it_and_is_named_by_its_line(self, judge) -> None:
        verdict = judge(RACY, "gluon")
        assert verdict.failure == "runs"
        message = next(f for f in verdict.findings if f.check == "runs").message
        assert "race at PTX line" in message
        assert "k.py:" in message
