"""Products with sparse matrices beside dense ones and scipy's: shapes, orders, gradients, errors."""

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.mutants import verdicts

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import sparse
from kernelwright.ops.sparse import reference


def made(rows, columns, entries, *, seed=0, index=torch.int64, dtype=torch.float32, twice=False):
    """Make a sparse matrix; `twice`: columns may stand twice in a row, in any order."""
    random = np.random.default_rng(seed)
    row, col = random.integers(0, max(1, rows), entries), random.integers(0, max(1, columns), entries)
    if not rows or not columns:
        row = col = np.zeros(0, int)
    if twice:
        row = np.sort(row)
    else:
        found = scipy.sparse.coo_matrix((np.ones(len(row)), (row, col)), (rows, columns)).tocsr()
        found.sum_duplicates()
        row, col = np.repeat(np.arange(rows), np.diff(found.indptr)), found.indices
    crow = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])[: rows + 1]
    values = torch.randn(len(col), generator=torch.Generator().manual_seed(seed)).to(dtype)
    return torch.sparse_csr_tensor(
        torch.tensor(crow, dtype=index),
        torch.tensor(col, dtype=index),
        values,
        (rows, columns),
        check_invariants=False,
    )


def dense(a):
    row = torch.repeat_interleave(torch.arange(a.shape[0]), a.crow_indices().diff().long())
    places = row, a.col_indices().long()
    return torch.zeros(a.shape, dtype=torch.float64).index_put_(places, a.values().double(), accumulate=True)


