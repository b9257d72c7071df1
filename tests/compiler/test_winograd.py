"""Convolutions two by two results at a time: where they are legal, and that every size and tail is right."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built
from tests.compiler.test_weights import drawn, weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import Contract, Point, interpret
from kernelwright.compiler.lower import Decisions, lower
from kernelwright.compiler.policy import beam
from kernelwright.compiler.printers import Unprintable, cpp, forms_of
from kernelwright.compiler.tile import Tiling, products, run_program

CASES = {
    "odd": (lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)), [(2, 5, 7, 19), (7, 5, 3, 3), (7,)]),
    "wide": (lambda x, w: F.conv2d(x, w), [(1, 3, 4, 67), (5, 3, 3, 3)]),
    "one": (lambda x, w: F.conv2d(x, w, padding=2), [(3, 2, 1, 1), (2, 2, 3, 3)]),
    "grouped": (lambda x, w: F.conv2d(x.exp(), w, padding=1, groups=2) * 2, [(1, 4, 5, 6), (6, 2, 3, 3)]),
    "channels": (lambda x, w: torch.softmax(F.conv2d(x, w, padding=1), 1), [(3, 2, 5, 6), (4, 2, 3, 3)]),
    "many": (lambda x, w: F.conv2d(x, w, padding=(0, 1)), [(2, 13, 6, 33), (53, 13, 3, 3)]),
}  # fmt: skip


def state_of(case):
    function, shapes = CASES[case]
    graph = graph_of(function, *shapes)
    start = State(graph, graph)
    (site,) = BY_NAME["winograd"].sites(start)
    state = taken(start, BY_NAME["winograd"], site)
    for strip in BY_NAME["strip"].sites(state):
        state = taken(state, BY_NAME["strip"], strip)
    return state


def faults(cases, *flags):
    """Yield how far each case is from float64, relative to its largest result."""
    states = {case: state_of(case) for case in cases}
    programs = {c: (s.graph, dataclasses.replace(s.program, name=c)) for c, s in states.items()}
    library = built(programs, *flags)
    generator = torch.Generator().manual_seed(5)
    for case, (graph, _) in programs.items():
        inputs = [torch.randn(tuple(n.shape), generator=generator) for n in graph.inputs]
        (wanted,) = interpret(graph, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(case)(*inputs, output)
        yield case, float((output - wanted).abs().max() / wanted.abs().max())


def test_printed_tiles_mean_the_convolution():
    for case, fault in faults(CASES):
        assert fault < 2e-6, case


def test_vectors_of_eight_mean_the_same():
    for case, fault in faults(["odd"], "-mno-avx512f"):
        assert fault < 2e-6, case


def test_the_form_keeps_the_meaning_and_can_be_taken_back():
    state = state_of("grouped")
    inputs = [
        torch.randn(tuple(n.shape), generator=torch.Generator().manual_seed(1)) for n in state.graph.inputs
    ]
    (got,) = run_program(state.program, dict(enumerate(inputs)))
    assert torch.allclose(got, interpret(state.graph, inputs)[0], rtol=1e-5, atol=1e-5)
    assert not list(BY_NAME["split"].sites(state)) and not list(BY_NAME["panels"].sites(state))
    assert not undone(state, state.steps[0], ACTIONS).decisions.tilings
    assert "winograd" in {a.name for a in offered(forms_of("cpp"))} - {
        a.name for a in offered(forms_of("triton"))
    }


@pytest.mark.parametrize(
    ("how", "weights", "dtype"),
    [
        ({"stride": 2}, (4, 3, 3, 3), "float32"), ({"dilation": 2}, (4, 3, 3, 3), "float32"),
        ({}, (4, 3, 3, 1), "float32"), ({}, (4, 3, 5, 5), "float32"), ({}, (4, 3, 3, 3), "bfloat16"),
    ],
)  # fmt: skip
def test_other_windows_are_left(how, weights, dtype):
    graph = graph_of(lambda x, w: F.conv2d(x, w, **how), (1, 3, 9, 9), weights, dtype=dtype)
    assert not list(BY_NAME["winograd"].sites(State(graph, graph)))
    graph = graph_of(lambda x, w: F.max_pool2d(x, 3, 1) @ w, (1, 3, 9, 9), (7, 4))
    assert not list(BY_NAME["winograd"].sites(State(graph, graph)))


def test_a_product_that_is_no_such_convolution_has_no_such_form():
    graph = graph_of(lambda x, w: x @ w, (9, 5), (5, 7))
    name = next(n.name for n in graph.nodes if isinstance(n, Contract))
    program = lower(graph, Decisions(tilings={name: Tiling("winograd")}))
    with pytest.raises(Unprintable, match="windows of 3 by 3"):
        cpp.source(program)


def test_folded_weights_are_transformed_too():
    shapes = [(32, 32, 3, 3), (32, 1, 1)]
    graph = weighed(lambda x, w, s: torch.relu(F.conv2d(x, w, padding=1) * s), [(1, 32, 28, 28)], shapes)
    folded = taken(State(graph, graph), BY_NAME["fold"], "mul")
    assert list(BY_NAME["winograd"].sites(folded)) == ["mul"]


@pytest.fixture(scope="module")
def kept():
    """Return a convolution in groups whose weights are parameters, scaled by another one."""
    function, shapes = (lambda x, w, s: F.conv2d(x, w, groups=2) * s), [(6, 2, 3, 3), (6, 1, 1)]
    graph = weighed(function, [(1, 4, 5, 6)], shapes)
    folded = taken(State(graph, graph), BY_NAME["fold"], "mul")
    (site,) = BY_NAME["winograd"].sites(folded)
    return taken(folded, BY_NAME["winograd"], site)


def test_weights_that_are_parameters_are_transformed_ahead(kept):
    inputs, (_, site) = drawn(kept.origin), kept.steps[-1]
    (wanted,), (now,) = interpret(kept.origin, inputs), interpret(kept.graph, inputs)
    assert torch.allclose(now, wanted, rtol=1e-10, atol=1e-10)
    assert kept.program.buffer(f"{site}_spread").shape == (2, 4, 4, 3, 2)
    assert f"{site}_spread_kernel" in kept.program.ahead
    (run,) = run_program(kept.program, dict(enumerate(inputs)))
    output = torch.full(tuple(wanted.shape), float("nan"))
    program = dataclasses.replace(kept.program, name="kept")
    built({"kept": (kept.graph, program)}).get_function("kept")(*inputs, output)
    for got in (run, output):
        assert torch.allclose(got.double(), wanted, rtol=1e-4, atol=1e-4)
    back = undone(kept, kept.steps[-1], ACTIONS)
    assert f"{site}_spread" not in str(back.graph) + str(back.decisions.ahead)


def test_weights_that_are_transformed_back_are_never_stored(kept):
    back = f"{kept.steps[-1][1]}_spread_back"
    assert back not in list(BY_NAME["ahead"].sites(kept))
    ahead = dataclasses.replace(kept.decisions, ahead=kept.decisions.ahead | {back})
    with pytest.raises(Unprintable, match="transformed back"):
        cpp.source(lower(kept.graph, ahead))


def test_weights_that_are_arguments_are_transformed_in_the_call():
    assert not any(s.tiling.is_spread for s in products(state_of("odd").program.steps))


def test_transformed_weights_that_something_else_is_done_to_are_refused(kept):
    state = kept
    product = next(n for n in state.graph.nodes if isinstance(n, Contract))
    side = "right" if product.right in state.graph.lasting else "left"
    other = getattr(product, side)
    twice = Point(name="twice", shape=other.shape, dtype=other.dtype, op="mul", args=(other, 2.0))
    graph = state.graph.rewritten({product: dataclasses.replace(product, **{side: twice})})
    with pytest.raises(Unprintable, match="something else was done to"):
        cpp.source(lower(graph, state.decisions))


def test_the_beam_tries_it():
    graph = graph_of(lambda x, w: F.conv2d(x, w, padding=1), (1, 64, 56, 56), (64, 64, 3, 3))
    assert "winograd(convolution)" in [leaf.state.text for leaf in beam(graph)]
