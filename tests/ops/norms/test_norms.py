"""Norms beside torch's own, their gradients, and what equality with a reference does not say."""

import pytest
import torch
import torch.nn.functional as F
from tests.ops.mutants import verdicts

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops.norms import reference

SHAPES = ((1, 1), (3, 7), (2, 3, 65), (5, 16), (300, 128), (3, 5000), (1, 70_000), (0, 5))
TYPES = (torch.float32, torch.bfloat16)
norms = ops.norms


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def close(mine, theirs, dtype):
    limit = {torch.float32: 2e-5, torch.bfloat16: 2e-2}[dtype]
    assert mine.dtype is dtype
    torch.testing.assert_close(mine.double(), theirs.double(), rtol=limit, atol=limit)


def drawn(shape, dtype, count=1):
    found = [(torch.randn(shape) * 2 + 1).to(dtype) for _ in range(count)]
    return found if count > 1 else found[0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_normed_as_torch_does(shape, dtype):
    x, residual = drawn(shape, dtype, 2)
    w, b = drawn(shape[-1:], dtype, 2)
    wide = x.double()
    close(norms.rms_norm(x, w), F.rms_norm(wide, w.shape, w.double(), 1e-6), dtype)
    close(norms.rms_norm(x, w, offset=1.0), F.rms_norm(wide, w.shape, w.double() + 1, 1e-6), dtype)
    close(norms.rms_norm(x, eps=0.5), F.rms_norm(wide, w.shape, None, 0.5), dtype)
    close(norms.layer_norm(x, w, b), F.layer_norm(wide, w.shape, w.double(), b.double()), dtype)
    close(norms.layer_norm(x, bias=b, eps=0.5), F.layer_norm(wide, w.shape, None, b.double(), 0.5), dtype)
    normed, summed = norms.add_rms_norm(x, residual, w)
    assert torch.equal(summed, x + residual)
    close(normed, F.rms_norm(summed.double(), w.shape, w.double(), 1e-6), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 6, 5, 7), 3), ((1, 32, 33, 31), 8), ((3, 4), 2), ((0, 4, 2), 2)]
)
def test_groups_are_normed_as_torch_does(shape, groups, dtype):
    x = drawn(shape, dtype)
    w, b = drawn(shape[1:2], dtype, 2)
    normed = F.group_norm(x.double(), groups, w.double(), b.double()) if len(x) else x
    close(norms.group_norm_silu(x, w, b, groups=groups), F.silu(normed), dtype)
    close(norms.group_norm_silu(x, w, b, groups=groups, silu=False), normed, dtype)


FORMS = {
    "rms": (lambda x, r, w, b: norms.rms_norm(x, w), lambda x, r, w, b: F.rms_norm(x, w.shape, w, 1e-6)),
    "offset": (
        lambda x, r, w, b: norms.rms_norm(x, w, offset=0.5),
        lambda x, r, w, b: F.rms_norm(x, w.shape, w + 0.5, 1e-6),
    ),
    "add": (
        lambda x, r, w, b: torch.cat(norms.add_rms_norm(x, r, w)),
        lambda x, r, w, b: torch.cat([F.rms_norm(x + r, w.shape, w, 1e-6), x + r]),
    ),
    "layer": (
        lambda x, r, w, b: norms.layer_norm(x, w, b),
        lambda x, r, w, b: F.layer_norm(x, w.shape, w, b),
    ),
    "group": (
        lambda x, r, w, b: norms.group_norm_silu(x, w, b, groups=3),
        lambda x, r, w, b: F.silu(F.group_norm(x, 3, w, b)),
    ),
    "plain group": (
        lambda x, r, w, b: norms.group_norm_silu(x, w, b, groups=3, silu=False),
        lambda x, r, w, b: F.group_norm(x, 3, w, b),
    ),
}


