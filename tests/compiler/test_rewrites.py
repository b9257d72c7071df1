"""Rewrites of the graph: hoisted, reassociated, commuted and dropped work means the same and costs less."""

import itertools
import random
from collections import Counter

import pytest
import torch
from benchmarks.random_graphs import case_of
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_segments import graph_by_index, inputs_of
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, taken, undone
from kernelwright.compiler.graph import Contract, Gather, Slice, Window, interpret
from kernelwright.compiler.policy import beam, estimate
from kernelwright.compiler.tile import run_program
from kernelwright.testing import random_program

ATTENDED = [(2, 31, 3)] * 3
CASES = {
    "rows": ("commute", lambda x, w: (x @ w).sum(0), [(17, 9), (9, 5)]),
    "columns": ("commute", lambda x, w, b: F.linear(x, w, b).sum(1, keepdim=True), [(9, 7), (13, 7), (13,)]),
    "both": ("commute", lambda x, w: torch.bmm(x, w).sum((0, 2)), [(3, 5, 7), (3, 7, 4)]),
    "pooled": (
        "commute", lambda x, w, b: F.conv2d(x, w, b, padding=1).mean((2, 3)), [(1, 2, 4, 5), (3, 2, 3, 3), (3,)],
    ),
    "strided": (
        "commute", lambda x, w: F.conv1d(x, w, stride=3, padding=2, dilation=2).sum(-1), [(2, 3, 20), (4, 3, 4)],
    ),
    "volume": (
        "commute", lambda x, w: F.conv3d(x, w, stride=(1, 2, 1)).sum((2, 3, 4)), [(1, 2, 4, 7, 5), (3, 2, 2, 3, 1)],
    ),
    "transposed": (
        "commute", lambda x, w, b: (F.conv_transpose2d(x, w, b, 2, 1, 1) * 0.5).mean((2, 3)),
        [(2, 3, 4, 5), (3, 4, 3, 3), (4,)],
    ),
    "apart": (
        "commute", lambda x, w: F.conv_transpose1d(x, w, None, 3, 2, 1, 1, 2).sum(-1), [(2, 3, 6), (3, 4, 4)],
    ),
    "attended": ("reassociate", lambda q, k, v: (q @ k.transpose(1, 2)) @ v, ATTENDED),
    "behind": ("reassociate", lambda q, k, v: v @ (q @ k), [(31, 3), (3, 31), (1, 31)]),
    "heads": ("reassociate", lambda q, k, v: (q @ k.mT) @ v, [(2, 2, 19, 3)] * 3),
    "broadcast": ("hoist", lambda x: torch.exp(x.expand(9, 7)) * 2, [(1, 7)]),
    "last": ("drop", lambda x, w, b: torch.relu(F.linear(x, w, b))[:, -1], [(5, 6, 3), (9, 3), (9,)]),
    "every other": ("drop", lambda x, w, b: F.linear(x, w, b)[:, 1:8:3], [(5, 7), (9, 7), (9,)]),
    "batched": ("drop", lambda x, w: torch.bmm(x, w)[1:, -1] - 1, [(3, 5, 7), (3, 7, 4)]),
    "alone": ("drop", lambda x: x.sum(1, keepdim=True).max(1, keepdim=True)[0] * 2, [(5, 7)]),
    "idle": ("drop", lambda x: torch.relu(torch.sigmoid(x)).tanh(), [(5, 7)]),
}  # fmt: skip


def after(case):
    name, function, shapes = CASES[case]
    graph = graph_of(function, *shapes)
    start, action = State(graph, graph), BY_NAME[name]
    return start, taken(start, action, next(iter(action.sites(start))))


