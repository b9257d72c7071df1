"""Structured products and layers: dense weights, conversion of planted truths, factors that change, errors."""

import copy
import io
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.mutants import verdicts

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import blr

SIZES = [
    (1, 1, 1, 1, 1, 1),
    (1, 4, 4, 64, 16, 64),
    (5, 2, 3, 7, 5, 3),
    (40, 16, 16, 16, 4, 16),
    (100, 4, 2, 256, 33, 70),
    (7, 3, 8, 10, 20, 40),
]
"""Rows, blocks, groups, inputs of a block, rank, outputs of a group."""


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def monarch_parts(blocks, groups, inner, rank, each, dtype=torch.float32):
    first = torch.randn(blocks, groups * rank, inner, dtype=dtype) * inner**-0.5
    return first, torch.randn(groups, each, blocks * rank, dtype=dtype) * (blocks * rank) ** -0.5


def blast_parts(blocks, groups, inner, rank, each, dtype=torch.float32):
    right = torch.randn(blocks, inner, rank, dtype=dtype) * inner**-0.5
    scale = torch.randn(groups, blocks, rank, dtype=dtype)
    return right, scale, torch.randn(groups, each, rank, dtype=dtype) * (blocks * rank) ** -0.5


def dense_monarch(first, second):
    """Output s * L + l of input k * p + j: the sum over i of second[l, s, k * rank + i] * first[k, i * L + l, j]."""
    (blocks, wide, inner), (groups, each, _) = first.shape, second.shape
    rank = wide // groups
    out = torch.zeros(each, groups, blocks, inner, dtype=torch.float64)
    for at in range(groups):
        for k in range(blocks):
            of_group = first[k].double()[[i * groups + at for i in range(rank)]]
            out[:, at, k] = second[at, :, k * rank : (k + 1) * rank].double() @ of_group
    return out.view(each * groups, blocks * inner)


def dense_blast(right, scale, left):
    rows = [
        torch.cat([u.double() * s.double() @ v.double().T for s, v in zip(scales, right, strict=True)], 1)
        for u, scales in zip(left, scale, strict=True)
    ]
    return torch.cat(rows)


FORMS = {
    "monarch": (monarch_parts, dense_monarch, blr.monarch),
    "blast": (blast_parts, dense_blast, blr.blast),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_product_is_that_with_the_dense_matrix(form, size):
    make, dense, call = FORMS[form]
    rows, *sizes = size
    factors = make(*sizes)
    x = torch.randn(rows, sizes[0] * sizes[2])
    (ran,) = ops.watch(lambda: call(x, *factors))
    right = x.double() @ dense(*factors).T
    assert ran.serves == "kernel"
    torch.testing.assert_close(call(x, *factors).double(), right, rtol=1e-5, atol=1e-5)
    wanted = [f.clone().requires_grad_() for f in factors]
    torch.testing.assert_close(call(x, *wanted).double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_rows_may_lie_apart_and_a_power_of_two_from_each_other(form):
    make, dense, call = FORMS[form]
    factors = make(4, 4, 256, 16, 40)
    weight = dense(*factors).float()
    for x in (torch.randn(30, 1024), torch.randn(30, 2048)[:, 100:1124], torch.randn(60, 1024)[::2]):
        (ran,) = ops.watch(lambda: call(x, *factors))  # noqa: B023
        assert ran.serves == "kernel"
        torch.testing.assert_close(call(x, *factors), x @ weight.T, rtol=1e-4, atol=1e-4)
    assert call(torch.randn(2, 3, 1024), *factors).shape == (2, 3, 160)
    assert call(torch.randn(0, 1024), *factors).shape == (0, 160)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 3, 500])
def test_the_same_for_any_number_of_threads(form, rows):
    make, _, call = FORMS[form]
    factors, before, found = make(4, 4, 256, 64, 256), torch.get_num_threads(), []
    x = torch.randn(rows, 1024)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(call(x, *factors))
    torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form):
    make, _, call = FORMS[form]
    factors = [f.requires_grad_() for f in make(2, 3, 4, 2, 5, dtype=torch.float64)]
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(call, (x, *factors))


