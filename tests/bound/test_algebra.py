"""What is attainable is not above what the engine's rewritings leave to do, and not far below what they cannot save."""

import pytest
import torch
import torch.nn.functional as F
from tests.compiler.test_actions import BY_NAME
from tests.compiler.test_rewrites import CASES
from torch import nn

from kernelwright.bound import products_by_definition, savings, work
from kernelwright.bound._algebra import Algebra
from kernelwright.bound._functions import functions
from kernelwright.bound._masks import Masks
from kernelwright.bound._products import products
from kernelwright.compiler.actions import State, taken
from kernelwright.compiler.graph import Contract, Point, Reduce, from_captured
from kernelwright.records import Distribution, TensorSpec, Workload
from kernelwright.tasks.capture import record_function

REWRITINGS = ("drop", "hoist", "reassociate", "commute", "diagonal")


def recorded(function, *shapes):
    given = Workload(
        name="w",
        arguments=tuple(TensorSpec(name=f"x{i}", shape=s, dtype="float32") for i, s in enumerate(shapes)),
    )
    return record_function(function, given, [torch.ones(s) for s in shapes]), given


def counted(graph, error_factor=1.0):
    """Return multiplications of products, and elements of functions, that what is attainable counts."""
    algebra = Algebra(graph)
    masks = Masks(graph, algebra)
    found = functions(graph, algebra, masks)
    return sum(products(graph, algebra, masks, error_factor).values()) / 2, sum(found.values())


def left(graph, given):
    """Return the fewest multiplications, and elementwise operations with them, of all that rewritings lead to."""
    graph = from_captured(graph, given)
    waiting, seen = [State(graph, graph)], {}
    while waiting and len(seen) < 60:
        state = waiting.pop()
        text = str(state.graph)
        if text not in seen:
            seen[text] = state.graph
            waiting += [
                taken(state, BY_NAME[n], site) for n in REWRITINGS for site in BY_NAME[n].sites(state)
            ]
    return min(map(multiplications, seen.values())), min(map(operations, seen.values()))


def multiplications(graph):
    total = 0
    for node in graph.nodes:
        if isinstance(node, Contract):
            one, two, _ = node.labels
            sizes = dict(zip(one, node.left.shape, strict=True)) | dict(
                zip(two, node.right.shape, strict=True)
            )
            total += torch.Size(sizes.values()).numel()
    return total


def operations(graph):
    points = sum(n.elements for n in graph.nodes if isinstance(n, Point) and n.dtype == "float32")
    return points + sum(n.source.elements for n in graph.nodes if isinstance(n, Reduce))


@pytest.mark.parametrize("case", CASES)
def test_no_rewriting_of_the_engine_does_less_than_what_is_attainable(case):
    _, function, shapes = CASES[case]
    graph, given = recorded(function, *shapes)
    best, simple = left(graph, given)
    counts = counted(graph)
    assert counts[0] <= best and counts[1] <= simple
    floor = work(graph, given)
    assert sum(flop for unit, flop in floor.items() if unit.startswith("tensor-")) <= 2 * best


def attended(mask):
    def function(q, k, v):
        scores = (q @ k.transpose(-1, -2)) * 0.25
        return torch.softmax(mask(scores), -1) @ v

    return function


def causal(scores):
    return scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)


def window(scores):
    i = torch.arange(scores.shape[-1])
    apart = i[:, None] - i[None, :]
    return scores + torch.where((apart >= 0) & (apart < 4), 0.0, -torch.inf)


HEADS = [(2, 3, 16, 5)] * 3
PAIR = 2 * 3 * 16 * 16


