"""Every gradient of the library, and those of gradients, against differences in float64, where references run.

The calls are the legal ones that wrong ones are made of. An op with a gradient that none of them reaches fails too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from tests.ops.wrong.legal import LEGAL

from kernelwright import ops
from kernelwright.ops import (
    activations,
    attention,
    blr,
    conv,
    embedding,
    gemm,
    graph,
    image,
    kmeans,
    logits,
    loss,
    lowbit,
    moe,
    neighbours,
    norms,
    rope,
    scan,
    sparse,
)

DIFFERENTIABLE = {
    activations.swiglu, activations.geglu, activations.silu, activations.gelu, attention.attention, attention.varlen,
    blr.monarch, blr.blast, conv.conv1d, conv.conv2d, embedding.embedding, embedding.embedding_bag, gemm.matmul,
    graph.edge_softmax, graph.rgcn, graph.rgat, graph.hgt, image.resize, logits.log_probs, logits.logsumexp,
    logits.top_k, loss.linear_cross_entropy, lowbit.linear, moe.gate, moe.experts, moe.quantized_experts,
    neighbours.nearest, norms.rms_norm, norms.add_rms_norm, norms.layer_norm, norms.group_norm_silu, rope.rope,
    scan.selective_scan, scan.ssd, scan.linear_attention, scan.gated_delta_rule, sparse.spmm, sparse.sddmm,
    sparse.multiplied,
}  # fmt: skip
"""Functions that promise a gradient."""
ONCE = {attention.attention, attention.varlen, loss.linear_cross_entropy, logits.log_probs, sparse.sddmm}
"""Those that promise no second derivatives, and one whose result is a matrix in CSR form, of which torch has none."""
WITHOUT = {"kmeans", "optim"}
"""Families that promise none."""
CONSTANT = {"cos", "sin", "alibi"}
"""What no gradient flows to, by promise."""
FEW = 60
"""Numbers that are moved one by one; of more, sums of all with random weights."""


def in_float64(x: Any) -> Any:
    """Return x with float32 numbers widened; those of packed codes are as they are."""
    if isinstance(x, moe.Experts):
        return replace(x, ups=x.ups.double(), downs=x.downs.double())
    wanted = isinstance(x, torch.Tensor) and x.dtype is torch.float32
    return x.detach().double() if wanted else x


def call_of(
    function: Callable[..., Any], arguments: dict[str, Any]
) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Return a function of all that has a gradient, and what to call it with."""
    wide = {name: in_float64(x) for name, x in arguments.items()}
    experts = {name: x for name, x in wide.items() if isinstance(x, moe.Experts)}
    flat = wide | {
        f"{name}.{part}": getattr(x, part) for name, x in experts.items() for part in ("ups", "downs")
    }
    names = [
        name for name, x in flat.items()
        if isinstance(x, torch.Tensor) and x.dtype is torch.float64 and x.layout is torch.strided
        and name not in CONSTANT
    ]  # fmt: skip

    def call(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = wide | dict(zip(names, leaves, strict=True))
        for name, x in experts.items():
            given[name] = replace(x, ups=given.pop(f"{name}.ups"), downs=given.pop(f"{name}.downs"))
        out = function(**given)
        found = out if isinstance(out, tuple) else (out,)
        return tuple(t.values() if t.layout is torch.sparse_csr else t for t in found)

    return call, [flat[name].clone().requires_grad_() for name in names]


def sampled(crow: torch.Tensor, col: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the entries that `sparse.sddmm` puts into a matrix."""
    found: torch.Tensor = torch.ops.kernelwright.sparse_sddmm(crow, col, a, b)
    return found


def product(a: Any, panels: Any, bias: Any, gate: Any, residual: Any, curve: int) -> torch.Tensor:
    """Return what `gemm.matmul` does of packed factors; `pack` takes no float64."""
    found: torch.Tensor = torch.ops.kernelwright.gemm_matmul(a, panels, bias, gate, residual, curve, 5)
    return found


def of_ops(family: str) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Return calls of ops that are checked without the function in front of them."""
    if family == "sparse":
        crow, col = torch.tensor([0, 2, 2, 3]), torch.tensor([1, 3, 0])
        return [(sampled, {"crow": crow, "col": col, "a": torch.randn(3, 2), "b": torch.randn(4, 2)})]
    shapes = {"a": (3, 4), "panels": (1, 4, 2, 16), "bias": (5,), "gate": (3, 5), "residual": (3, 5)}
    return [
        (product, {name: torch.randn(shape) for name, shape in shapes.items()} | {"curve": curve})
        for curve in (gemm.ACTIVATIONS.values() if family == "gemm" else ())
    ]


def calls_of(family: str) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Return a family's calls that promise a gradient; a padded row, by promise, has none."""
    unpadded = {"padding_idx": None} if family == "embedding" else {}
    calls = [
        (function, arguments | unpadded) for function, arguments in LEGAL[family]()
        if function in DIFFERENTIABLE and not isinstance(arguments.get("b"), gemm.Packed)
        and arguments.get("activations") != "int8"  # the gradient of float, by promise
    ]  # fmt: skip
    return calls + of_ops(family)


@pytest.fixture(autouse=True)
def _words_are_left(monkeypatch):
    """Leave to other tests what an op says once."""
    for op in (op for name in ops.families() for op in ops.ops_of(ops.family(name))):
        monkeypatch.setattr(op, "_said", set())


def test_every_promise_of_a_gradient_has_a_legal_call():
    assert {function for family in LEGAL for function, _ in calls_of(family)} >= DIFFERENTIABLE


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
@pytest.mark.parametrize("family", [name for name in ops.families() if name not in WITHOUT])
def test_gradients_are_those_of_differences(family, monkeypatch):
    torch.manual_seed(0)
    reached = set()
    for op in ops.ops_of(ops.family(family)):
        if op._differentiable:
            heard = partial(lambda op, check, *given: (reached.add(op.name), check(*given)), op, op.check)
            monkeypatch.setattr(op, "check", heard)
    for function, arguments in calls_of(family):
        call, leaves = call_of(function, arguments)
        fast = sum(x.numel() for x in leaves) > FEW
        assert torch.autograd.gradcheck(call, leaves, fast_mode=fast)
        if function not in ONCE:
            assert torch.autograd.gradgradcheck(call, leaves, fast_mode=fast)
    assert reached == {op.name for op in ops.ops_of(ops.family(family)) if op._differentiable}


def test_families_without_gradients_are_named():
    for name in WITHOUT:
        assert not any(op._differentiable for op in ops.ops_of(ops.family(name)))


KEPT = {logits.logsumexp, logits.top_k, neighbours.nearest}
"""Functions that keep a few of many results, and differentiate those."""


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_what_is_kept_are_the_same_by_kernel_and_reference(dtype):
    torch.manual_seed(1)
    for function, arguments in (
        c for family in ("logits", "neighbours") for c in LEGAL[family]() if c[0] in KEPT
    ):
        given = {name: x.to(dtype) if isinstance(x, torch.Tensor) else x for name, x in arguments.items()}
        found = []
        for wide in (dtype, torch.float64):
            leaves = {
                k: x.to(wide, copy=True).requires_grad_()
                for k, x in given.items()
                if isinstance(x, torch.Tensor)
            }
            out = function(**given | leaves)
            values = out[0] if isinstance(out, tuple) else out
            (values * torch.arange(1.0, values.numel() + 1).view_as(values)).sum().backward()
            found.append([x.grad.double() for x in leaves.values()])
        for one, other in zip(*found, strict=True):
            assert other.abs().max() > 0.01
            loose = 1e-4 if dtype is torch.float32 else 2e-2
            torch.testing.assert_close(one, other, rtol=loose, atol=loose * float(other.abs().max()))


def test_log_sum_exp_is_made_again_some_rows_at_a_time(monkeypatch):
    x, weight = torch.randn(7, 5, requires_grad=True), torch.randn(11, 5, requires_grad=True)
    whole = torch.autograd.grad(torch.logsumexp(x @ weight.T, 1).square().sum(), [x, weight])
    monkeypatch.setattr(logits.reference, "CHUNK", 22)
    parts = torch.autograd.grad(logits.logsumexp(x, weight).square().sum(), [x, weight])
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_op_without_a_gradient_has_none_where_its_reference_runs(dtype):
    x, centroids = torch.randn(6, 3, dtype=dtype, requires_grad=True), torch.randn(2, 3, dtype=dtype)
    _, distances = kmeans.assign(x, centroids)
    assert not distances.requires_grad


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
def test_gradients_of_gradients_of_an_edge_softmax_are_there_in_float32_too():
    first, scores = torch.tensor([0, 2, 2, 5]), torch.randn(5, 2)
    found = []
    for dtype in (torch.float32, torch.float64):
        leaf = scores.to(dtype, copy=True).requires_grad_()
        out = graph.edge_softmax(first, leaf).square().sum()
        (slope,) = torch.autograd.grad(out, leaf, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), leaf)[0].double())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_tokens_without_experts_have_gradients_of_zeros():
    x, weights = torch.randn(3, 32, requires_grad=True), torch.rand(3, 2, requires_grad=True)
    packed = moe.pack(torch.randn(4, 64, 32), torch.randn(4, 32, 32))
    moe.experts(x, packed, weights, torch.full((3, 2), -1)).sum().backward()
    assert not x.grad.any()
    assert not weights.grad.any()


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
def test_gradients_of_gradients_go_through_a_transposed_matrix():
    crow, col = torch.tensor([0, 2, 2, 3]), torch.tensor([1, 3, 0])
    values, x = torch.randn(3), torch.randn(4, 2)
    found = []
    for dtype in (torch.float32, torch.float64):
        leaves = [t.to(dtype, copy=True).requires_grad_() for t in (values, x)]
        out = sparse.multiplied(crow, col, *leaves)
        (first,) = torch.autograd.grad(out.square().sum(), leaves[1], create_graph=True)
        found.append([t.double() for t in torch.autograd.grad(first.square().sum(), leaves)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


HEADS = [(1, 2, 8, 32)] * 3


@pytest.mark.parametrize(("function", "shapes"), [
    (attention.attention, HEADS), (partial(attention.attention, sinks=torch.zeros(2)), HEADS),
    (partial(loss.linear_cross_entropy, target=torch.tensor([1, 2, 0]), reduction="none"), [(3, 16), (7, 16)]),
])  # fmt: skip
def test_a_second_derivative_that_there_is_none_of_is_told_not_left_out(function, shapes):
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    once = torch.autograd.grad(function(*leaves).square().sum(), leaves, create_graph=True)
    for first in once:
        mixed = first.sum() + sum(x.square().sum() for x in leaves)
        with pytest.raises(NotImplementedError, match="no second derivatives"):
            torch.autograd.grad(mixed, leaves[0], retain_graph=True)


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
def test_a_router_learns_from_the_weights_of_what_it_chose():
    for sigmoid, renormalised in ((False, True), (True, False)):
        found = []
        for dtype in (torch.float32, torch.float64):
            torch.manual_seed(1)
            logits, share = torch.randn(5, 8).to(dtype).requires_grad_(), torch.rand(5, 3).to(dtype)
            weights, _ = moe.gate(logits, 3, sigmoid=sigmoid, renormalised=renormalised, scale=2.0)
            (weights * share).sum().backward()
            found.append(logits.grad.double())
        assert found[1].abs().max() > 0.01
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
