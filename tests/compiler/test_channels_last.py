"""Convolutions with their channels side by side: every size and tail is right, and chains need no pass in between."""

import dataclasses

import pytest
import torch
from tests.compiler.narrower import EIGHT, FOUR, differing
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_convolve import inputs_of
from tests.compiler.test_products import built
from tests.compiler.test_weights import weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import Contract, Point, interpret
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import beam
from kernelwright.compiler.printers import Unprintable, cpp, forms_of
from kernelwright.compiler.tile import products, run_program


def excited(x, a, b, c):
    y = F.silu(F.conv2d(x, a))
    return F.conv2d(y * torch.sigmoid(F.conv2d(y.mean((2, 3), keepdim=True), b)), c)


CASES = {
    "odd": (lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)), [(2, 5, 7, 19)], [(24, 5, 3, 3), (24,)]),
    "stride": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), [(2, 3, 11, 38)], [(8, 3, 3, 3)]),
    "dilated": (
        lambda x, w: F.conv2d(x.exp(), w, stride=2, dilation=(3, 2), padding=2), [(1, 4, 13, 21)], [(35, 4, 3, 3)],
    ),
    "grouped": (lambda x, w: F.conv2d(x.exp(), w, padding=1, groups=2) * 2, [(3, 4, 5, 6)], [(34, 2, 3, 3)]),
    "depthwise": (
        lambda x, w, b: F.relu6(F.conv2d(x, w, b, padding=3, groups=43)), [(2, 43, 9, 10)], [(43, 1, 7, 7), (43,)],
    ),
    "deep": (lambda x, w: F.conv3d(x, w, padding=1, groups=18), [(1, 18, 4, 5, 8)], [(18, 1, 3, 3, 3)]),
    "causal": (lambda x, w: F.conv1d(F.pad(x, (4, 0)), w, dilation=2), [(2, 3, 50)], [(17, 3, 3)]),
    "volume": (
        lambda x, w, a: F.conv3d(x, w, stride=(2, 1, 2), padding=1) + a, [(2, 3, 5, 6, 9)],
        [(16, 3, 3, 3, 3), (16, 1, 1, 1)],
    ),
    "point": (lambda x, w: F.conv2d(x, w, stride=2), [(1, 9, 7, 8)], [(10, 9, 1, 1)]),
    "one": (lambda x, w: F.conv2d(x, w, padding=1), [(3, 2, 1, 1)], [(9, 2, 3, 3)]),
    "channels": (lambda x, w: torch.softmax(F.conv2d(x, w, padding=1), 1), [(3, 2, 5, 6)], [(40, 2, 3, 3)]),
    "long": (lambda x, w: F.conv2d(x, w, padding=1), [(1, 600, 4, 5)], [(33, 600, 3, 3)]),
    "flat": (lambda x, w: F.conv2d(x, w, padding=1).flatten(), [(2, 3, 4, 5)], [(16, 3, 3, 3)]),
    "residual": (
        lambda x, w, g, b, m, v: F.silu(F.batch_norm(F.conv2d(x, w, padding=1), m, v.exp(), g, b) + x),
        [(2, 48, 7, 17)], [(48, 48, 3, 3), (48,), (48,), (48,), (48,)],
    ),
    "pooled": (
        lambda x, w: F.max_pool2d(torch.relu(F.conv2d(x, w, padding=1)), 2), [(1, 3, 8, 22)], [(16, 3, 3, 3)],
    ),
    "chain": (
        lambda x, a, b, c: F.conv2d(F.hardswish(F.conv2d(F.relu6(F.conv2d(x, a)), b, padding=1, groups=20)), c) + x,
        [(2, 8, 5, 6)], [(20, 8, 1, 1), (20, 1, 3, 3), (8, 20, 1, 1)],
    ),
    "excited": (excited, [(2, 8, 5, 6)], [(20, 8, 1, 1), (20, 20, 1, 1), (9, 20, 1, 1)]),
}  # fmt: skip
"""A function, shapes of arguments and of weights."""
LESS = ["odd", "grouped", "depthwise", "volume", "chain"]
BUILDS = {
    "few": ((), ["stride", "deep"]),
    **differing({"all": ((), list(CASES)), "eight": (EIGHT, LESS), "four": (FOUR, ["dilated", "chain"])}),
}
"""Vectors of what the machine has, of 8 and of 4 floats."""


def state_of(case):
    graph = weighed(*CASES[case])
    start = State(graph, graph)
    sites = list(BY_NAME["channels-last"].sites(start))
    return taken(start, BY_NAME["channels-last"], "all" if "all" in sites else sites[0])