@pytest.mark.parametrize(
    ("mask", "share"),
    [(lambda s: s, 1.0), (causal, 136 / 256), (window, 58 / 256)],
    ids=["none", "causal", "window"],
)
def test_of_attention_what_its_mask_hides_is_left_out(mask, share):
    graph, _ = recorded(attended(mask), *HEADS)
    algebra = Algebra(graph)
    assert counted(graph)[0] == pytest.approx(2 * 5 * PAIR * share)
    assert functions(graph, algebra, Masks(graph, algebra))["exp"] == pytest.approx(PAIR * share)


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (lambda x, w, v: torch.relu(x @ w) @ v, [(8, 4), (4, 6), (6, 3)], 8 * 4 * 6 + 8 * 6 * 3),
        (lambda x, w, b: torch.addmm(x @ w, x, b), [(8, 4), (4, 6), (4, 6)], 2 * 8 * 4 * 6),
        (lambda x, w: [y := x @ w, (y.sum(0), y.exp())][1], [(7, 9), (9, 8)], 7 * 9 * 8),
        (lambda x, w, u, v: ((x @ w) @ u, (x @ w) @ v), [(8, 4), (4, 4), (4, 4), (4, 4)], 3 * 8 * 4 * 4),
        (lambda x, w: (x @ w).view(2, 4, 6).transpose(0, 1) @ torch.ones(4, 6, 5).exp(), [(8, 4), (4, 6)], 192 + 240),
        (lambda x, w: F.conv2d(x, w, padding=1).relu().mean((2, 3)), [(2, 3, 8, 8), (4, 3, 3, 3)], 2 * 64 * 4 * 27),
        (lambda x, y: (x[:, None] - y[None]).abs().sum(-1), [(6, 5), (7, 5)], 0),
    ],
    ids=["activated", "bias", "read twice", "shared", "heads", "convolution", "distances"],
)  # fmt: skip
def test_what_no_rewriting_saves_is_counted(function, shapes, expected):
    graph, _ = recorded(function, *shapes)
    assert counted(graph)[0] == expected
    if not expected:
        assert counted(graph)[1] == 3 * 6 * 7 * 5


def test_triangles_of_inputs_leave_a_share_of_a_product():
    graph, given = recorded(torch.mm, (12, 12), (12, 12))
    lower = tuple(
        a.model_copy(update={"distribution": Distribution(kind="triangular")}) for a in given.arguments
    )
    given = given.model_copy(update={"arguments": lower})
    algebra = Algebra(graph)
    assert products(graph, algebra, Masks(graph, algebra, given)) == {"tensor-float32": 2 * 12**3 / 6}
    assert work(graph, given) == {"tensor-float32": 2 * 12**3 / 6}


class Merged(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 64), nn.Linear(64, 8)

    def forward(self, x):
        return self.two(self.one(x) * torch.exp(self.one.bias).sum())


def test_parameters_are_multiplied_ahead():
    layers = Merged()
    state = tuple(
        TensorSpec(name=n, shape=tuple(p.shape), dtype="float32") for n, p in layers.named_parameters()
    )
    given = Workload(
        name="w", arguments=(TensorSpec(name="x", shape=(100, 16), dtype="float32"),), state=state
    )
    graph = record_function(layers, given, [torch.ones(100, 16)])
    algebra = Algebra(graph)
    assert products(graph, algebra, Masks(graph, algebra)) == {"tensor-float32": 2 * 100 * (16 * 64 + 64 * 8)}
    assert "exp" not in functions(graph, algebra, Masks(graph, algebra))
    bare = nn.Sequential(nn.Linear(16, 64, bias=False), nn.Linear(64, 8, bias=False))
    state = tuple(
        TensorSpec(name=n, shape=tuple(p.shape), dtype="float32") for n, p in bare.named_parameters()
    )
    graph = record_function(bare, given.model_copy(update={"state": state}), [torch.ones(100, 16)])
    assert counted(graph)[0] == 100 * 16 * 8


