"""Transposed convolutions by phases of their stride: where that is legal, and that every phase is right."""

import dataclasses

import pytest
import torch
from tests.compiler.narrower import EIGHT, differing
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built
from tests.compiler.test_weights import weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import interpret
from kernelwright.compiler.policy import estimate
from kernelwright.compiler.printers import cpp, forms_of
from kernelwright.compiler.tile import products, run_program

CASES = {
    "filled": (
        lambda x, w, b: torch.relu(F.conv_transpose2d(x, w, b, 2, 1, 1)), [(2, 5, 6, 19), (5, 3, 3, 3), (3,)],
    ),
    "grouped": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, groups=2), [(1, 4, 7, 5), (4, 3, 4, 4)]),
    "apart": (lambda x, w: F.conv_transpose1d(x, w, stride=3), [(2, 4, 21), (4, 5, 3)]),
    "mixed": (lambda x, w: F.conv_transpose2d(x, w, stride=(1, 3), padding=(1, 0)), [(1, 2, 5, 9), (2, 3, 3, 3)]),
    "cropped": (lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=3), [(2, 3, 12), (3, 4, 4)]),
    "odd": (lambda x, w, b: torch.relu(F.conv_transpose2d(x, w, b, 2, 1)), [(2, 5, 4, 9), (5, 3, 3, 3), (3,)]),
    "odd_volume": (
        lambda x, w: F.avg_pool3d(F.conv_transpose3d(x, w, None, 2, 1), 2), [(1, 2, 2, 3, 5), (2, 3, 3, 3, 3)],
    ),
    "volume": (
        lambda x, a, w: F.hardswish(F.conv_transpose3d(x, w, stride=2) + a),
        [(2, 3, 4, 3, 9), (2, 4, 8, 6, 18), (3, 4, 2, 2, 2)],
    ),
}  # fmt: skip


def phased(graph):
    start = State(graph, graph)
    (site,) = BY_NAME["phases"].sites(start)
    return taken(start, BY_NAME["phases"], site)


def inputs_of(graph):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(tuple(n.shape), generator=generator) for n in graph.inputs]


@pytest.mark.parametrize("case", CASES)
def test_the_meaning_stays_and_the_step_can_be_taken_back(case):
    function, shapes = CASES[case]
    graph = graph_of(function, *shapes)
    state, inputs = phased(graph), inputs_of(graph)
    (wanted,), (now,) = interpret(graph, inputs), interpret(state.graph, inputs)
    assert torch.allclose(wanted, function(*(x.double() for x in inputs)), rtol=1e-10, atol=1e-10)
    assert torch.allclose(now, wanted, rtol=1e-10, atol=1e-10)
    assert not list(BY_NAME["phases"].sites(state))
    assert str(undone(state, state.steps[0], ACTIONS).graph) == str(graph)


@pytest.mark.parametrize(
    "case",
    [pytest.param(n, marks=() if n in ("apart", "mixed", "cropped") else pytest.mark.long) for n in CASES],
)
def test_the_loops_mean_the_convolution(case):
    function, shapes = CASES[case]
    graph = graph_of(function, *shapes)
    inputs = inputs_of(graph)
    (wanted,), (got,) = interpret(graph, inputs), run_program(phased(graph).program, dict(enumerate(inputs)))
    assert torch.allclose(got.double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("flags", differing({"all": (), "eight": EIGHT}).values(), ids=str)
def test_printed_phases_mean_the_convolution(flags):
    states = {case: phased(graph_of(function, *shapes)) for case, (function, shapes) in CASES.items()}
    assert all(state.program is not None and not state.program.natives for state in states.values())
    programs = {c: (s.graph, dataclasses.replace(s.program, name=c)) for c, s in states.items()}
    library = built(programs, *flags)
    for case, state in states.items():
        inputs = inputs_of(state.origin)
        (wanted,) = interpret(state.origin, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(case)(*inputs, output)
        assert float((output - wanted).abs().max() / wanted.abs().max()) < 2e-6, case


def test_lanes_run_along_the_image_and_store_every_other_result():
    function, shapes = CASES["filled"]
    state = phased(graph_of(function, *shapes))
    (found,) = products(state.program.steps)
    assert int(found.columns[-1].size) == 19
    assert "kw::store_evens(" in cpp.source(state.program)
    assert "kw::store_evens(" not in cpp.source(phased(graph_of(*_of("apart"))).program)


def _of(case):
    function, shapes = CASES[case]
    return function, *shapes


def test_weights_that_are_parameters_are_laid_out_ahead_and_the_estimate_sees_the_gain():
    graph = weighed(CASES["filled"][0], [(8, 32, 16, 16)], [(32, 8, 3, 3), (8,)])
    state = phased(graph)
    assert len(state.program.ahead) == 1
    assert estimate(state.program).time_us < estimate(State(graph, graph).program).time_us / 4
    names = {a.name for a in offered(forms_of("cpp"))} - {a.name for a in offered(forms_of("triton"))}
    assert "phases" in names


@pytest.mark.parametrize(
    ("how", "dtype"),
    [
        ({"stride": 1}, "float32"), ({"stride": 2, "dilation": 2}, "float32"), ({"stride": 2}, "bfloat16"),
    ],
)  # fmt: skip
def test_other_convolutions_are_left(how, dtype):
    graph = graph_of(lambda x, w: F.conv_transpose2d(x, w, **how), (1, 3, 5, 5), (3, 4, 3, 3), dtype=dtype)
    assert not list(BY_NAME["phases"].sites(State(graph, graph)))


def test_scaled_weights_are_left():
    shapes = [(32, 8, 2, 2), (8, 1, 1)]
    graph = weighed(lambda x, w, s: F.conv_transpose2d(x, w, stride=2) * s, [(1, 32, 8, 8)], shapes)
    folded = taken(State(graph, graph), BY_NAME["fold"], "mul")
    assert list(BY_NAME["phases"].sites(State(graph, graph)))
    assert not list(BY_NAME["phases"].sites(folded))