@pytest.mark.parametrize(
    "build", [pytest.param(n, marks=pytest.mark.long if n != "few" else ()) for n in BUILDS]
)
def test_printed_loops_mean_the_convolution(build):
    flags, cases = BUILDS[build]
    states = {case: state_of(case) for case in cases}
    for case, state in states.items():
        assert all(p.image for p in products(state.program.steps)), case
    programs = {c: (s.graph, dataclasses.replace(s.program, name=c)) for c, s in states.items()}
    library = built(programs, *flags)
    for case, (graph, _) in programs.items():
        inputs = inputs_of(graph)
        (wanted,) = interpret(states[case].origin, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(case)(*inputs, output)
        assert float((output - wanted).abs().max() / wanted.abs().max()) < 1e-6, case


@pytest.mark.parametrize("case", CASES)
def test_the_meaning_is_torchs(case):
    state = state_of(case)
    inputs = inputs_of(state.origin)
    (wanted,), (now,) = interpret(state.origin, inputs), interpret(state.graph, inputs)
    torchs = CASES[case][0](*(x.double() for x in inputs))
    assert torch.allclose(wanted, torchs, rtol=1e-9, atol=1e-9)
    assert torch.allclose(now, wanted, rtol=1e-9, atol=1e-9)


def test_the_form_keeps_the_meaning_and_can_be_taken_back():
    state = state_of("one")
    inputs = inputs_of(state.origin)
    (got,) = run_program(state.program, dict(enumerate(inputs)))
    assert torch.allclose(got.double(), interpret(state.origin, inputs)[0], rtol=1e-4, atol=1e-4)
    for action in ("panels", "winograd", "split", "strip", "convolve", "channels-last"):
        assert not list(BY_NAME[action].sites(state)), action
    back = undone(state, state.steps[0], ACTIONS)
    assert not back.decisions.tilings and str(back.graph) == str(state.origin)
    names = {a.name for a in offered(forms_of("cpp"))} - {a.name for a in offered(forms_of("triton"))}
    assert "channels-last" in names


def test_a_chain_is_one_kernel_for_each_convolution():
    state = state_of("chain")
    program = state.program
    now = [s.name for s in program.steps if s.name not in program.ahead]
    assert now == ["hardtanh_turned_kernel", "div_turned_kernel", "add_1_turned_kernel", "add_1_back_kernel"]
    assert program.buffer("hardtanh_turned").shape == (2, 5, 6, 20)
    assert program.buffer("convolution_panels").shape == (1, 2, 1, 1, 8, 16)
    assert program.buffer("convolution_1_product5_panels").shape == (3, 3, 20)


def test_what_is_repeated_is_computed_once():
    program = state_of("excited").program
    (gate,) = (p for p in products(program.steps) if p.name == "sigmoid_1_turned_kernel")
    assert program.buffer("sigmoid_1_turned").shape == (2, 1, 1, 20) and gate.image is not None


@pytest.mark.parametrize(
    ("function", "shapes", "weights"),
    [
        (lambda x, w: F.conv2d(x, w, padding=1), [(1, 3, 5, 6)], [(4, 3, 3, 3)]),
        (lambda x, w: F.conv2d(x, w, padding=1, groups=2), [(1, 4, 5, 6)], [(8, 2, 3, 3)]),
        (lambda x, w: x @ w, [(9, 5)], [(5, 17)]),
        (lambda x, w: F.conv2d(x, w), [(1, 3, 5, 6)], [(16, 3, 1, 1)]),
        (lambda x, w: F.conv2d(x, w), [(1, 1, 5, 6)], [(1, 1, 3, 3)]),
    ],
)
def test_few_results_of_a_group_and_plain_products_are_not_offered(function, shapes, weights):
    graph = weighed(function, shapes, weights)
    assert not list(BY_NAME["channels-last"].sites(State(graph, graph)))


def test_weights_that_are_arguments_are_not_offered():
    graph = graph_of(CASES["odd"][0], *CASES["odd"][1], *CASES["odd"][2])
    assert not list(BY_NAME["channels-last"].sites(State(graph, graph)))


def test_weights_that_do_not_lie_in_panels_are_refused():
    state = state_of("odd")
    product = next(n for n in state.graph.nodes if isinstance(n, Contract))
    side = "right" if product.right in state.graph.lasting else "left"
    old = getattr(product, side)
    other = Point(name="twice", shape=old.shape, dtype=old.dtype, op="mul", args=(old, 2.0))
    graph = state.graph.rewritten({product: dataclasses.replace(product, **{side: other})})
    with pytest.raises(Unprintable, match="done to"):
        cpp.source(lower(graph, state.decisions))


@pytest.mark.long
def test_the_search_tries_a_chain():
    graph = weighed(*CASES["chain"])
    assert any("channels-last(all)" in leaf.state.text for leaf in beam(graph, depth=1))