@pytest.mark.parametrize("form", FORMS)
def test_other_dtypes_run_the_formula(form):
    make, dense, call = FORMS[form]
    factors = make(2, 2, 8, 3, 9, dtype=torch.float64)
    x = torch.randn(5, 16, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(call(x, *factors), x @ dense(*factors).T)


def test_a_planted_monarch_matrix_is_found_and_nothing_is_nearer():
    first, second = monarch_parts(4, 2, 12, 3, 10)
    weight = dense_monarch(first, second)
    one, two, report = blr.monarch_factors(weight, 2, 4, 3)
    torch.testing.assert_close(dense_monarch(one, two), weight, rtol=1e-6, atol=1e-6)
    assert report.relative_error < 1e-9
    assert (report.parameters, report.dense_parameters) == (first.numel() + second.numel(), weight.numel())
    noise = torch.randn_like(weight)
    near_one, near_two, report = blr.monarch_factors(weight + 0.1 * noise, 2, 4, 3)
    off = (dense_monarch(near_one, near_two) - weight - 0.1 * noise).norm()
    torch.testing.assert_close(
        report.relative_error, float(off / (weight + 0.1 * noise).norm()), rtol=1e-4, atol=0
    )
    assert off < 0.1 * noise.norm(), "nearer than the planted one"
    assert report.worst_block >= report.relative_error


def test_a_planted_blast_matrix_is_approached_further_than_by_one_low_rank():
    factors = blast_parts(3, 4, 16, 5, 12, dtype=torch.float64)
    weight = dense_blast(*factors)
    *found, report = blr.blast_factors(weight, 4, 3, 5, rounds=120)
    off = (dense_blast(*found) - weight).norm() / weight.norm()
    torch.testing.assert_close(report.relative_error, float(off), rtol=1e-6, atol=1e-9)
    assert report.relative_error < 0.5 * report.low_rank_error
    low = torch.randn(48, 5).double() @ torch.randn(5, 48).double()
    assert blr.blast_factors(low, 4, 4, 5)[-1].relative_error < 1e-5
    *_, random = blr.blast_factors(torch.randn(48, 48), 4, 4, 12)
    assert random.relative_error < random.low_rank_error
    assert random.relative_error <= random.worst_block


@pytest.mark.parametrize("kind", [blr.MonarchLinear, blr.BlastLinear])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_of_a_dense_one(kind, bias):
    dense = torch.nn.Linear(32, 48, bias=bias)
    rank = 8 if kind is blr.MonarchLinear else 32
    layer, report = kind.from_linear(dense, rank, blocks=4)
    assert report.relative_error < 1e-5
    x = torch.randn(2, 6, 32)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), dense(x), rtol=1e-4, atol=1e-4)
        assert [ran.serves for ran in ops.watch(lambda: layer(x))] == ["kernel"]
    torch.testing.assert_close(layer(x), dense(x), rtol=1e-4, atol=1e-4)
    layer(x).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    assert "rank=" in repr(layer)


