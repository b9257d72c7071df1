"""Norms and scales in the weights: the same meaning, ahead of the calls, by own kernels and the library's."""

import pytest
import torch
from tests.compiler.test_actions import BY_NAME
from tests.compiler.test_weights import drawn, loaded, weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, taken, undone
from kernelwright.compiler.graph import Contract, Point, interpret
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import beam, estimate
from kernelwright.compiler.tile import run_program
from kernelwright.languages.prepared import prepared


def normed(x, *statistics):
    weight, bias, mean, variance = statistics
    return F.batch_norm(x, mean, variance, weight, bias, training=False)


STATISTICS = [(6,)] * 4
CASES = {
    "convolution": (
        lambda x, w, *s: torch.sigmoid(normed(F.conv2d(x, w, padding=1), *s)), [(1, 2, 3, 4)], [(6, 2, 3, 3)],
    ),
    "grouped": (
        lambda x, w, *s: normed(F.conv2d(x, w, stride=2, dilation=2, groups=2), *s), [(1, 4, 7, 7)], [(6, 2, 3, 3)],
    ),
    "transposed": (lambda x, w, *s: normed(F.conv_transpose2d(x, w, stride=2), *s), [(1, 2, 3, 3)], [(2, 6, 2, 2)]),
    "linear": (lambda x, w, *s: normed(0.5 - F.linear(x, w, s[0]) / s[1], *s), [(5, 7)], [(6, 7)]),
    "number": (lambda x, w, *s: -2.0 * (x @ w) + s[0], [(5, 7)], [(7, 6)]),
}  # fmt: skip


def start_of(case):
    function, arguments, weights = CASES[case]
    graph = weighed(function, arguments, [*weights, *STATISTICS])
    return State(graph, graph)


def folded(case):
    start = start_of(case)
    (site,) = BY_NAME["fold"].sites(start)
    return taken(start, BY_NAME["fold"], site)


@pytest.mark.parametrize("case", CASES)
def test_a_folded_product_means_the_same_and_can_be_taken_back(case):
    state = folded(case)
    inputs = drawn(state.origin)
    (wanted,), (now,) = interpret(state.origin, inputs), interpret(state.graph, inputs)
    assert torch.allclose(now, wanted, rtol=1e-9, atol=1e-9)
    program = lower(state.graph, state.decisions)
    assert len(program.ahead) + 1 == len(program.steps)
    (got,) = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert str(undone(state, state.steps[0], ACTIONS).graph) == str(state.origin)


def test_one_bias_is_left_in_a_call():
    state = folded("convolution")
    (product,) = [n for n in state.graph.nodes if isinstance(n, Contract)]
    (sum_,) = state.graph.users[product]
    assert isinstance(sum_, Point) and sum_.op == "add" and set(sum_.args) - {product} <= state.graph.lasting


def test_the_library_multiplies_folded_weights():
    state = folded("convolution")
    assert list(BY_NAME["library"].sites(state)) == ["convolution_folded"]
    native = taken(state, BY_NAME["library"], "convolution_folded")
    program = lower(native.graph, native.decisions)
    (call,) = program.natives
    assert call.name not in program.ahead and len(program.steps) == len(program.ahead) + 2
    library = taken(start_of("convolution"), BY_NAME["library"], "convolution")
    before = estimate(lower(library.graph, library.decisions))
    assert estimate(program).operations < before.operations


@pytest.mark.parametrize("case", ["convolution", "linear"])
def test_statistics_are_folded_again_when_they_change(case):
    function = CASES[case][0]
    state = folded(case)
    names = list(BY_NAME["library"].sites(state))
    kernel = prepared(loaded(taken(state, BY_NAME["library"], names[0])), [f"w{i}" for i in range(5)])
    x, *held = drawn(state.origin)
    for _ in range(2):
        assert torch.allclose(kernel(x, *held), function(x, *held), atol=1e-4)
        held[4].mul_(3)


def unfit(function, arguments=((5, 7),), weights=((7, 6), (6,))):
    graph = weighed(function, list(arguments), list(weights))
    return not list(BY_NAME["fold"].sites(State(graph, graph)))


def test_what_does_not_fold():
    assert unfit(lambda x, w, b: x @ w + b)
    assert unfit(lambda x, w, b: x @ w * (x.sum() + b))
    assert unfit(lambda x, w, b: [y := x @ w, y * b, y.sum()][1:][0] + y.sum())
    assert unfit(lambda x, w, b: [y := x @ w + b, y + y][1])
    assert unfit(lambda x, w, b: x @ w * b, weights=((7, 6), (5, 6)))
    assert unfit(lambda x, w, b: x @ w * b, weights=((7, 6), (5, 1)))
    assert not unfit(lambda x, w, b: x @ w * b)


def test_the_beam_starts_from_what_is_folded_too():
    assert any(leaf.state.text.startswith("fold(") for leaf in beam(start_of("convolution").graph)[:5])


def test_half_precision_is_left_alone():
    graph = weighed(lambda x, w, b: (x @ w) * b, [(5, 7)], [(7, 6), (6,)], dtype="bfloat16")
    assert not list(BY_NAME["fold"].sites(State(graph, graph)))