def gradients(form, tensors, g, again=False):
    leaves = [t.detach().requires_grad_() for t in tensors]
    found = torch.autograd.grad(form(*leaves), leaves, g, create_graph=again, allow_unused=True)
    if again:
        found = torch.autograd.grad(
            sum(f.square().sum() for f in found if f is not None), leaves, allow_unused=True
        )
    return found


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("columns", [9, 33, 3000])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_torch_in_float64(form, rows, columns):
    mine, theirs = FORMS[form]
    shape = (rows, columns)
    tensors = [*drawn(shape, torch.float32, 2), *drawn(shape[1:], torch.float32, 2)]
    g = torch.randn_like(theirs(*tensors))
    exact = gradients(theirs, [t.double() for t in tensors], g.double())
    for one, other in zip(gradients(mine, tensors, g), exact, strict=True):
        assert (one is None) is (other is None)
        if one is not None:
            torch.testing.assert_close(
                one.double(), other, rtol=1e-4, atol=2e-5 * float(other.abs().max() + 1)
            )


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_gradients_are_right_too(form):
    tensors = [*drawn((4, 9), torch.float32, 2), *drawn((9,), torch.float32, 2)]
    mine, theirs = FORMS[form]
    g = torch.randn_like(theirs(*tensors))
    wide = [t.double() for t in tensors]
    for one, other in zip(
        gradients(mine, tensors, g, True), gradients(theirs, wide, g.double(), True), strict=True
    ):
        if other is not None:
            torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_in_bfloat16_are_near_those_of_wider_numbers(form):
    tensors = [*drawn((40, 33), torch.bfloat16, 2), *drawn((33,), torch.float32, 2)]
    mine, theirs = FORMS[form]
    g = torch.randn_like(mine(*tensors))
    for one, other in zip(gradients(mine, tensors, g), gradients(theirs, [t.double() for t in tensors], g.double()),
                          strict=True):  # fmt: skip
        if other is not None:
            torch.testing.assert_close(one.double(), other, rtol=2e-2, atol=2e-2 * float(other.abs().max()))


def test_a_mean_far_from_zero_costs_no_more_than_its_rounding():
    x = torch.randn(4, 4096) + 1e4
    exact = F.layer_norm(x.double(), (4096,))
    rounding = 1e4 * torch.finfo(torch.float32).eps  # of the mean
    assert (norms.layer_norm(x) - exact).abs().max() < rounding
    grouped = norms.group_norm_silu(x.reshape(4, 2, 2048), groups=1, silu=False)
    assert (grouped.reshape(4, 4096) - exact).abs().max() < rounding


def test_weights_of_many_rows_are_summed_in_more_than_float32():
    rows = 300_000
    x = torch.full((rows, 1), 3.0)
    g = torch.full((rows, 1), 0.1)
    weight = torch.ones(1)
    _, dw = norms._rms_backward(g, x, weight, None, 0.0, 0.0)
    assert abs(float(dw) / (rows * float(g[0])) - 1) < 1e-6
    naive = g[:, 0].numpy().cumsum(dtype="float32")[-1]
    assert abs(naive / (rows * float(g[0])) - 1) > 1e-5


