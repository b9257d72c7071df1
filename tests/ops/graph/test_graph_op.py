"""Layers over typed edges beside their formulas, edge by edge: sums, softmax, gradients, errors."""

import pytest
import torch
from tests.ops.mutants import verdicts
from torch.nn import functional

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import graph
from kernelwright.ops.graph import reference

SIZES = [(1, 1, 1), (6, 30, 3), (50, 20, 4), (20, 300, 7), (5, 0, 2), (40, 200, 90)]
"""Nodes, edges, relations: more edges than nodes and fewer, relations without edges."""


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def typed(nodes, edges, relations):
    ends, kind = torch.randint(nodes, (2, edges)), torch.randint(relations, (edges,))
    return graph.RelationalGraph(ends, kind, nodes=nodes, relations=relations), ends, kind


def convolved(x, ends, kind, weight, aggregate):
    out = torch.zeros(len(x), weight.shape[2], dtype=torch.float64)
    for r in range(len(weight)):
        for i in range(len(x)):
            mine = ends[0][(kind == r) & (ends[1] == i)]
            if len(mine):
                sums = x[mine].double().sum(0) / (len(mine) if aggregate == "mean" else 1)
                out[i] += sums @ weight[r].double()
    return out


def attended(x, ends, kind, weight, query, key, slope):
    heads = query.shape[1]
    products = torch.einsum("ni,rio->rno", x, weight)
    out = torch.zeros(len(x), weight.shape[2], dtype=x.dtype)
    for i in range(len(x)):
        mine = (ends[1] == i).nonzero()[:, 0]
        if len(mine):
            source, r = ends[0][mine], kind[mine]
            scores = functional.leaky_relu(products[r, i] @ query + products[r, source] @ key, slope)
            parts = products[r, source].unflatten(1, (heads, -1)) * scores.softmax(0)[..., None]
            out[i] = parts.sum(0).flatten()
    return out


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("widths", [(5, 3), (16, 64), (64, 8)], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_convolution_is_its_formula_in_either_order(size, widths, aggregate, monkeypatch):
    typed_graph, ends, kind = typed(*size)
    x, weight = torch.randn(size[0], widths[0]), torch.randn(size[2], *widths)
    root, bias = torch.randn(*widths), torch.randn(widths[1])
    right = convolved(x, ends, kind, weight, aggregate) + x.double() @ root.double() + bias
    for first in (True, False):
        monkeypatch.setattr(graph, "_sums_first", lambda *_, first=first: first)
        mine = graph.rgcn(x, typed_graph, weight, root=root, bias=bias, aggregate=aggregate)
        torch.testing.assert_close(mine.double(), right, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_attention_is_its_formula(size, heads):
    typed_graph, ends, kind = typed(*size)
    x, weight = torch.randn(size[0], 6), torch.randn(size[2], 6, 4 * heads)
    query, key = torch.randn(2, 4 * heads, heads).unbind(0)
    right = attended(
        *(t.double() if t.is_floating_point() else t for t in (x, ends, kind, weight, query, key)), 0.2
    )
    mine = graph.rgat(x, typed_graph, weight, query, key)
    torch.testing.assert_close(mine.double(), right, rtol=1e-5, atol=1e-5)


def transformed(query, key, value, ends, kind, key_weight, value_weight, prior):
    nodes, heads, width = query.shape
    out = torch.zeros(nodes, heads, width, dtype=query.dtype)
    for i in range(nodes):
        mine = (ends[1] == i).nonzero()[:, 0]
        if len(mine):
            source, r = ends[0][mine], kind[mine]
            keys = torch.einsum("ehd,ehdf->ehf", key[source], key_weight[r])
            scores = (query[i] * keys).sum(2) * prior[r] / width**0.5
            messages = torch.einsum("ehd,ehdf->ehf", value[source], value_weight[r])
            out[i] = (scores.softmax(0)[..., None] * messages).sum(0)
    return out.flatten(1)


def drawn(nodes, relations, heads, width):
    three = torch.randn(3, nodes, heads, width).unbind(0)
    return *three, *torch.randn(2, relations, heads, width, width).unbind(0), torch.randn(relations, heads)


@pytest.mark.parametrize(("heads", "width"), [(1, 5), (2, 16), (4, 3)])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_transformer_is_its_formula(size, heads, width):
    typed_graph, ends, kind = typed(*size)
    query, key, value, *weights = drawn(size[0], size[2], heads, width)
    mine = graph.hgt(query, key, value, typed_graph, *weights)
    wide = [t.double() for t in (query, key, value)]
    right = transformed(*wide, ends, kind, *(w.double() for w in weights))
    torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-4)
    ran = ops.watch(lambda: graph.hgt(query, key, value, typed_graph, *weights))
    assert {one.op for one in ran} == {"sparse_sddmm", "graph_edge_softmax", "sparse_spmm"}
    assert {one.serves for one in ran} == {"kernel"}


def test_gradients_of_a_transformer_are_those_of_the_formula():
    typed_graph, ends, kind = typed(8, 30, 3)
    leaves = [t.requires_grad_() for t in drawn(8, 3, 2, 4)]
    query, key, value, *weights = leaves
    mine = torch.autograd.grad(graph.hgt(query, key, value, typed_graph, *weights).square().sum(), leaves)
    right = torch.autograd.grad(transformed(*leaves[:3], ends, kind, *weights).square().sum(), leaves)
    for one, other in zip(mine, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("at", "wrong", "says"),
    [
        (0, torch.ones(3, 2, 4), r"query is of shape \(3, 2, 4\).*expected \(2, heads, width\)"),
        (1, torch.ones(2, 2, 3), r"key is of shape \(2, 2, 3\)"),
        (2, torch.ones(2, 2, 4).double(), "value is .*float64; expected .*float32"),
        (3, [], "graph is a list"),
        (4, torch.ones(2, 2, 4), "key_weight is of shape"),
        (6, torch.ones(2), r"prior is of shape \(2,\).*expected \(2, 2\)"),
    ],
)
def test_a_wrong_argument_of_a_transformer_is_named(at, wrong, says):
    typed_graph, _, _ = typed(2, 4, 2)
    query, key, value, *weights = drawn(2, 2, 2, 4)
    arguments = [query, key, value, typed_graph, *weights]
    arguments[at] = wrong
    with pytest.raises(InputError, match=says):
        graph.hgt(*arguments)


def test_the_cheaper_order_is_taken():
    many, _, _ = typed(10, 2000, 2)
    wide, narrow = torch.randn(2, 64, 4), torch.randn(2, 4, 64)
    assert graph._sums_first(many, narrow)
    assert not graph._sums_first(many, wide)


def test_a_softmax_over_edges_takes_infinities_and_nan_as_torch_does():
    first = torch.tensor([0, 2, 2, 5, 9])
    scores = torch.randn(9, 3) * 50
    scores[1, 0], scores[3, 1], scores[6, 2], scores[8, 0] = -torch.inf, torch.nan, torch.inf, 200.0
    (ran,) = ops.watch(lambda: graph.edge_softmax(first, scores))
    assert ran.serves == "kernel"
    spans = [(0, 2), (2, 5), (5, 9)]
    right = torch.cat([scores[a:b].softmax(0) for a, b in spans])
    torch.testing.assert_close(graph.edge_softmax(first, scores), right, equal_nan=True)
    torch.testing.assert_close(reference.edge_softmax(first, scores), right, equal_nan=True)


def test_sums_of_long_rows_in_gradients_are_wider_than_float32():
    crow = torch.tensor([0, 7000, 20000])
    weights, grad = torch.rand(20000, 1), torch.randn(20000, 1) + 1
    truth = reference.edge_softmax_gradient(crow, weights.double(), grad.double())

    def error(found):
        return (found.double() - truth).norm()

    plain = reference.edge_softmax_gradient(crow, weights, grad)
    assert 3 * error(torch.ops.kernelwright.graph_edge_softmax_gradient(crow, weights, grad)) < error(plain)


def test_gradients_are_those_of_the_formula():
    typed_graph, ends, kind = typed(7, 25, 3)
    x, weight = torch.randn(7, 5, requires_grad=True), torch.randn(3, 5, 8, requires_grad=True)
    query, key = torch.randn(8, 2, requires_grad=True), torch.randn(8, 2, requires_grad=True)
    leaves = (x, weight, query, key)
    mine = torch.autograd.grad(graph.rgat(x, typed_graph, weight, query, key).square().sum(), leaves)
    right = torch.autograd.grad(attended(x, ends, kind, weight, query, key, 0.2).square().sum(), leaves)
    for one, other in zip(mine, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    scores = torch.randn(25, 2, dtype=torch.float64, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="runs its reference"):
        assert torch.autograd.gradcheck(lambda s: graph.edge_softmax(typed_graph.first, s), scores)


@pytest.mark.parametrize("first", [True, False])
def test_gradients_of_a_convolution_in_either_order(first, monkeypatch):
    typed_graph, ends, kind = typed(9, 40, 3)
    monkeypatch.setattr(graph, "_sums_first", lambda *_: first)
    x, weight = torch.randn(9, 4, requires_grad=True), torch.randn(3, 4, 6, requires_grad=True)
    mine = torch.autograd.grad(graph.rgcn(x, typed_graph, weight).square().sum(), (x, weight))
    right = torch.autograd.grad(convolved(x, ends, kind, weight, "mean").square().sum(), (x, weight))
    for one, other in zip(mine, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


ENDS, KIND = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 1])


def made(ends, kind, *, relations=2):
    return graph.RelationalGraph(ends, kind, nodes=2, relations=relations)


GRAPH = made(ENDS, KIND)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: graph.RelationalGraph(ENDS.float(), KIND, nodes=2, relations=2),
            r"edge_index is of shape .*float32; exp",
        ),
        (
            lambda: graph.RelationalGraph(ENDS[:1], KIND, nodes=2, relations=2),
            r"edge_index is of shape \(1, 2\); expected",
        ),
        (lambda: graph.RelationalGraph(ENDS, [0, 1], nodes=2, relations=2), "edge_type is a list; expected"),
        (lambda: graph.RelationalGraph(ENDS, KIND, nodes=2, relations=0), "relations is 2, 0; expected"),
        (lambda: graph.rgcn(torch.ones(3, 4), GRAPH, torch.ones(2, 4, 5)), "x is of 3 rows; expected 2"),
        (
            lambda: graph.rgcn(torch.ones(2, 4), GRAPH, torch.ones(3, 4, 5)),
            r"weight is of shape \(3, 4, 5\).*expected \(2, 4",
        ),
        (
            lambda: graph.rgcn(torch.ones(2, 4), ENDS, torch.ones(2, 4, 5)),
            r"graph is of shape \(2, 2\), torch.int64; expected a RelationalGraph",
        ),
        (
            lambda: graph.rgat(
                torch.ones(2, 4), GRAPH, torch.ones(2, 4, 5), torch.ones(5, 2), torch.ones(5, 2)
            ),
            r"query is of shape \(5, 2\); expected \(5, heads\)",
        ),
        (
            lambda: graph.edge_softmax(torch.tensor([0.0]), torch.ones(1, 1)),
            "first is of .*float32; expected",
        ),
        (
            lambda: graph.edge_softmax(torch.tensor([0, 1]), torch.ones(1)),
            r"scores is of shape \(1,\); expected a matrix",
        ),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("first", [[0, 2, 1], [0, 1, 4], [-1, 1, 2]])
