"""What `torch.empty` leaves unwritten in Python around launches is a fault if a kernel reads it, and it alone is."""

import pytest
import torch
from tests.tools import require

require("triton")
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from kernelwright.executor._unwritten import launched, watching  # noqa: E402
from kernelwright.executor.triton import executing  # noqa: E402

from .conftest import keep_compiler  # noqa: E402

keep_compiler()
pytestmark = pytest.mark.usefixtures("compiler_again")
N, BLOCK = 100, 32


@triton.jit
def fill(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)


@triton.jit
def both(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def blocks(n=N):
    return (triton.cdiv(n, BLOCK),)


def ran(body):
    """Run Python around launches as a candidate's call is run; return its answer and the kinds that were found."""
    x = torch.arange(float(N))
    with executing(target=90, launched=launched) as runs, watching():
        answer = body(x)
    return answer, [f.kind for run in runs for f in run.findings], [f for run in runs for f in run.findings]


def filled(x, programs=None):
    scratch = torch.empty(x.shape, dtype=x.dtype)
    fill[programs or blocks()](x, scratch, N, BLOCK=BLOCK)
    return scratch


def doubled(x, scratch, other=None):
    out = torch.empty_like(x)
    both[blocks()](scratch, x if other is None else other, out, N, BLOCK=BLOCK)
    return out


def test_what_one_program_fewer_left_is_named_where_it_is_read():
    _, kinds, findings = ran(lambda x: doubled(x, filled(x, (3,))))
    assert set(kinds) == {"uninitialised"}
    assert "which nobody has written" in str(findings[0]) and "test_fresh_tensors.py" in str(findings[0])


def test_what_was_written_before_in_any_way_is_no_fault():
    right = torch.arange(float(N)) * 2 + 1

    def through_a_view(x):
        rows = torch.empty(4, N)
        fill[blocks()](x, rows[2], N, BLOCK=BLOCK)
        return doubled(x, rows.view(-1)[2 * N : 3 * N])

    def half_by_torch(x):
        scratch = filled(x, (3,))
        scratch[96:] = x[96:] + 1
        return doubled(x, scratch)

    def in_place(x):
        return doubled(x, torch.nn.functional.relu(torch.empty(N), inplace=True).copy_(x + 1))

    def by_numpy(x):
        scratch = torch.empty(N)
        scratch.numpy()[:] = x.numpy() + 1
        return doubled(x, scratch)

    def next_to_nothing(x):
        torch.empty(0), torch.empty(3, device="meta")
        torch.empty(2, 2, layout=torch.sparse_coo).coalesce()
        return doubled(x, filled(x))

    for body in (next_to_nothing, through_a_view, half_by_torch, in_place, by_numpy):
        answer, kinds, _ = ran(body)
        assert kinds == [] and torch.equal(answer, right), body


def test_a_tensor_that_a_launch_has_twice_counts_as_written():
    answer, kinds, _ = ran(lambda x: doubled(x, s := filled(x), s))
    assert kinds == [] and torch.equal(answer, 2 * torch.arange(1.0, N + 1))


def test_bytes_that_another_launch_wrote_stay_written_and_others_do_not():
    def halves(x):
        scratch = torch.empty(2 * N)
        fill[blocks()](x, scratch, N, BLOCK=BLOCK)
        first = doubled(x, scratch[:N])
        return first, doubled(x, scratch[N:])

    (first, _), kinds, _ = ran(halves)
    assert torch.equal(first, torch.arange(float(N)) * 2 + 1) and set(kinds) == {"uninitialised"}