def test_a_strided_tensor_is_copied():
    x = torch.randn(33, 20).T
    w = torch.rand(33)
    assert torch.equal(norms.rms_norm(x, w), norms.rms_norm(x.contiguous(), w))
    assert [one.serves for one in ops.watch(lambda: norms.layer_norm(x, w))] == ["kernel"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_stays_in_its_row(value):
    x = torch.randn(6, 40)
    x[2, 5] = value
    for normed in (norms.rms_norm(x), norms.layer_norm(x), norms.group_norm_silu(x, groups=1)):
        assert normed[2].isnan().any()
        assert normed[[0, 1, 3, 4, 5]].isfinite().all()


def test_rows_of_zeros_stay_zeros():
    x = torch.zeros(3, 50)
    assert torch.equal(norms.rms_norm(x), x)
    assert torch.equal(norms.layer_norm(x), x)


def test_large_tensors_leave_past_the_caches_with_the_same_numbers():
    x, residual = drawn((2100, 1025), torch.float32, 2)
    few, w = slice(2000, 2050), torch.rand(1025)
    for dtype in TYPES:
        x, residual, w = x.to(dtype), residual.to(dtype), w.to(dtype)
        large = x.repeat(2, 1), residual.repeat(2, 1)
        assert torch.equal(norms.rms_norm(large[0], w)[few], norms.rms_norm(x[few], w))
        for one, other in zip(
            norms.add_rms_norm(*large, w), norms.add_rms_norm(x[few], residual[few], w), strict=True
        ):
            assert torch.equal(one[few], other)


def test_the_number_of_threads_does_not_change_forward():
    before = torch.get_num_threads()
    x, many = torch.randn(4, 40_001), torch.randn(3000, 28)
    try:
        torch.set_num_threads(1)
        alone = norms.rms_norm(many)
        torch.set_num_threads(2)
        assert torch.equal(norms.rms_norm(many), alone)
        torch.testing.assert_close(norms.layer_norm(x), reference.layer_norm(x), rtol=1e-4, atol=1e-5)
    finally:
        torch.set_num_threads(before)


X = torch.randn(4, 6)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: norms.rms_norm([1.0]), "norms.rms_norm: x is a list; expected a tensor"),
        (lambda: norms.rms_norm(X.long()), "x is of torch.int64; expected float32"),
        (lambda: norms.rms_norm(torch.tensor(1.0)), "x is of no dimensions; expected at least one"),
        (
            lambda: norms.rms_norm(X, X[0, :5]),
            r"weight is of shape \(5,\); expected \(6,\), as x has columns",
        ),
        (
            lambda: norms.layer_norm(X, bias=X),
            r"bias is of shape \(4, 6\); expected \(6,\), as x has columns",
        ),
        (
            lambda: norms.add_rms_norm(X, X[:3]),
            r"residual is of shape \(3, 6\), torch.float32; expected \(4, 6\)",
        ),
        (
            lambda: norms.add_rms_norm(X, X.bfloat16()),
            "residual is of shape .*bfloat16; expected .*float32, as x is",
        ),
        (
            lambda: norms.group_norm_silu(X, groups=4),
            "groups is 4; expected a divisor of 6, the channels of x",
        ),
        (lambda: norms.group_norm_silu(X, groups=0), "groups is 0; expected a divisor"),
        (lambda: norms.group_norm_silu(X[0], groups=1), r"x is of shape \(6,\); expected \(items, channels"),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_they_go_through_compile_with_gradients():
    def loss(x, r, w, b):
        normed, summed = norms.add_rms_norm(x, r, w)
        return (norms.layer_norm(normed, w, b) * summed).square().sum()

    tensors = [*drawn((8, 33), torch.float32, 2), *drawn((33,), torch.float32, 2)]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    g = torch.ones(())
    for one, other in zip(gradients(compiled, tensors, g), gradients(loss, tensors, g), strict=True):
        torch.testing.assert_close(one, other)


def test_every_op_is_registered_as_torch_asks():
    x, w = torch.randn(4, 6), torch.randn(6)
    image = torch.randn(2, 6, 3)
    calls = {
        "rms_norm": (x, w, 1e-6, 0.0), "add_rms_norm": (x, x, w, 1e-6, 0.0), "layer_norm": (x, w, None, 1e-5),
        "rms_norm_backward": (x, x, None, None, 1e-6, 0.0), "layer_norm_backward": (x, x, w, w, 1e-5),
        "group_norm_silu": (image, w, w, 2, 1e-5, True),
        "group_norm_silu_backward": (image, image, w, None, 2, 1e-5, True),
    }  # fmt: skip
    assert set(calls) == {op.name for op in ops.ops_of(norms)} == set(norms.KERNEL.symbols)
    for name, arguments in calls.items():
        torch.library.opcheck(getattr(torch.ops.kernelwright, name).default, arguments)


MUTANTS = {
    "rms_norm": {
        "weight left out": (
            "write<STREAM>(to + i, value * s.scale * w, lanes)",
            "write<STREAM>(to + i, value * s.scale, lanes)",
        ),
        "lanes beyond the row counted": (
            "else squares.add(u, d * d, lanes);",
            "else squares.run[u] += d * d + 1.0f;",
        ),
    },
    "layer_norm_backward": {
        "no level": ("moved -= level;", "moved -= 0.5f * level;"),
        "sums of columns without the last rows": ("|| row == end - 1", "|| row == end"),
    },
}


@pytest.mark.long
@pytest.mark.parametrize("op", MUTANTS)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, tmp_path):
    found = verdicts("norms", op, MUTANTS[op], tmp_path)
    assert found == {"": "accepted", **dict.fromkeys(MUTANTS[op], "rejected")}
