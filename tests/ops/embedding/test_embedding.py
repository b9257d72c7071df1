"""Embeddings against torch's own in float64: padding, empty bags, ties, gradients, threads, errors."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import embedding as own

TYPES = (torch.float32, torch.bfloat16)
SIZES = ((1, 1, 1), (5, 9, 3), (40, 100, 17), (7, 300, 161), (300, 50, 128))
"""Rows, ids, columns."""


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def near(mine, exact):
    relative = {torch.float32: 3e-6, torch.bfloat16: 2.0**-8}[mine.dtype]
    torch.testing.assert_close(mine.double(), exact.double(), rtol=relative, atol=relative * 4)


def with_gradients(form, *tensors):
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = form(*leaves)
    g = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).bfloat16()  # exact in every dtype
    return [out.detach(), *torch.autograd.grad(out, leaves, g.to(out.dtype))]


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("padding", [None, 0, -1])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "n", "columns"), SIZES)
def test_rows_and_their_gradient_are_torchs_in_float64(rows, n, columns, dtype, padding, index):
    weight, ids = torch.randn(rows, columns).to(dtype), torch.randint(rows, (n,), dtype=index)
    mine = with_gradients(lambda w: own.embedding(ids, w, padding), weight)
    exact = with_gradients(lambda w: F.embedding(ids, w, padding), weight.double())
    assert torch.equal(mine[0], weight[ids.long()])
    near(mine[1], exact[1])


def bags_of(rows, n, columns, dtype, bags):
    weight, ids = torch.randn(rows, columns).to(dtype), torch.randint(rows, (n,))
    offsets = torch.cat([torch.zeros(1), torch.randint(n + 1, (bags - 1,)).sort().values]).long()
    return weight, ids, offsets


@pytest.mark.parametrize("padding", [None, 0])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "n", "columns"), SIZES)
def test_bags_and_their_gradient_are_torchs_in_float64(rows, n, columns, dtype, mode, padding):
    weight, ids, offsets = bags_of(rows, n, columns, dtype, 8)
    options = {"mode": mode, "padding_idx": padding}
    mine = with_gradients(lambda w: own.embedding_bag(ids, w, offsets, **options), weight)
    exact = with_gradients(lambda w: F.embedding_bag(ids, w, offsets, **options), weight.double())
    near(mine[0], exact[0])
    if mode != "max" or dtype is torch.float32:  # ties of 16 bits may go to another row
        near(mine[1], exact[1])
    ends = torch.cat([offsets, torch.tensor([n])])
    again = own.embedding_bag(ids.int(), weight, ends.int(), include_last_offset=True, **options)
    assert torch.equal(again, mine[0])


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("dtype", TYPES)
def test_factors_of_a_sum_have_a_gradient(dtype, padding):
    weight, ids, offsets = bags_of(30, 70, 33, dtype, 9)
    scale = torch.randn(70).to(dtype)

    def form(function):
        return lambda w, s: function(ids, w, offsets, mode="sum", per_sample_weights=s, padding_idx=padding)

    mine = with_gradients(form(own.embedding_bag), weight, scale)
    exact = with_gradients(form(F.embedding_bag), weight.double(), scale.double())
    for one, other in zip(mine, exact, strict=True):
        near(one, other)


def test_bags_of_one_size_are_a_matrix_of_ids():
    weight, ids = torch.randn(9, 5), torch.randint(9, (4, 6))
    near(own.embedding_bag(ids, weight), F.embedding_bag(ids, weight))
    scale = torch.randn(4, 6)
    mine = own.embedding_bag(ids, weight, mode="sum", per_sample_weights=scale)
    near(mine, F.embedding_bag(ids, weight, mode="sum", per_sample_weights=scale))


def test_the_first_of_equal_rows_is_the_largest_and_nan_is_larger_than_all():
    weight = torch.ones(4, 3)
    mine = with_gradients(
        lambda w: own.embedding_bag(torch.tensor([2, 1, 3]), w, torch.tensor([0]), mode="max"), weight
    )
    assert mine[1].count_nonzero(1).tolist() == [0, 0, 3, 0]
    weight[1] = float("nan")
    assert own.embedding_bag(torch.tensor([2, 1, 3]), weight, torch.tensor([0]), mode="max").isnan().all()


def test_padding_that_is_not_a_number_is_in_no_bag():
    weight = torch.ones(3, 40)
    weight[1] = float("nan")
    for mode in ("sum", "mean", "max"):
        out = own.embedding_bag(torch.tensor([0, 1, 2]), weight, torch.tensor([0]), mode=mode, padding_idx=1)
        assert out.unique().tolist() == [2.0 if mode == "sum" else 1.0]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_do_not_depend_on_threads(mode):
    """Of a table that is written past the caches, too."""
    weight, ids = torch.randn(30_011, 120), torch.randint(30_011, (50_000,))
    offsets, before = torch.arange(0, 50_000, 50), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            bag = with_gradients(lambda w: own.embedding_bag(ids, w, offsets, mode=mode), weight)
            found.append([*bag, with_gradients(lambda w: own.embedding(ids, w), weight)[1]])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    near(found[0][2][:50], with_gradients(lambda w: F.embedding(ids, w), weight.double())[1][:50])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_threads_share_bags_of_very_different_sizes(mode):
    weight, ids = torch.randn(100, 64), torch.randint(100, (20_000,))
    offsets, before = torch.tensor([0, *range(19_000, 20_000, 10)]), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(own.embedding_bag(ids, weight, offsets, mode=mode))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
    near(found[0][1:], F.embedding_bag(ids, weight.double(), offsets, mode=mode)[1:])


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
def test_gradients_of_gradients_are_right():
    weight, scale = torch.randn(6, 3, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    ids, offsets = torch.randint(6, (8,)), torch.tensor([0, 3, 3])

    def form(function):
        return lambda w, s: function(ids, w * w, offsets, mode="sum", per_sample_weights=s * s)

    leaves = [weight.requires_grad_(), scale.requires_grad_()]
    found = []
    for function in (own.embedding_bag, F.embedding_bag):
        first = torch.autograd.grad(
            form(function)(*leaves).square().sum(), leaves, create_graph=function is not F.embedding_bag
        )
        found.append(first)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.autograd.gradgradcheck(form(own.embedding_bag), leaves)


W, I, O = torch.randn(5, 3), torch.tensor([0, 4, 2]), torch.tensor([0, 2])  # noqa: E741
WRONG = [
    (lambda: own.embedding(I.float(), W), "ids is of shape .*float32; expected a tensor of int32 or int64"),
    (lambda: own.embedding([1], W), "ids is a list; expected a tensor"),
    (lambda: own.embedding(I, W[0]), r"weight is of shape \(3,\); expected a matrix"),
    (lambda: own.embedding(I, W, 5), "padding_idx is 5; expected within 5 rows"),
    (lambda: own.embedding_bag(I, W), "offsets is None; expected where each bag begins"),
    (lambda: own.embedding_bag(I, W, O, mode="min"), "mode is 'min'; expected 'sum', 'mean' or 'max'"),
    (lambda: own.embedding_bag(I, W, O, per_sample_weights=W[0]), "per_sample_weights is given; expected none, or"),
    (lambda: own.embedding_bag(I, W, O, mode="sum", per_sample_weights=W[0, :2]), r"weights is of shape \(2,\)"),
    (lambda: own.embedding_bag(I[None], W, O), r"offsets is given; expected none, for ids of shape \(1, 3\)"),
    (lambda: own.embedding_bag(I, W, O.float()), "offsets is of shape .*float32; expected a tensor of int32"),
    (lambda: own.embedding_bag(I, W, O[:0], include_last_offset=True), "offsets is empty; expected one number more"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "says"), WRONG)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [5, -1, 1 << 40, -(1 << 40)])
def test_an_id_outside_the_table_is_an_index_error(bad):
    ids = torch.tensor([0, bad])
    for call in (
        lambda: own.embedding(ids, W),
        lambda: own.embedding_bag(ids, W, O[:1]),
        lambda: torch.ops.kernelwright.embedding_backward(torch.ones(2, 3), ids, 5, -1),
    ):
        with pytest.raises(IndexError, match="ids is out of range somewhere; expected 0 to 4"):
            call()


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
@pytest.mark.parametrize("offsets", [[1, 0], [0, 4], [-1, 2]])
def test_offsets_that_do_not_ascend_are_refused(offsets):
    with pytest.raises(ValueError, match="offsets is no row of offsets"):
        own.embedding_bag(I, W, torch.tensor(offsets))
    with pytest.raises(ValueError, match="offsets is no row of offsets"):
        own.embedding_bag(I, W.double(), torch.tensor(offsets))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-2, 6), max_size=6), st.lists(st.integers(-1, 7), max_size=4),
    st.sampled_from(["sum", "mean", "max"]), st.booleans(), st.sampled_from([None, 0, 4, -1, 9]),
)  # fmt: skip
def test_any_ids_and_offsets_give_torchs_rows_or_are_refused(ids, offsets, mode, last, padding):
    given_ids, given_offsets = torch.tensor(ids, dtype=torch.int64), torch.tensor(offsets, dtype=torch.int64)
    ends = [*offsets, len(ids)] if not last else offsets
    right = (
        all(0 <= i < 5 for i in ids) and ends == sorted(ends) and (not ends or (ends[0] >= 0 and ends[-1] <= len(ids)))
        and bool(ends) and padding != 9
    )  # fmt: skip
    try:
        out = own.embedding_bag(
            given_ids, W, given_offsets, mode=mode, include_last_offset=last, padding_idx=padding
        )
    except (InputError, IndexError, ValueError):
        assert not right
    else:
        assert right
        kept = [
            [i for i in ids[a:b] if padding is None or i != padding % 5] for a, b in itertools.pairwise(ends)
        ]
        how = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.amax(0)}[mode]
        exact = [how(W[bag]) if bag else torch.zeros(3) for bag in kept]
        torch.testing.assert_close(out, torch.stack(exact) if exact else torch.zeros(0, 3))


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
def test_what_the_kernel_does_not_serve_runs_the_reference_with_the_same_numbers():
    weight, ids, offsets = bags_of(30, 70, 33, torch.float32, 9)
    for mode in ("sum", "mean", "max"):
        wide = own.embedding_bag(ids, weight.double(), offsets, mode=mode)
        near(own.embedding_bag(ids, weight, offsets, mode=mode), wide)
    (ran,) = ops.watch(lambda: own.embedding(ids, weight.double()))
    assert (ran.serves, ran.op) == ("reference", "embedding")
    (ran,) = ops.watch(lambda: own.embedding(ids, weight))
    assert ran.serves == "kernel"


def test_every_op_is_registered_as_torch_asks():
    chosen = torch.tensor([[0, 4, -1], [2, 2, 2]])
    ends, g = torch.tensor([0, 2, 3]), torch.randn(2, 3)
    calls = {
        "embedding": (W, I, -1), "embedding_backward": (torch.randn(3, 3), I, 5, 0),
        "embedding_bag": (W, I, ends, None, 2, -1, True), "embedding_scale_backward": (g, W, I, ends, -1),
        "embedding_bag_backward": (g, I, ends, None, chosen, 5, 2, -1),
    }  # fmt: skip
    assert set(calls) == {op.name for op in ops.ops_of(own)} == set(own.KERNEL.symbols)
    for name, arguments in calls.items():
        torch.library.opcheck(getattr(torch.ops.kernelwright, name).default, arguments)
