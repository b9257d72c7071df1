"""Calls alike of public functions go straight to their kernel; calls that are not alike never do."""

import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tests.ops.wrong.fuzz import alike
from tests.ops.wrong.legal import LEGAL
from tests.tools import require
from torch.autograd import forward_ad

from kernelwright import ops
from kernelwright.ops._core import remembered, unremembered
from kernelwright.ops._core.explain import watched
from kernelwright.ops.attention import attention, masks

STRAIGHT = {
    "activations": {"swiglu", "geglu", "silu", "gelu"}, "attention": {"attention", "decode"},
    "conv": {"conv1d", "conv2d"},
    "embedding": {"embedding", "embedding_bag"}, "graph": {"edge_softmax"}, "image": {"resize"},
    "kmeans": {"assign", "step"}, "logits": {"argmax", "logsumexp", "top_k"}, "moe": {"gate", "plan", "grouped_mm"},
    "neighbours": {"nearest"},
    "norms": {"rms_norm", "add_rms_norm", "layer_norm", "group_norm_silu"}, "optim": {"adamw", "lion", "adafactor"},
    "rope": {"rope"}, "scan": {"selective_scan", "linear_attention", "gated_delta_rule"},
    "sparse": {"multiplied"}, "lowbit": {"linear"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _calls_that_may_be_remembered(monkeypatch):
    require("C++ compiler")
    monkeypatch.setenv(
        "KERNELWRIGHT_TUNING", "table"
    )  # a slow first call is not remembered where it may be tried


def straight(function, *args, **kwargs):
    """Make a call; return what it gave, and whether no op's Python ran."""
    with watched() as ran:
        found = function(*args, **kwargs)
    return found, not ran


@pytest.mark.parametrize("family", STRAIGHT)
def test_calls_alike_with_other_values_go_straight_and_give_what_a_checked_call_gives(family):
    gone = set()
    for number, (function, first) in enumerate(LEGAL[family]()):
        with torch.no_grad():
            function(**first)
            _, other = LEGAL[family]()[number]
            found, went = straight(function, **other)
            with unremembered():
                checked = function(**other)
        gone |= {function.__name__} if went else set()
        if function.__name__ in STRAIGHT[family]:
            assert alike(found, checked), function
    assert gone >= STRAIGHT[family]


def convolved(x, w, **settings):
    padding, stride = settings.get("padding", 0), settings.get("stride", 1)
    words = {"relu": torch.relu, "silu": F.silu, None: lambda y: y}
    return words[settings.get("activation")](F.conv2d(x, w, stride=stride, padding=padding))


OTHERS = {
    "a tuple for a list": {"padding": (1, 0), "activation": "relu"},
    "another list": {"padding": [0, 1], "activation": "relu"},
    "a number for a list": {"padding": 1, "activation": "relu"},
    "another word": {"padding": [1, 0], "activation": "silu"},
    "no word": {"padding": [1, 0], "activation": None},
    "another name": {"stride": [1, 1], "activation": "relu"},
    "more names": {"padding": [1, 0], "activation": "relu", "stride": 2},
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_call_is_checked_and_answered_as_it_should_be(name):
    x, w = torch.randn(1, 2, 5, 6), torch.randn(3, 2, 3, 3)
    ops.conv.conv2d(x, w, padding=[1, 0], activation="relu")
    found = ops.conv.conv2d(x, w, **OTHERS[name])
    assert torch.allclose(found, convolved(x, w, **OTHERS[name]), atol=1e-5)


def test_names_in_another_order_are_another_call():
    x, w = torch.randn(1, 2, 4, 7), torch.randn(3, 2, 3, 3)
    for settings in ({"padding": [1, 0], "activation": "relu"}, {"activation": "relu", "padding": [1, 0]}):
        assert [straight(ops.conv.conv2d, x, w, **settings)[1] for _ in range(2)] == [False, True]


def test_a_list_that_changes_after_a_call_is_another():
    x, w, padding = torch.randn(1, 2, 5, 6), torch.randn(3, 2, 3, 3), [1, 0]
    ops.conv.conv2d(x, w, padding=padding)
    padding[1] = 1
    assert ops.conv.conv2d(x, w, padding=padding).shape == (1, 3, 5, 6)


def test_results_are_new_each_time_and_views_of_arguments_are_found_in_each():
    x, w = torch.randn(2, 4, 9), torch.randn(4, 1, 3)
    calls = [straight(ops.conv.conv1d, x + i, w, groups=4, padding="causal") for i in range(3)]
    assert [went for _, went in calls][1:] == [True, True]
    assert len({found.data_ptr() for found, _ in calls}) == 3
    part = torch.randn(3, 4, 9)[1:]  # begins elsewhere in its memory
    found, went = straight(ops.conv.conv1d, part, w, groups=4, padding="causal")
    assert went and torch.allclose(found, F.conv1d(F.pad(part, (2, 0)), w, groups=4), atol=1e-5)


def test_the_same_tensor_twice_is_not_alike_to_two():
    q, k, v = (torch.randn(1, 2, 3, 4) for _ in range(3))
    attention(q, q, q)
    for given in ((q, k, v), (k, k, v), (v, q, q), (q, q, q)):
        expected = F.scaled_dot_product_attention(*given)
        assert all(torch.allclose(attention(*given), expected, atol=1e-5) for _ in range(2))


def test_tensors_that_share_memory_are_not_remembered():
    both = torch.randn(1, 4, 3, 4)
    for _ in range(2):
        out, went = straight(attention, both[:, :2], both[:, 2:], both[:, 2:].clone())
        assert not went
    assert out.shape == (1, 2, 3, 4)


def test_masks_of_numbers_are_alike_by_value_and_others_never():
    q, k, v = (torch.randn(1, 2, 3, 4) for _ in range(3))
    attention(q, k, v, masks.SlidingWindow(1))
    assert straight(attention, q, k, v, masks.SlidingWindow(1))[1]
    assert not straight(attention, q, k, v, masks.SlidingWindow(2))[1]
    seen = torch.ones(3, 3) > 0
    whole = attention(q, k, v, seen)
    seen[:, 1] = False
    assert not torch.allclose(attention(q, k, v, seen), whole)


def test_gradients_transforms_and_modes_are_not_alike():
    x = torch.randn(5, 8)
    ops.norms.rms_norm(x)
    asked = x.clone().requires_grad_()
    assert ops.norms.rms_norm(asked).requires_grad
    with torch.no_grad():
        assert not ops.norms.rms_norm(asked).requires_grad
    with torch.inference_mode():
        assert ops.norms.rms_norm(x).is_inference()
    assert torch.allclose(
        torch.vmap(lambda row: ops.norms.rms_norm(row[None]))(x)[:, 0], ops.norms.rms_norm(x)
    )
    with torch._subclasses.FakeTensorMode() as mode:
        assert isinstance(ops.norms.rms_norm(mode.from_tensor(x)), torch._subclasses.FakeTensor)


def test_forward_derivatives_are_not_dropped():
    x = torch.randn(5, 8)
    ops.norms.rms_norm(x)
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore")  # torch's, of its own
        ours, native = (
            forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.flip(0)))).tangent
            for f in (lambda x: ops.norms.rms_norm(x, eps=1e-6), lambda x: F.rms_norm(x, (8,), eps=1e-6))
        )
    assert torch.allclose(ours, native, atol=1e-5)


