"""Mixture of experts: gates, plans, grouped products, layers, gradients, the load report, errors."""

import pytest
import torch
from torch.nn import functional as F

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import lowbit, moe


def layer(count, hidden, width, dtype=torch.float32):
    one = (torch.randn(count, 2 * width, hidden) * hidden**-0.5).to(dtype)
    return one, (torch.randn(count, hidden, width) * width**-0.5).to(dtype)


def by_token(x, one, two, weights, ids):
    """Each token's experts in turn, in float64."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token in range(len(x)):
        for weight, expert in zip(weights[token].tolist(), ids[token].tolist(), strict=True):
            if 0 <= expert < len(one):
                gate, up = (one[expert].double() @ x[token].double()).chunk(2)
                out[token] += weight * (two[expert].double() @ (F.silu(gate) * up))
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("tokens", "count", "chosen", "hidden", "width"),
    [
        (1, 4, 2, 32, 32),
        (7, 8, 2, 40, 24),
        (33, 8, 3, 100, 65),
        (64, 16, 4, 64, 48),
        (300, 3, 1, 33, 17),
        (0, 4, 2, 32, 32),
    ],
)
def test_a_layer_is_the_sum_of_each_tokens_experts(dtype, tokens, count, chosen, hidden, width):
    one, two = layer(count, hidden, width, dtype)
    x = torch.randn(tokens, hidden).to(dtype)
    weights, ids = moe.gate(torch.randn(tokens, count), chosen)
    packed = moe.pack(one, two)
    (ran,) = ops.watch(lambda: moe.experts(x, packed, weights, ids))
    out, expected = moe.experts(x, packed, weights, ids), by_token(x, one, two, weights, ids)
    assert ran.serves == "kernel"
    assert out.dtype is dtype
    tolerance = 1e-5 if dtype is torch.float32 else 1e-2
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:kernelwright .* runs its reference")
@pytest.mark.parametrize("shared", [0, 40])
@pytest.mark.parametrize(
    ("dtype", "bits", "activations", "tolerance"),
    [
        (torch.float32, 4, "float", 1e-5),
        (torch.float32, 8, "int8", 2e-2),
        (torch.bfloat16, 4, "float", 2e-2),
        (torch.float64, 3, "float", 1e-12),
    ],
)
def test_quantised_experts_are_those_that_their_codes_stand_for(dtype, bits, activations, tolerance, shared):
    count, hidden, width = 6, 72, 40
    one, two = layer(count, hidden, width)
    both, down = torch.randn(2 * shared, hidden) / 9, torch.randn(hidden, shared) / 9
    packed = moe.quantize(one, two, bits=bits, shared=(both, down) if shared else None)
    x, weights = torch.randn(9, hidden).to(dtype), torch.rand(9, 3)
    ids = torch.randint(-1, count + 1, (9, 3))
    ids[0] = 4  # one expert three times
    out = moe.quantized_experts(x, packed, weights, ids, activations=activations)
    codes = [torch.stack([lowbit.unpack(w) for w in weights]) for weights in (packed.ups, packed.downs)]
    expected = by_token(x, *codes, weights, ids)
    if packed.shared:
        expected += by_token(
            x,
            *(lowbit.unpack(w)[None] for w in packed.shared),
            torch.ones(9, 1),
            torch.zeros(9, 1, dtype=torch.int64),
        )
    assert out.dtype is dtype
    assert (out.double() - expected).norm() <= tolerance * expected.norm()


def test_quantised_experts_have_gradients_by_tokens_and_weights():
    packed = moe.quantize(*layer(3, 32, 32), shared=(torch.randn(64, 32), torch.randn(32, 32)))
    x, weights = torch.randn(5, 32, requires_grad=True), torch.rand(5, 2, requires_grad=True)
    ids = torch.tensor([[0, 1], [2, -1], [1, 1], [0, 2], [2, 0]])
    moe.quantized_experts(x, packed, weights, ids).square().sum().backward()
    ups, downs = (torch.stack([lowbit.unpack(w) for w in one]) for one in (packed.ups, packed.downs))
    own = moe.pack(ups, downs, shared=tuple(map(lowbit.unpack, packed.shared)))
    found = x.grad, weights.grad
    x.grad = weights.grad = None
    moe.experts(x, own, weights, ids).square().sum().backward()
    for ours, theirs in zip(found, (x.grad, weights.grad), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3 * float(theirs.abs().max()))


@pytest.mark.parametrize("spread", ["one expert", "none", "skewed", "an unknown expert"])
def test_uneven_experts(spread):
    one, two = layer(8, 48, 32)
    x = torch.randn(50, 48)
    weights = torch.rand(50, 2)
    ids = {
        "one expert": torch.full((50, 2), 5),
        "none": torch.full((50, 2), -1),
        "skewed": (torch.rand(50, 2) ** 4 * 8).long(),
        "an unknown expert": torch.randint(-1, 12, (50, 2)),
    }[spread]
    found = moe.experts(x, moe.pack(one, two), weights, ids)
    torch.testing.assert_close(found.double(), by_token(x, one, two, weights, ids), rtol=1e-5, atol=1e-5)
    assert spread != "none" or bool((found == 0).all())


@pytest.mark.parametrize("width", [24, 32, 70])
def test_shared_experts_are_added_for_every_token(width):
    one, two = layer(4, 40, 32)
    shared = torch.randn(2 * width, 40) * 0.2, torch.randn(40, width) * 0.2
    x = torch.randn(9, 40)
    weights, ids = moe.gate(torch.randn(9, 4), 2)
    ids[3], ids[4, 0] = -1, 4  # of no expert; the number of a shared expert is no routed one's
    gate, up = (x @ shared[0].T).chunk(2, 1)
    expected = by_token(x, one, two, weights, ids) + (F.silu(gate) * up @ shared[1].T).double()
    found = moe.experts(x, moe.pack(one, two, shared=shared), weights, ids)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_large_products_between_do_not_overflow():
    x = torch.full((2, 32), 60.0, dtype=torch.bfloat16)
    one, two = torch.full((1, 64, 32), 50.0).bfloat16(), torch.full((1, 32, 32), 1e-6).bfloat16()
    out = moe.experts(x, moe.pack(one, two), torch.ones(2, 1), torch.zeros(2, 1, dtype=torch.int64))
    torch.testing.assert_close(out.float(), torch.full((2, 32), 96000.0**2 * 32e-6), rtol=2e-2, atol=0)


def test_the_same_for_any_number_of_threads():
    one, two = layer(6, 64, 64)
    x = torch.randn(40, 64)
    weights, ids = moe.gate(torch.randn(40, 6), 3)
    packed, before, found = moe.pack(one, two), torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(moe.experts(x, packed, weights, ids))
    torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("renormalised", [False, True])
def test_gates_choose_the_best(sigmoid, biased, renormalised):
    logits, bias = torch.randn(50, 16), torch.randn(16) if biased else None
    scores = logits.sigmoid() if sigmoid else logits.softmax(1)
    choice = scores if bias is None else scores + bias
    ids = choice.topk(4).indices
    weights = scores.gather(1, ids)
    weights = (weights / weights.sum(1, keepdim=True) if renormalised else weights) * 1.5
    found = moe.gate(logits, 4, bias=bias, sigmoid=sigmoid, renormalised=renormalised, scale=1.5)
    assert torch.equal(found[1], ids)
    torch.testing.assert_close(found[0], weights)


def test_of_equal_scores_the_first_is_chosen_and_groups_limit():
    assert moe.gate(torch.zeros(1, 6), 3)[1].tolist() == [[0, 1, 2]]
    logits = torch.tensor([[5.0, 0.0, 4.0, 3.9, 0.0, 4.8]])  # three groups of two
    assert moe.gate(logits, 2, groups=3, kept=1)[1].tolist() == [[0, 1]]
    assert moe.gate(logits, 2, groups=3, kept=1, best_of_group=2, sigmoid=True)[1].tolist() == [[2, 3]]
    assert moe.gate(logits, 2, groups=3, kept=2)[1].tolist() == [[0, 5]]
    tiny = torch.tensor([[-1000.0, 0.0, -999.0, -1001.0]])  # softmax makes zero of three
    assert moe.gate(tiny, 3)[1].tolist() == [[1, 2, 0]]


def test_a_gate_with_nan_chooses_experts_that_exist():
    _, ids = moe.gate(torch.full((3, 8), float("nan")), 8)
    assert ids.sort(1).values.tolist() == [list(range(8))] * 3


def test_a_plan_sorts_stably_and_puts_no_groups_last():
    ids = torch.randint(-1, 7, (40, 3))
    order, offsets = moe.plan(ids, 5)
    sorted_ids = ids.reshape(-1)[order]
    for group in range(5):
        inside = order[offsets[group] : offsets[group + 1]]
        assert torch.equal(inside, torch.where(ids.reshape(-1) == group)[0])
    assert bool(((sorted_ids[offsets[5] :] < 0) | (sorted_ids[offsets[5] :] >= 5)).all())
    assert torch.equal(order.sort().values, torch.arange(120))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inner", "columns"), [(1, 1), (40, 70), (600, 32)])
def test_grouped_products_gather_scatter_and_weigh(dtype, inner, columns):
    w = (torch.randn(5, columns, inner) * inner**-0.5).to(dtype)
    x = torch.randn(20, inner).to(dtype)
    _, offsets = moe.plan(torch.randint(-1, 5, (60,)), 5)
    gather, scatter, weights = torch.randint(0, 20, (60,)), torch.randint(0, 30, (60,)), torch.rand(30)
    entries = int(offsets[-1])
    expected = torch.zeros(30, columns, dtype=torch.float64)
    for group in range(5):
        for i in range(int(offsets[group]), int(offsets[group + 1])):
            expected[scatter[i]] += weights[scatter[i]].double() * (w[group].double() @ x[gather[i]].double())
    panels = moe.pack_groups(w)
    (ran,) = ops.watch(lambda: moe.grouped_mm(x, panels, offsets, columns, gather=gather))
    assert ran.serves == "kernel"
    found = moe.grouped_mm(
        x, panels, offsets, columns, gather=gather, scatter=scatter, weights=weights, rows=30
    )
    tolerance = 1e-5 if dtype is torch.float32 else 1e-2
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    plain = moe.grouped_mm(x[gather], panels, offsets, columns)
    assert bool((plain[entries:] == 0).all())
    reference = moe.reference.grouped(x[gather], panels, offsets, rows=60, columns=columns)
    torch.testing.assert_close(plain, reference, rtol=tolerance, atol=tolerance)


def test_gradients_are_those_of_a_loop_over_experts():
    one, two = layer(4, 24, 16)
    packed = moe.pack(one, two)
    x, weights = torch.randn(6, 24, requires_grad=True), torch.rand(6, 2, requires_grad=True)
    ups = packed.ups.clone().requires_grad_()
    ids, given = torch.randint(0, 4, (6, 2)), torch.randn(6, 24)
    own = moe.Experts(ups, packed.downs, 4)
    found = torch.autograd.grad(moe.experts(x, own, weights, ids), (x, weights, ups), given)
    copies = [one.clone().requires_grad_(), x.detach().requires_grad_(), weights.detach().requires_grad_()]
    out = torch.zeros(6, 24)
    for token in range(6):
        for i in range(2):
            gate, up = (copies[0][ids[token, i]] @ copies[1][token]).chunk(2)
            row = copies[2][token, i] * (two[ids[token, i]] @ (F.silu(gate) * up))
            out = out.index_add(0, torch.tensor([token]), row[None])
    to_one, to_x, to_weights = torch.autograd.grad(out, copies, given)
    torch.testing.assert_close(found[0], to_x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1], to_weights, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[2], moe.pack(to_one, two).ups, rtol=1e-4, atol=1e-5)


def test_a_layer_and_its_gradients_go_through_compile_whole():
    one, two = layer(4, 32, 24)
    ids, slope = torch.randint(-1, 4, (17, 2)), torch.randn(17, 32)
    leaves = [torch.randn(17, 32), torch.rand(17, 2), moe.pack(one, two).ups, moe.pack(one, two).downs]
    for some in ([0, 1, 2, 3], [2]):
        for i, leaf in enumerate(leaves):
            leaf.requires_grad_(i in some)

        def run(x, weights, ups, downs):
            return moe.experts(x, moe.Experts(ups, downs, 4), weights, ids)

        wanted = [leaves[i] for i in some]
        right = torch.autograd.grad(run(*leaves), wanted, slope)
        made = torch.compile(run, fullgraph=True, backend="aot_eager")(*leaves)
        for mine, expected in zip(torch.autograd.grad(made, wanted, slope), right, strict=True):
            torch.testing.assert_close(mine, expected)


def test_the_load_report_counts():
    ids = torch.tensor([[0, 1], [0, 2], [0, -1], [9, 0]])
    found = moe.load(ids, 4)
    assert (found.tokens, found.idle, found.dropped) == ((4, 1, 1, 0), 1, 2)
    assert found.imbalance == pytest.approx(4 / 1.5)
    assert found.entropy == pytest.approx((4 / 6 * 0.5849625 + 2 / 6 * 2.5849625) / 2)
    assert moe.load(torch.arange(8), 8).entropy == pytest.approx(1.0)
    assert moe.load(torch.zeros(5, dtype=torch.int64), 8).imbalance == 8.0


X, PACKED = torch.randn(3, 32), moe.pack(torch.randn(4, 32, 32), torch.randn(4, 32, 16))
IDS, WEIGHTS = torch.zeros(3, 2, dtype=torch.int64), torch.ones(3, 2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: moe.gate(X, 33), "chosen is 33; expected 1 to 32"),
        (lambda: moe.gate(X, 5, groups=8, kept=1), "chosen is 5; expected 1 to 4, the experts of the groups"),
        (lambda: moe.gate(X, 2, groups=5), "groups is 5; expected a divisor of 32"),
        (lambda: moe.gate(X, 2, bias=torch.ones(3)), r"bias is of shape \(3,\)"),
        (lambda: moe.gate(X[0], 2), r"logits is of shape \(32,\); expected a matrix"),
        (lambda: moe.plan(WEIGHTS, 3), "expected a vector of torch.int64"),
        (
            lambda: moe.pack(torch.randn(4, 31, 8), torch.randn(4, 8, 15)),
            r"expected \(experts, 2 \* width, hidden\)",
        ),
        (lambda: moe.pack(torch.randn(4, 32, 8), torch.randn(4, 8, 15)), r"downs is of shape \(4, 8, 15\)"),
        (
            lambda: moe.experts(X, PACKED, WEIGHTS, IDS[:2]),
            r"ids is of shape \(2, 2\).*expected \(3, chosen\)",
        ),
        (lambda: moe.experts(X, PACKED, WEIGHTS.double(), IDS), "weights is of shape .*float64; expected"),
        (
            lambda: moe.experts(X.bfloat16(), PACKED, WEIGHTS, IDS),
            "ups is of torch.float32; expected torch.bfloat16",
        ),
        (lambda: moe.experts(X[:, :8], PACKED, WEIGHTS, IDS), "ups is of 32 inner elements; expected 8"),
        (
            lambda: moe.grouped_mm(X, moe.pack_groups(torch.randn(2, 8, 32)), torch.tensor([0, 1]), 8),
            "offsets is of shape",
        ),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert str(error.value).count("\n") == 0


ONE = moe.pack_groups(torch.randn(1, 8, 32))
VALUES = (
    ("gather is out of range somewhere; expected 0 to 2", {"offsets": [0, 2], "gather": [0, 3]}),
    (
        "scatter is out of range somewhere; expected 0 to 1",
        {"offsets": [0, 2], "scatter": [0, -1], "rows": 2},
    ),
    ("offsets is .*; expected", {"offsets": [0, 4]}),
    ("offsets is .*; expected", {"offsets": [1, 2]}),
    ("offsets is .*; expected", {"offsets": [-1, 2]}),
)


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize(("says", "wrong"), VALUES)
def test_what_is_wrong_in_tensors_is_named_by_kernel_and_reference(says, wrong, kernel, monkeypatch):
    (op,) = (op for op in ops.ops_of(moe) if op.name == "moe_grouped")
    given = {name: one if name == "rows" else torch.tensor(one) for name, one in wrong.items()}
    right = {name: one if name == "rows" else torch.tensor([0, 1]) for name, one in given.items()}
    moe.grouped_mm(X, ONE, columns=8, **(right | {"offsets": torch.tensor([0, 2])}))
    if not kernel:
        monkeypatch.setattr(op, "serves", lambda *_: "the reference is asked for")
        monkeypatch.setattr(op, "_served", None)
        monkeypatch.setattr(op, "_said", {"the reference is asked for"})
    with pytest.raises(ValueError, match=f"moe.grouped_mm: {says}"):
        moe.grouped_mm(X, ONE, columns=8, **given)
