"""Nearest neighbours against float64: ties, special values, data far from zero, the guard, errors."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.mutants import verdicts
from torch.nn.functional import normalize

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops.neighbours import nearest
from kernelwright.ops.neighbours.cases import NEAREST

SIZES = [(w["rows"], w["many"], w["columns"], w["count"]) for w in NEAREST.verified if w["rows"]]
METRICS = ("sqeuclidean", "inner_product", "cosine")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def drawn(rows, many, columns, dtype=torch.float32, offset=0.0):
    return (torch.randn(rows, columns) + offset).to(dtype), (torch.randn(many, columns) + offset).to(dtype)


def exact(x, points, metric):
    """Every value in float64, and the scale of its rounding."""
    x, points = x.double(), points.double()
    if metric == "sqeuclidean":
        found = torch.cat([(row - points).square().sum(1)[None] for row in x])
        return found, found
    if metric == "cosine":
        x, points = normalize(x), normalize(points)
    return x @ points.T, x.norm(dim=1)[:, None] * points.norm(dim=1)


def held(x, points, count, metric):
    """Each value is its index's, and as good as the one of its rank, within rounding."""
    values, indices = nearest(x, points, count, metric=metric)
    right, scale = exact(x, points, metric)
    best = right.topk(count, 1, largest=metric != "sqeuclidean").values
    limit = (x.shape[1] + 8) * torch.finfo(torch.float32).eps * scale.gather(1, indices) + 1e-37
    assert bool(((values.double() - right.gather(1, indices)).abs() <= limit).all())
    assert bool(((values.double() - best).abs() <= limit).all())
    assert all(len(set(row)) == count for row in indices.tolist())
    assert bool((values.diff(dim=1) * (1 if metric == "sqeuclidean" else -1) >= 0).all())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("size", SIZES[::7], ids=str)
def test_the_nearest_are_nearest_at_every_size(size, metric):
    x, points = drawn(*size[:3])
    held(x, points, size[3], metric)
    (ran,) = ops.watch(lambda: nearest(x, points, size[3], metric=metric))
    assert ran.serves == "kernel"


@pytest.mark.long
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(*(st.integers(1, n) for n in (300, 400, 70))),
    count=st.integers(1, 128),
    seed=st.integers(0, 99),
    metric=st.sampled_from(METRICS),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    offset=st.sampled_from([0.0, 100.0]),
)
def test_any_legal_call_is_right(sizes, count, seed, metric, dtype, offset):
    torch.manual_seed(seed)
    held(*drawn(*sizes, dtype, offset), min(count, sizes[1]), metric)


def test_squared_distances_far_from_zero_and_beside_an_outlier_are_not_lost_in_rounding():
    x, points = drawn(40, 2000, 24, offset=3000.0)
    held(x, points, 20, "sqeuclidean")
    points[7] = 3e5
    held(x, points, 20, "sqeuclidean")


def test_points_whose_products_differ_by_rounding_alone_are_compared_by_differences():
    x, points = 100 * torch.randn(20, 24), 100 * torch.randn(2000, 24)
    points[:200] = x[:1] + torch.randn(200, 24) / 1000
    held(x, points, 3, "sqeuclidean")


def test_of_equals_the_first_comes_first_whatever_the_threads():
    x, points = torch.randint(-1, 2, (600, 4)).float(), torch.randint(-1, 2, (3000, 4)).float()
    right = exact(x, points, "sqeuclidean")[0].sort(dim=1, stable=True)
    inner = (x @ points.T).sort(dim=1, descending=True, stable=True)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for rows in (600, 40):
                values, indices = nearest(x[:rows], points, 30)
                assert torch.equal(values.double(), right.values[:rows, :30])
                assert torch.equal(indices, right.indices[:rows, :30])
                assert torch.equal(
                    nearest(x[:rows], points, 30, metric="inner_product")[1], inner.indices[:rows, :30]
                )
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:kernelwright neighbours_nearest")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows", [2, 30])
def test_what_is_no_number_is_farthest(rows, metric):
    x, points = drawn(rows, 60, 17)
    points[5, 2], points[9] = math.nan, math.inf
    x[1, 3] = math.nan
    for values, indices in (
        nearest(x, points, 60, metric=metric),
        nearest(x.double(), points.double(), 60, metric=metric),
    ):
        assert indices[1].tolist() == list(range(60))
        assert values[1].isnan().all()
        rest = torch.arange(rows) != 1
        if metric != "inner_product":
            assert all(row[-2:] == [5, 9] for row in indices[rest].tolist())
    assert nearest(x[:0], points, 3, metric=metric)[1].shape == (0, 3)


@pytest.mark.filterwarnings("ignore:kernelwright neighbours_nearest")
@pytest.mark.parametrize("metric", METRICS)
def test_the_reference_is_right_in_float64_and_any_strides_are_read(metric):
    x, points = drawn(30, 90, 16)
    held(x.double(), points.double(), 7, metric)
    expected = nearest(x, points, 7, metric=metric)
    turned = nearest(x.T.contiguous().T, torch.stack((points, points), 1)[:, 1], 7, metric=metric)
    assert all(torch.equal(a, b) for a, b in zip(turned, expected, strict=True))


@pytest.mark.long
def test_it_goes_through_compile_and_is_registered_as_torch_asks():
    x, points = drawn(9, 20, 5)
    compiled = torch.compile(lambda x: nearest(x * 2, points, 3), backend="aot_eager", fullgraph=True)
    for one, other in zip(compiled(x), nearest(x * 2, points, 3), strict=True):
        torch.testing.assert_close(one, other)
    torch.library.opcheck(torch.ops.kernelwright.neighbours_nearest.default, (x, points, 3, 2))


X, P = torch.randn(3, 4), torch.randn(5, 4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: nearest(X[0], P, 1), r"neighbours.nearest: x is of shape \(4,\); expected a matrix"),
        (lambda: nearest(X, P[:, :3], 1), r"points is of shape \(5, 3\); expected \(points, 4\), as x has"),
        (lambda: nearest(X, P[:0], 1), r"points is of shape \(0, 4\)"),
        (lambda: nearest(X, P.double(), 1), "points is of torch.float64; expected torch.float32, as x is"),
        (lambda: nearest(X, P, 6), "count is 6; expected 1 to 5"),
        (lambda: nearest(X, P, 0), "count is 0; expected 1 to 5"),
        (
            lambda: nearest(X, P, 1, metric="l1"),
            "metric is 'l1'; expected 'sqeuclidean' or 'inner_product' or",
        ),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


MUTANTS = {
    "later of equals": ("return a > b || (a", "return a >= b || (a"),
    "equals in any order": (
        "a.value == b.value && a.place < b.place",
        "a.value == b.value && a.place > b.place",
    ),
    "the last kept is not replaced": ("else --at;", "else return;"),
    "twice the bias": ("-0.5f * squares", "-1.0f * squares"),
    "sums without the tail": ("if (k < inner) {\n    const Part", "if (false) {\n    const Part"),
    "the first row": ("insert(row + i, each[i], place)", "insert(row + i, each[0], place)"),
    "another point": (
        "seen.insert(i, z[n], static_cast<int32_t>(first + n))",
        "seen.insert(i, z[n], static_cast<int32_t>(first))",
    ),
}


@pytest.mark.long
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(tmp_path):
    found = verdicts("neighbours", "neighbours_nearest", MUTANTS, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(MUTANTS, "rejected")