def test_packed_weights_are_alike_if_all_that_they_hold_is():
    x, weights = torch.randn(3, 64), [torch.randn(5, 64) for _ in range(2)]
    same, other = (ops.lowbit.pack(one) for one in weights)
    ops.lowbit.linear(x, same)
    found, went = straight(ops.lowbit.linear, x, other)
    assert went and torch.allclose(found, x @ ops.lowbit.unpack(other).T, atol=1e-3)
    found, went = straight(ops.lowbit.linear, x, ops.lowbit.pack(weights[0], symmetric=False))
    assert not went and (found - x @ weights[0].T).abs().max() < 4
    wide = ops.lowbit.pack(weights[0], 8)
    found, went = straight(ops.lowbit.linear, x, wide)
    assert not went and torch.allclose(found, x @ ops.lowbit.unpack(wide).T, atol=1e-3)
    moved = replace(same, order=torch.arange(64).flip(0))
    assert torch.allclose(ops.lowbit.linear(x, moved), x.flip(1) @ ops.lowbit.unpack(same).T, atol=1e-3)


def test_sparse_matrices_are_alike_if_their_parts_are():
    a = torch.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse_csr()
    b, x = torch.tensor([[3.0, 0.0], [0.0, 4.0]]).to_sparse_csr(), torch.randn(2, 3)
    ops.sparse.spmm(a, x)
    found, went = straight(ops.sparse.spmm, b, x)
    assert went and torch.allclose(found, b.to_dense() @ x)
    fewer = torch.tensor([[3.0, 0.0], [0.0, 0.0]]).to_sparse_csr()
    found, went = straight(ops.sparse.spmm, fewer, x)
    assert not went and torch.allclose(found, fewer.to_dense() @ x)


def test_a_wrong_call_that_looks_like_a_served_one_is_refused_each_time():
    weight = torch.randn(5, 3)
    ops.embedding.embedding(torch.tensor([0, 4]), weight)
    for _ in range(2):
        with pytest.raises(IndexError, match="ids is out of range"):
            ops.embedding.embedding(torch.tensor([0, 5]), weight)


def test_what_is_not_of_the_arguments_alone_is_not_remembered():
    x = torch.randn(6)
    made = {
        "computed before": remembered(lambda x: ops.activations._one(x * 2, 0)),
        "computed after": remembered(lambda x: ops.activations._one(x, 0) * 2),
        "written after": remembered(lambda x: ops.activations._one(x, 0).mul_(2)),
        "two runs": remembered(lambda x: (ops.activations._one(x, 0), ops.activations._one(x, 0))[0]),
        "a part of it": remembered(lambda x: ops.activations._one(x, 0)[:3]),
    }
    for name, function in made.items():
        expected = [function(x), function(x + 1)]
        with unremembered():
            assert all(torch.equal(function(x + i), one) for i, one in enumerate(expected)), name
        assert not straight(function, x)[1], name