def test_rows_that_do_not_ascend_are_an_error_everywhere(first):
    for call in (graph.edge_softmax, reference.edge_softmax):
        with pytest.raises(
            ValueError, match="first is no row of offsets; expected them to ascend from 0 to 3"
        ):
            call(torch.tensor(first), torch.ones(3, 2))
    with pytest.raises(ValueError, match="edge_index is 0 to 5; expected 0 to 1"):
        graph.RelationalGraph(torch.tensor([[0], [5]]), torch.tensor([0]), nodes=2, relations=1)


MUTANTS = {
    "sums of the first head": ("sums[h] += out[e * heads + h]", "sums[h] += out[e * heads]"),
    "a sum that is a little too large": ("sums[h] = 1 / sums[h]", "sums[h] = 1 / (sums[h] + 1e-3f)"),
}


@pytest.mark.long
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(tmp_path):
    found = verdicts("graph", "graph_edge_softmax", MUTANTS, tmp_path)
    assert found == {"": "accepted", **dict.fromkeys(MUTANTS, "rejected")}


def test_the_gradient_of_a_softmax_over_edges_is_a_weight_times_a_difference_also_of_infinities():
    (op,) = (op for op in ops.ops_of(graph) if op.name == "graph_edge_softmax_gradient")
    crow, weights, grad = torch.tensor([0, 3, 5]), torch.rand(5, 2), torch.randn(5, 2)
    weights[0, 0], grad[4, 1] = torch.inf, torch.inf
    mine, exact = op(crow, weights, grad), reference.edge_softmax_gradient(crow, weights, grad)
    torch.testing.assert_close(mine, exact, equal_nan=True)
    assert bool(mine[0, 0].isinf())