SIZES = [
    (1, 1, 1),
    (3, 5, 7),
    (5, 3, 0),
    (17, 33, 200),
    (64, 2, 90),
    (2, 100, 150),
    (0, 4, 0),
    (4, 0, 0),
    (40, 40, 1600),
]


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [0, 1, 2, 15, 16, 17, 33, 64, 130, 300])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_sparse_matrix_times_a_dense_one(size, width, index):
    a = made(*size, index=index, twice=True)
    x = torch.randn(size[1], width)
    (ran,) = ops.watch(lambda: sparse.spmm(a, x))
    assert ran.serves == "kernel"
    torch.testing.assert_close(sparse.spmm(a, x).double(), dense(a) @ x.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("alike", [False, True])
def test_a_row_times_a_vector_takes_nothing_of_its_neighbours(alike, index):
    each = torch.full((200,), 5) if alike else torch.randint(0, 10, (200,))
    crow = torch.cat((torch.zeros(1), each.cumsum(0))).to(index)
    col, values = torch.randint(9, (int(crow[-1]),), dtype=index), torch.randn(int(crow[-1]))
    values[crow[50] : crow[51]] = torch.nan
    x = torch.randn(9, 1)
    a = torch.sparse_csr_tensor(crow, col, values, (200, 9), check_invariants=False)
    found, exact = sparse.spmm(a, x), reference.spmm(crow.long(), col.long(), values.double(), x.double())
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5, equal_nan=True)
    for place in (0, len(col) // 2, len(col) - 1):
        wrong_col = col.clone()
        wrong_col[place] = 9
        broken = torch.sparse_csr_tensor(crow, wrong_col, values, (200, 9), check_invariants=False)
        with pytest.raises(ValueError, match="col is out of range"):
            sparse.spmm(broken, x)


@pytest.mark.parametrize("width", [70, 256, 300])
@pytest.mark.parametrize("shuffled", [False, True])
def test_some_rows_of_a_band_meet_all_columns_in_turn(width, shuffled):
    rows = 515  # many of the blocks that meet all columns
    column = torch.arange(rows)[:, None] + torch.arange(5)
    column = column[:, torch.randperm(5)] if shuffled else column
    x, values = torch.randn(rows + 4, width), torch.randn(5 * rows)
    a = torch.sparse_csr_tensor(
        torch.arange(0, 5 * rows + 1, 5), column.flatten(), values, (rows, rows + 4), check_invariants=False
    )
    torch.testing.assert_close(sparse.spmm(a, x).double(), dense(a) @ x.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [0, 1, 15, 16, 33, 64, 128, 200])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_entries_of_a_product_at_the_places_of_a_pattern(size, width):
    pattern, a, b = made(*size), torch.randn(size[0], width), torch.randn(size[1], width)
    found = sparse.sddmm(pattern, a, b)
    ones = torch.ones(len(pattern.values()))
    indices = pattern.crow_indices(), pattern.col_indices()
    there = dense(torch.sparse_csr_tensor(*indices, ones, size[:2], check_invariants=False))
    torch.testing.assert_close(dense(found), (a.double() @ b.double().T) * there, rtol=1e-5, atol=1e-5)


PAIRS = [
    (1, 1, 1, 1, 1), (3, 5, 4, 7, 9), (20, 30, 10, 60, 50), (50, 8, 3000, 100, 900), (30, 200, 50, 3000, 4000),
    (5, 4, 6, 0, 0), (0, 3, 4, 0, 5), (60, 60, 100_000, 240, 1200), (12, 12, 9000, 144, 4000),
]  # fmt: skip
"""Rows, inner, columns, entries of both: short rows, long ones, and such that hold most of the columns."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_sparse_matrix_times_another(pair, ascending, threads):
    rows, inner, columns, first, second = pair
    a, b = made(rows, inner, first, twice=True), made(inner, columns, second, seed=1, twice=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = sparse.spgemm(a, b, ascending=ascending)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(dense(found), dense(a) @ dense(b), rtol=1e-5, atol=1e-5)
    row = torch.repeat_interleave(torch.arange(rows), found.crow_indices().diff())
    keys = row * columns + found.col_indices()
    assert len(keys.unique()) == len(keys)
    if ascending:
        assert (keys.diff() > 0).all()


def test_a_large_product_is_scipys():
    a = made(3000, 3000, 60_000)
    other = scipy.sparse.csr_matrix(
        (a.values().numpy(), a.col_indices().numpy(), a.crow_indices().numpy()), a.shape
    )
    theirs = other @ other
    theirs.sort_indices()
    mine = sparse.spgemm(a, a)
    assert np.array_equal(mine.crow_indices().numpy(), theirs.indptr)
    assert np.array_equal(mine.col_indices().numpy(), theirs.indices)
    np.testing.assert_allclose(mine.values().numpy(), theirs.data, rtol=1e-4, atol=1e-4)


def test_room_is_made_for_no_more_entries_than_a_row_has_columns():
    a, b = made(5, 40, 150), made(40, 7, 200, seed=1)
    parts = [(m.crow_indices(), m.col_indices(), m.values()) for m in (a, b)]
    per_row = torch.zeros(5, dtype=torch.long)
    for r in range(5):
        inner = parts[0][1][parts[0][0][r] : parts[0][0][r + 1]]
        per_row[r] = parts[1][0].diff()[inner].sum()
    wanted = int(per_row.clamp(max=7).sum())
    assert wanted < per_row.sum()
    assert int(torch.ops.kernelwright.sparse_products(*parts[0][:2], *parts[1][:2], 7)) == wanted
    for most in (wanted - 1, int(per_row.sum()) + 1):
        with pytest.raises(ValueError, match="most is not as many entries as the product may have"):
            torch.ops.kernelwright.sparse_spgemm(*parts[0], *parts[1], 7, most, True)


@pytest.mark.parametrize(("ascending", "threads"), [(True, 2), (False, 1)])
def test_a_band_times_a_band(ascending, threads):
    """Rows that are gathered in a window of columns, and empty ones among them."""
    rows = 3000
    row = torch.arange(rows).repeat_interleave(9)
    col = (row + torch.arange(9).repeat(rows) - 4).clamp(0, rows - 1)
    keep = (row % 7 != 3) & (torch.arange(len(row)) % 5 != 0)
    values = torch.randn(int(keep.sum()), generator=torch.Generator().manual_seed(0))
    a = (
        torch.sparse_coo_tensor(torch.stack([row, col])[:, keep], values, (rows, rows), check_invariants=True)
        .coalesce()
        .to_sparse_csr()
    )
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = sparse.spgemm(a, a, ascending=ascending)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(dense(found), dense(a) @ dense(a), rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 40), st.integers(0, 70), st.integers(0, 99))
def test_any_small_sizes(rows, columns, entries, width, seed):
    a = made(rows, columns, entries, seed=seed, twice=True)
    x = torch.randn(columns, width)
    torch.testing.assert_close(sparse.spmm(a, x).double(), dense(a) @ x.double(), rtol=1e-5, atol=1e-5)
    turned = sparse.transpose(a)
    assert torch.equal(dense(turned), dense(a).T)
    product = sparse.spgemm(a, turned)
    torch.testing.assert_close(dense(product), dense(a) @ dense(a).T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_floats_run_the_reference(dtype):
    a, x = made(9, 12, 40, dtype=dtype), torch.randn(12, 5).to(dtype)
    with pytest.warns(RuntimeWarning, match="runs its reference"):
        found = sparse.spmm(a, x)
    assert found.dtype is dtype
    torch.testing.assert_close(found.double(), dense(a) @ x.double(), rtol=1e-2, atol=1e-2)


def test_gradients_are_those_of_a_dense_product():
    a = made(7, 9, 30)
    values, x = (
        a.values().double().requires_grad_(),
        torch.randn(9, 4, dtype=torch.float64, requires_grad=True),
    )
    indices = a.crow_indices(), a.col_indices()
    with pytest.warns(RuntimeWarning):
        assert torch.autograd.gradcheck(
            lambda v, x: torch.ops.kernelwright.sparse_spmm(*indices, v, x), (values, x)
        )
        left, right = (torch.randn(n, 3, dtype=torch.float64, requires_grad=True) for n in (7, 9))
        sampled = torch.ops.kernelwright.sparse_sddmm
        assert torch.autograd.gradcheck(lambda p, q: sampled(*indices, p, q), (left, right))
    v, y = values.float().detach().requires_grad_(), x.float().detach().requires_grad_()
    g = torch.randn(7, 4)
    mine = torch.autograd.grad(torch.ops.kernelwright.sparse_spmm(*indices, v, y), (v, y), g)
    exact = torch.autograd.grad(reference.spmm(*indices, v, y), (v, y), g)
    for one, other in zip(mine, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_it_goes_through_compile_and_is_registered():
    a, x = made(6, 8, 20), torch.randn(8, 3)
    parts = [t.clone() for t in (a.crow_indices(), a.col_indices(), a.values())]
    compiled = torch.compile(
        lambda x: torch.ops.kernelwright.sparse_spmm(*parts, x) * 2, backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(x), sparse.spmm(a, x) * 2)
    torch.library.opcheck(torch.ops.kernelwright.sparse_spmm.default, (*parts, x))
    torch.library.opcheck(
        torch.ops.kernelwright.sparse_sddmm.default, (*parts[:2], torch.randn(6, 4), torch.randn(8, 4))
    )


A, X = made(4, 6, 10), torch.randn(6, 2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: sparse.spmm(torch.ones(2, 2), X),
            "a is of layout torch.strided.*; expected a matrix in torch's CSR form",
        ),
        (lambda: sparse.spmm(3, X), "a is 3; expected a tensor"),
        (lambda: sparse.spmm(A, X[:5]), r"x is of shape \(5, 2\); expected \(6, ...\), as a has columns"),
        (lambda: sparse.spmm(A, X.double()), "x is of torch.float64; expected torch.float32"),
        (lambda: sparse.spmm(A, X.long()), "x is of torch.int64; expected float32, float64"),
        (lambda: sparse.spgemm(A, A), r"b is of shape \(4, 6\); expected \(6, ...\)"),
        (
            lambda: sparse.spgemm(A, made(6, 3, 4, index=torch.int32)),
            "b's crow is of torch.int32; expected torch.int64",
        ),
        (lambda: sparse.spgemm(A, made(6, 3, 4, dtype=torch.float64)), "b's values is of torch.float64"),
        (lambda: sparse.sddmm(A, torch.ones(3, 2), torch.ones(6, 2)), "a is of 3 rows; expected 4"),
        (lambda: sparse.sddmm(A, torch.ones(4, 2), torch.ones(5, 2)), "b is of 5 rows; expected 6"),
        (lambda: sparse.sddmm(A, torch.ones(4, 2), torch.ones(6, 3)), r"b is of shape \(6, 3\).*; expected"),
        (lambda: sparse.transpose(torch.ones(3)), "a is of layout"),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def wrong(crow, col, columns=6):
    values = torch.ones(len(col))
    return torch.sparse_csr_tensor(
        torch.tensor(crow), torch.tensor(col), values, (len(crow) - 1, columns), check_invariants=False
    )


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize(("crow", "col", "says"), [
    ([0, 2, 1], [0, 1], "crow is no row of offsets"), ([0, 1, 3], [0, 1], "crow is no row of offsets"),
    ([-1, 1, 2], [0, 1], "crow is no row of offsets"), ([0, 1, 2], [0, 6], "col is out of range"),
    ([0, 1, 2], [-1, 0], "col is out of range"),
])  # fmt: skip
def test_indices_that_are_no_csr_form_are_an_error_everywhere(crow, col, says, width):
    a, x = wrong(crow, col), torch.ones(6, width)
    for call in (
        lambda: sparse.spmm(a, x), lambda: sparse.transpose(a),
        lambda: sparse.sddmm(a, torch.ones(2, 3), torch.ones(6, 3)),
        lambda: sparse.spgemm(a, made(6, 3, 4)), lambda: sparse.spgemm(made(3, 2, 4), a),
        lambda: reference.spmm(a.crow_indices(), a.col_indices(), a.values(), x),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            call()


def test_wrong_indices_of_any_kind_never_crash():
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        crow = random.integers(-2, 9, random.integers(1, 5)).tolist()
        col = random.integers(-2, 8, random.integers(0, 7)).tolist()
        try:
            torch.ops.kernelwright.sparse_spmm(
                torch.tensor(crow), torch.tensor(col, dtype=torch.int64), torch.ones(len(col)), X
            )
        except (ValueError, InputError):
            refused += 1
    assert 1000 < refused < 2000


MUTANTS = {
    "the last entry of a row is left out": (
        "e < m.crow[r + 1]; ++e) {\n      const float* from = x",
        "e + 1 < m.crow[r + 1]; ++e) {\n      const float* from = x",
    ),
    "every vector of a row of x is its first": (
        "sum[n] = fma(v, load(from + n * W, Full{}), sum[n])",
        "sum[n] = fma(v, load(from, Full{}), sum[n])",
    ),
}


@pytest.mark.long
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(tmp_path):
    found = verdicts("sparse", "sparse_spmm", MUTANTS, tmp_path)
    assert found == {"": "accepted", **dict.fromkeys(MUTANTS, "rejected")}