@pytest.mark.parametrize("case", CASES)
def test_a_rewrite_keeps_the_meaning_and_can_be_taken_back(case):
    start, state = after(case)
    generator = torch.Generator().manual_seed(2)
    inputs = [torch.randn(tuple(n.shape), generator=generator) for n in start.graph.inputs]
    (wanted,), (now,) = interpret(start.graph, inputs), interpret(state.graph, inputs)
    assert torch.allclose(now, wanted, rtol=1e-11, atol=1e-11) and str(state.graph) != str(start.graph)
    (got,) = run_program(state.program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert str(undone(state, state.steps[0], ACTIONS).graph) == str(start.graph)


@pytest.mark.parametrize("case", ["pooled", "strided", "volume", "transposed", "apart"])
def test_sums_of_a_convolution_read_no_windows(case):
    _, state = after(case)
    assert not any(isinstance(n, Window) for n in state.graph.nodes)


def test_sums_along_one_axis_of_a_convolution_read_windows_as_before():
    graph = graph_of(lambda x, w: F.conv2d(x, w).sum(2), (2, 2, 6, 5), (4, 2, 3, 3))
    state = taken(State(graph, graph), BY_NAME["commute"], "sum")
    assert any(isinstance(n, Window) for n in state.graph.nodes)
    inputs = [torch.randn(tuple(n.shape)) for n in graph.inputs]
    assert torch.allclose(
        interpret(state.graph, inputs)[0], interpret(graph, inputs)[0], rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("case", ["rows", "columns", "pooled", "attended", "behind", "last"])
def test_products_that_shrink_are_estimated_to_cost_less_and_are_found(case):
    start, state = after(case)
    assert estimate(state.program).operations < estimate(start.program).operations
    assert any(CASES[case][0] in leaf.state.text for leaf in beam(start.graph, depth=1, width=10))


def messages(x, t):
    return torch.relu((x[:13] * 2.0)[t] @ x[:19] + x[0])


def test_what_edges_share_is_computed_once_a_node():
    graph = graph_by_index(messages)
    state, action = State(graph, graph), BY_NAME["hoist"]
    while site := next(iter(action.sites(state)), None):
        state = taken(state, action, site)
    assert state.text == "hoist(mm); hoist(add); hoist(relu)"
    (product,) = (n for n in state.graph.nodes if isinstance(n, Contract))
    assert product.shape[0] == 13 and isinstance(state.graph.outputs[0], Gather)
    inputs = inputs_of()
    assert torch.allclose(
        interpret(state.graph, inputs)[0], interpret(graph, inputs)[0], rtol=1e-11, atol=1e-11
    )
    (got,) = run_program(state.program, dict(enumerate(inputs)))
    assert torch.allclose(got, messages(*inputs).double(), rtol=1e-4, atol=1e-4)


def test_a_gather_that_repeats_nothing_stays_before_what_reads_it():
    graph = graph_by_index(lambda x, t: x[t[:5]] @ x[:19])
    assert not list(BY_NAME["hoist"].sites(State(graph, graph)))


def sites(name, function, *shapes, dtype="float32"):
    graph = graph_of(function, *shapes, dtype=dtype)
    return list(BY_NAME[name].sites(State(graph, graph)))


def test_what_is_read_elsewhere_is_computed_whole():
    two = (7, 9), (9, 8)
    assert not sites("drop", lambda x, w: [y := x @ w, (y[1:2], y.sum())][1], *two)
    assert not sites("drop", lambda x, w: (x @ w).flip(0), *two)
    assert not sites("commute", lambda x, w: [y := x @ w, (y.sum(0), y.exp())][1], *two)
    assert not sites("reassociate", lambda x, w, v: [y := x @ w, (y @ v, y)][1], (50, 2), (2, 50), (50, 2))


def test_half_precision_and_cheaper_orders_are_left():
    three = (50, 2), (2, 50), (50, 2)
    assert sites("reassociate", lambda x, w, v: x @ w @ v, *three)
    assert not sites("reassociate", lambda x, w, v: x @ w @ v, *three, dtype="bfloat16")
    assert not sites("reassociate", lambda x, w, v: x @ (w @ v), *three)
    assert not sites("commute", lambda x, w: (x @ w).sum(0), (7, 9), (9, 8), dtype="float16")


def test_what_may_change_a_value_is_no_dead_work():
    for function in (
        lambda x: x - x, lambda x: x + 0.0, lambda x: torch.relu(x), lambda x: -(x.abs()).neg().exp(),
        lambda x: x.half().float(), lambda x: torch.softmax(x.sum(1, keepdim=True), 1) / 2.0,
    ):  # fmt: skip
        kept = [s for s in sites("drop", function, (5, 7)) if "max" not in s and "sum" not in s]
        assert not kept, kept


def test_slices_of_a_product_are_slices_of_its_factors():
    _, state = after("last")
    (product,) = (n for n in state.graph.nodes if isinstance(n, Contract))
    assert isinstance(product.left, Slice) and product.elements == 5 * 9


def test_random_programs_mean_the_same_after_every_rewrite():
    hits = Counter()
    for seed in range(40):
        case = case_of(random_program(seed))
        start = State(case.graph, case.graph)
        for name in ("drop", "hoist", "reassociate", "commute"):
            for site in list(BY_NAME[name].sites(start))[:2]:
                state = taken(start, BY_NAME[name], site)
                got = interpret(state.graph, case.inputs)
                for one, right in zip(got, case.truth, strict=True):
                    same = torch.allclose(one.double(), right.double(), rtol=1e-8, atol=1e-8, equal_nan=True)
                    assert same, f"seed {seed}: {state.text}"
                assert state.program is not None, f"seed {seed}: {state.text}"
                hits[name] += 1
    assert hits["drop"] >= 5, hits


def test_random_chains_of_factors_mean_the_same_in_any_order():
    for seed in range(25):
        chance = random.Random(seed)
        sizes = [chance.choice([1, 2, 3, 20]) for _ in range(4)]
        batch = (2,) * chance.randint(0, 2)
        shapes = [(*batch, a, b) for a, b in itertools.pairwise(sizes)]
        left = chance.random() < 0.5
        graph = graph_of(lambda a, b, c, left=left: (a @ b) @ c if left else a @ (b @ c), *shapes)
        start, action = State(graph, graph), BY_NAME["reassociate"]
        for site in action.sites(start):
            inputs = [torch.randn(s, generator=torch.Generator().manual_seed(seed)) for s in shapes]
            now = interpret(taken(start, action, site).graph, inputs)
            assert torch.allclose(now[0], interpret(graph, inputs)[0], rtol=1e-9, atol=1e-9), f"seed {seed}"