@pytest.mark.parametrize(
    ("function", "shapes", "least", "saved"),
    [
        (lambda x, w: F.conv2d(x, w, padding=1), [(1, 64, 32, 32), (64, 64, 3, 3)], 4.0, 36 / 16),
        (lambda x, w: F.conv2d(x, w, padding=1), [(1, 64, 32, 32), (64, 64, 3, 3)], 16.0, 144 / 36),
        (lambda x, w: F.conv3d(x, w), [(1, 32, 3, 18, 18), (32, 32, 3, 3, 3)], 4.0, 36 / 16),
        (lambda x, w: F.conv1d(x, w, padding=4), [(2, 64, 60), (64, 64, 9)], 4.0, 9 / 5),
        (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), [(2, 5, 7, 9), (5, 16, 4, 4)], 4.0, 36 / 16),
        (lambda x, w: F.conv_transpose1d(x, w, None, 2), [(2, 5, 17), (5, 3, 4)], 4.0, 6 / 4),
        (lambda x, w: F.conv2d(x, w, stride=2), [(1, 8, 16, 16), (8, 8, 3, 3)], 16.0, 1.0),
        (lambda x, w: F.conv2d(x, w, groups=8, padding=1), [(1, 8, 16, 16), (8, 1, 3, 3)], 4.0, 1.0),
        (lambda x, w: F.conv2d(x, w, dilation=2), [(1, 8, 16, 16), (8, 8, 3, 3)], 16.0, 1.0),
    ],
    ids=["squares", "large squares", "slices", "row", "phases", "phases of rows", "strided", "depthwise", "dilated"],
)  # fmt: skip
def test_convolutions_are_counted_by_the_tiles_that_the_contract_allows(function, shapes, least, saved):
    graph, _ = recorded(function, *shapes)
    plain, fast = counted(graph, least - 0.1)[0], counted(graph, least)[0]
    written = counted(graph)[0]
    assert written / saved <= fast <= 1.25 * written / saved
    assert plain > fast or saved == 1.0


def test_products_as_they_stand_are_counted_whatever_a_kernel_may_save():
    graph, given = recorded(lambda x, w: F.conv2d(x, w), (2, 3, 10, 10), (4, 3, 3, 3))
    assert products_by_definition(graph) == 2 * 4 * 8 * 8 * 3 * 3 * 3
    assert work(graph, given)["tensor-float32"] / 2 == products_by_definition(graph) / 4
    graph, given = recorded(lambda a, b: (a @ b).sum(), (8, 16), (16, 4))
    assert products_by_definition(graph) == 8 * 16 * 4
    assert "tensor-float32" not in work(graph, given)


@pytest.mark.parametrize(
    ("function", "shapes", "share", "rule"),
    [
        (lambda x, w: F.conv2d(x, w), [(2, 3, 10, 10), (4, 3, 3, 3)], 1 / 4, "a convolution by transforms"),
        (lambda a, b: (a @ b).sum(), [(8, 16), (16, 4)], 0.0, "only sums of its results are used"),
        (lambda a, b: (a @ b).tril(), [(8, 16), (16, 8)], 1 / 2, "half of its results are dropped"),
        (lambda a, b: a.tril() @ b, [(8, 8), (8, 4)], 0.0, "zeros may have been put into a factor"),
        (lambda a, b: torch.where(a > 0, a @ b, 0.0), [(8, 8), (8, 8)], 0.0, "a mask may hide its results"),
        (lambda a, b: (a @ b)[:2], [(8, 16), (16, 4)], 1 / 4, "some of its results are not read"),
    ],
    ids=["transforms", "sum", "half", "zeros", "mask", "part"],
)
def test_what_the_bound_saves_of_a_product_has_its_rule(function, shapes, share, rule):
    graph, given = recorded(function, *shapes)
    (saved,) = savings(graph, given)
    assert saved.by_definition == products_by_definition(graph)
    assert (saved.counted, rule in saved.rule) == (share * saved.by_definition, True)
    assert work(graph, given).get("tensor-float32", 0.0) == 2 * saved.counted


@pytest.mark.parametrize("activation", [F.softplus, F.mish, lambda x: F.softplus((x + 1).view(-1))])
def test_a_product_that_decides_about_itself_is_needed_whole(activation):
    graph, given = recorded(lambda a, b: activation(a @ b), (8, 16), (16, 4))
    assert savings(graph, given) == ()
    assert work(graph, given)["tensor-float32"] == 2 * 8 * 16 * 4
    sums = lambda a, b: torch.where((a @ b).sum(0) > 0, (b.T @ a.T).T, 0.0)  # noqa: E731  a case like the others
    assert "a mask may hide its results" in {one.rule for one in savings(*recorded(sums, (8, 16), (16, 4)))}