@pytest.mark.parametrize("kind", [blr.MonarchLinear, blr.BlastLinear])
def test_a_layer_follows_its_factors(kind):
    layer, x = kind(32, 24, 4, blocks=2, groups=3), torch.randn(5, 32)
    with torch.no_grad():
        before = layer(x)
        packed = layer._prepared.follow(*(p for n, p in layer.named_parameters() if n != "bias"))
        assert layer._prepared.follow(*(p for n, p in layer.named_parameters() if n != "bias")) is packed
        for name, factor in layer.named_parameters():
            if name != "bias":
                factor.mul_(2)
        times = 4 if kind is blr.MonarchLinear else 8
        torch.testing.assert_close(layer(x), times * before, rtol=1e-4, atol=1e-4)
        file = io.BytesIO()
        torch.save(layer, file)
        file.seek(0)
        for other in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
            torch.testing.assert_close(other(x), layer(x))
        expected = layer(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.testing.assert_close(layer.double()(x.double()).float(), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_call_is_right_or_refused_in_one_sentence(data):
    form = data.draw(st.sampled_from(sorted(FORMS)))
    make, dense, call = FORMS[form]
    size = st.integers(1, 9)
    blocks, groups, inner, rank, each = (data.draw(size) for _ in range(5))
    factors = list(make(blocks, groups, inner, rank, each))
    x = torch.randn(data.draw(st.integers(0, 5)), blocks * inner)
    at = data.draw(st.sampled_from([None, None, *range(len(factors) + 1)]))
    wrong = data.draw(
        st.sampled_from([lambda t: t[..., :-1], lambda t: t.double(), lambda t: t[0], lambda _: 3])
    )
    given_all = [x, *factors]
    if at is not None and given_all[at].shape[0]:
        given_all[at] = wrong(given_all[at])
    try:
        found = call(*given_all)
    except InputError as error:
        assert "\n" not in str(error)
        assert "expected" in str(error)
        assert at is not None
        return
    right = given_all[0].double() @ dense(*given_all[1:]).T
    torch.testing.assert_close(found.double(), right, rtol=1e-4, atol=1e-4)


X = torch.randn(3, 16)
MONARCH, BLAST = monarch_parts(2, 2, 8, 3, 5), blast_parts(2, 2, 8, 3, 5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: blr.monarch(X[:, :15], *MONARCH), r"x is of shape \(3, 15\).*expected \(..., 16\)"),
        (lambda: blr.monarch(X, MONARCH[0], MONARCH[1][:, :, :5]), r"second is of shape \(2, 5, 5\)"),
        (
            lambda: blr.monarch(X, MONARCH[0].double(), MONARCH[1]),
            "first is .*float64; expected of three axes",
        ),
        (lambda: blr.monarch("x", *MONARCH), "x is 'x'; expected a tensor"),
        (lambda: blr.blast(X, BLAST[0], BLAST[1][:1], BLAST[2]), r"scale is of shape .*expected \(2, 2, 3\)"),
        (
            lambda: blr.blast(X, *BLAST[:2], BLAST[2][..., :2]),
            r"left is of shape .*expected \(groups, each, 3\)",
        ),
        (lambda: blr.MonarchLinear(30, 32, 2, blocks=4), "blocks is 4; expected a divisor of 30"),
        (lambda: blr.BlastLinear(32, 30, 2, blocks=4), "groups is 4; expected a divisor of 30"),
        (lambda: blr.BlastLinear(32, 32, 0), "rank is 0; expected 1 or more"),
        (lambda: blr.monarch_factors(torch.ones(8, 8), 2, 2, 5), "rank is 5; expected 1 to 4"),
        (lambda: blr.blast_factors(torch.ones(8, 8), 2, 2, 9), "rank is 9; expected 1 to 8"),
        (
            lambda: blr.blast_factors(torch.full((8, 8), torch.nan), 2, 2, 2),
            "expected a matrix of finite numbers",
        ),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


MONARCHS = {
    "ranks of the first block": ("row + block * rank", "row + block % 1 * rank"),
    "groups not dealt out": ("return deal<4>(from, each, to)", "return deal<2>(from, 2 * each, to)"),
    "the last tile left out": (
        "multiplied(second, between, count, from, last,",
        "multiplied(second, between, count, from, last - (last > 1),",
    ),
}
BLASTS = {
    "scales of the first group": ("scale + i * blocks * rank", "scale + i * 0"),
    "the last block left out": ("j < blocks; ++j", "j + 1 < blocks; ++j"),
    "scales of the first block": ("load(of_group + j * rank + r, lanes)", "load(of_group + r, lanes)"),
}


@pytest.mark.long
@pytest.mark.parametrize(("op", "mutants"), [("blr_monarch", MONARCHS), ("blr_blast", BLASTS)])
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, mutants, tmp_path):
    found = verdicts("blr", op, mutants, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
