"""Direct convolutions: every size, tail, stride and padding is right, and where the form is legal."""

import dataclasses

import pytest
import torch
from tests.compiler.narrower import EIGHT, FOUR, differing
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built
from tests.compiler.test_weights import weighed
from torch.nn import functional as F

from kernelwright.compiler import schedules
from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.actions.convolve import panel_of
from kernelwright.compiler.graph import Contract, Point, interpret, read, text_of
from kernelwright.compiler.lower import convolved_by, lower
from kernelwright.compiler.policy import beam
from kernelwright.compiler.printers import Unprintable, cpp, forms_of
from kernelwright.compiler.tile import Guard, products, run_program, walk
from kernelwright.tasks import Problem, load_task

CASES = {
    "odd": (lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)), [(2, 5, 7, 19)], [(7, 5, 3, 3), (7,)]),
    "panels": (lambda x, w: F.conv2d(x, w, padding=1), [(1, 3, 9, 14)], [(19, 3, 3, 3)]),
    "stride": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), [(2, 3, 11, 38)], [(8, 3, 3, 3)]),
    "strides": (lambda x, w: F.conv2d(x, w, stride=(1, 3)), [(1, 2, 6, 70)], [(4, 2, 2, 5)]),
    "strided_down": (lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=1), [(1, 2, 9, 21)], [(4, 2, 3, 3)]),
    "dilated": (lambda x, w: F.conv2d(x, w, stride=2, dilation=(3, 2), padding=2), [(1, 4, 13, 21)], [(3, 4, 3, 3)]),
    "grouped": (lambda x, w: F.conv2d(x.exp(), w, padding=1, groups=2) * 2, [(3, 4, 5, 6)], [(6, 2, 3, 3)]),
    "depthwise": (
        lambda x, w, b: F.relu6(F.conv2d(x, w, b, padding=3, groups=6)), [(2, 6, 9, 40)], [(6, 1, 7, 7), (6,)],
    ),
    "few_rows": (lambda x, w: F.conv2d(x, w, padding=(0, 1), groups=4), [(2, 4, 8, 30)], [(4, 1, 3, 3)]),
    "narrow": (lambda x, w: F.conv2d(F.pad(x, (2, 1, 1, 2), value=0.5), w, groups=3), [(2, 3, 17, 9)], [(3, 1, 3, 3)]),
    "five_vectors": (lambda x, w: F.conv2d(x, w, padding=2, groups=2), [(2, 2, 10, 70)], [(2, 1, 5, 5)]),
    "wide": (lambda x, w: F.conv2d(x, w, padding=2, groups=2), [(1, 2, 9, 700)], [(2, 1, 5, 5)]),
    "deep": (lambda x, w: F.conv3d(x, w, padding=1, groups=2), [(1, 2, 4, 5, 18)], [(2, 1, 3, 3, 3)]),
    "multiplied": (lambda x, w: F.conv2d(x, w, groups=3), [(1, 3, 6, 18)], [(6, 1, 3, 3)]),
    "sequence": (lambda x, w: F.conv1d(x, w, padding=4), [(3, 6, 37)], [(5, 6, 9)]),
    "causal": (lambda x, w: F.conv1d(F.pad(x, (4, 0)), w, dilation=2), [(2, 3, 50)], [(4, 3, 3)]),
    "long": (lambda x, w: F.conv1d(x, w, stride=2), [(1, 2, 5000)], [(8, 2, 4)]),
    "volume": (
        lambda x, w, a: F.conv3d(x, w, stride=(2, 1, 2), padding=1) + a, [(2, 3, 5, 6, 9)],
        [(4, 3, 3, 3, 3), (4, 1, 1, 1)],
    ),
    "point": (lambda x, w: F.conv2d(x, w, stride=2), [(1, 9, 7, 8)], [(10, 9, 1, 1)]),
    "one": (lambda x, w: F.conv2d(x, w, padding=1), [(3, 2, 1, 1)], [(2, 2, 3, 3)]),
    "channels": (lambda x, w: torch.softmax(F.conv2d(x, w, padding=1), 1), [(3, 2, 5, 6)], [(4, 2, 3, 3)]),
    "chain": (lambda x, w: F.conv2d(x, w, padding=1), [(1, 120, 4, 5)], [(3, 120, 3, 3)]),
    "reflected": (lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), "reflect"), w), [(1, 3, 6, 20)], [(5, 3, 3, 3)]),
    "residual": (
        lambda x, w, g, b, m, v: F.silu(F.batch_norm(F.conv2d(x, w, padding=1), m, v.exp(), g, b) + x),
        [(2, 6, 7, 17)], [(6, 6, 3, 3), (6,), (6,), (6,), (6,)],
    ),
    "many": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [(2, 20, 9, 38)], [(40, 20, 3, 3), (40,)]),
    "many_grouped": (lambda x, w: F.conv2d(x, w, padding=1, groups=2), [(3, 6, 5, 6)], [(66, 3, 3, 3)]),
    "many_deep": (lambda x, w: F.conv3d(x, w, stride=(1, 2, 3), dilation=2), [(1, 2, 6, 8, 19)], [(32, 2, 2, 3, 3)]),
    "pooled": (
        lambda x, w: F.max_pool2d(torch.relu(F.conv2d(x, w, padding=1)), 2), [(1, 3, 8, 22)], [(5, 3, 3, 3)],
    ),
}  # fmt: skip
"""A function, shapes of arguments and of weights."""
MODULE = """
import torch, torch.nn as nn
batch, channels, size = 4, 32, 24
class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 48, (5, 3))
    def forward(self, x):
        return self.conv(x)
def get_inputs():
    return [torch.randn(batch, channels, size, size)]
def get_init_inputs():
    return [channels]
"""
FEWER = [
    "odd", "stride", "grouped", "depthwise", "five_vectors", "deep", "volume", "many", "many_grouped", "many_deep",
]  # fmt: skip
BUILDS = differing(
    {
        "all": ((), list(CASES)),
        "eight": (EIGHT, FEWER),
        "four": (FOUR, ["panels", "dilated", "sequence", "many"]),
    }
)
"""Vectors of what the machine has, of 8 and of 4 floats."""


def state_of(case, fixed=True):
    function, arguments, weights = CASES[case]
    graph = weighed(function, arguments, weights) if fixed else graph_of(function, *arguments, *weights)
    start = State(graph, graph)
    (site,) = BY_NAME["convolve"].sites(start)
    return taken(start, BY_NAME["convolve"], site)


def inputs_of(graph):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(tuple(n.shape), generator=generator) for n in graph.inputs]


LONG = {(True, "eight"), (False, "eight"), (False, "four")}
"""Whether weights are fixed, and the vectors, where others stand for them."""


@pytest.mark.parametrize(
    ("fixed", "build"),
    [
        pytest.param(fixed, build, marks=pytest.mark.long if (fixed, build) in LONG else ())
        for fixed in (True, False)
        for build in BUILDS
    ],
)
def test_printed_loops_mean_the_convolution(build, fixed):
    flags, cases = BUILDS[build]
    states = {case: state_of(case, fixed) for case in (cases if fixed else cases[:4])}
    for case, state in states.items():
        assert any(p.image for p in products(state.program.steps)), case
    programs = {c: (s.graph, dataclasses.replace(s.program, name=c)) for c, s in states.items()}
    library = built(programs, *flags)
    for case, (graph, _) in programs.items():
        inputs = inputs_of(graph)
        (wanted,) = interpret(states[case].origin, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(case)(*inputs, output)
        assert float((output - wanted).abs().max() / wanted.abs().max()) < 3e-6, case


@pytest.mark.parametrize("case", CASES)
def test_the_meaning_is_torchs(case):
    state = state_of(case)
    inputs = inputs_of(state.origin)
    (wanted,), (now,) = interpret(state.origin, inputs), interpret(state.graph, inputs)
    torchs = CASES[case][0](*(x.double() for x in inputs))
    assert torch.allclose(wanted, torchs, rtol=1e-10, atol=1e-10)
    assert torch.allclose(now, wanted, rtol=1e-10, atol=1e-10)


def test_the_form_keeps_the_meaning_and_can_be_taken_back():
    state = state_of("one")
    inputs = inputs_of(state.origin)
    (got,) = run_program(state.program, dict(enumerate(inputs)))
    assert torch.allclose(got.double(), interpret(state.origin, inputs)[0], rtol=1e-4, atol=1e-4)
    for action in ("panels", "winograd", "split", "strip", "convolve"):
        assert not list(BY_NAME[action].sites(state)), action
    back = undone(state, state.steps[0], ACTIONS)
    assert not back.decisions.tilings and str(back.graph) == str(state.origin)
    names = {a.name for a in offered(forms_of("cpp"))} - {a.name for a in offered(forms_of("triton"))}
    assert "convolve" in names


def test_weights_that_are_parameters_lie_in_panels_ahead():
    state = state_of("panels")
    (found,) = products(state.program.steps)
    name = f"{state.steps[0][1]}_panels"
    assert found.tiling.is_spread and state.program.buffer(name).shape == (1, 4, 3, 3, 3, 5)
    assert state.program.ahead == {f"{name}_kernel"}
    given = state_of("panels", fixed=False)
    assert not given.program.ahead and not any(p.tiling.is_spread for p in products(given.program.steps))


def test_what_many_results_read_is_packed_once_for_all_of_them():
    """Of channels that few results share, and of phases, each is read where it was copied."""
    printed = {
        case: cpp.source(state_of(case).program) for case in ("many", "many_grouped", "many_deep", "panels")
    }
    packed = {case: "0, 0, true>;" in text for case, text in printed.items()}
    assert packed == {"many": True, "many_grouped": True, "many_deep": True, "panels": False}
    transposed = weighed(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), [(1, 3, 4, 5)], [(3, 32, 4, 4)]
    )
    start = State(transposed, transposed)
    state = taken(start, BY_NAME["phases"], next(iter(BY_NAME["phases"].sites(start))))
    assert "kw::Direct<8, 4>;" in cpp.source(state.program)


def test_eight_lanes_pack_some_channels_at_a_time():
    """Which elements are summed apart shows: ones vanish in a sum that 2**24 comes first in, and in no other."""
    channels, held = 64, 2.0**24
    graph = weighed(lambda x, w: F.conv2d(x, w, stride=2), [(1, channels, 17, 17)], [(32, channels, 3, 3)])
    start = State(graph, graph)
    state = taken(start, BY_NAME["convolve"], next(iter(BY_NAME["convolve"].sites(start))))
    program = dataclasses.replace(state.program, name="some")
    library = built({"some": (state.graph, program)}, "-mno-avx512f")
    image, output = torch.ones(1, channels, 17, 17), torch.empty(1, 32, 8, 8)
    image[0, 0] = 0
    image[0, 0, 0, 0] = held  # the first tap of the first result
    library.get_function("some")(image, torch.ones(32, channels, 3, 3), output)
    together = 16  # channels of 9 taps by 24 pixels of 4 bytes: half the first cache
    assert {float(x) for x in output[0, :, 0, 0]} == {held + (channels - together) * 9}


def test_what_loops_read_next_is_asked_for():
    """Of neighbours in memory; what is computed while it is copied is not."""
    plain, computed = (cpp.source(state_of(case).program) for case in ("many", "grouped"))
    assert "kw::asked_for(" in plain and "kw::asked_for(" not in computed
    assert "is_ahead<decltype(lanes)>) return kw::F{};" in computed


def test_padding_is_not_read_and_other_edges_are():
    (found,) = products(state_of("odd").program.steps)
    assert found.image.low == (1, 1) and not any(isinstance(e, Guard) for e in walk(found.image.value))
    (found,) = products(state_of("reflected").program.steps)
    assert found.image.low == (0, 0)


@pytest.mark.parametrize("change", ["twice", "other"])
def test_weights_that_do_not_lie_in_panels_are_refused(change):
    state = state_of("odd")
    product = next(n for n in state.graph.nodes if isinstance(n, Contract))
    other = product.right if product.right in state.graph.lasting else product.left
    side = "right" if other is product.right else "left"
    if change == "twice":
        other = Point(name="twice", shape=other.shape, dtype=other.dtype, op="mul", args=(other, 2.0))
    else:
        other = state.origin.inputs[1]
    graph = state.graph.rewritten({product: dataclasses.replace(product, **{side: other})})
    with pytest.raises(Unprintable, match=r"in panels|done to"):
        cpp.source(lower(graph, state.decisions))


@pytest.mark.parametrize(
    ("function", "shapes", "dtype"),
    [
        (lambda x, w: x @ w, [(9, 5), (5, 7)], "float32"),
        (lambda x, w: F.conv2d(x, w), [(1, 3, 9, 9), (4, 3, 3, 3)], "bfloat16"),
        (lambda x, w: F.conv2d(x, w), [(1, 3, 9, 9), (4, 3, 1, 1)], "float32"),
        (lambda x, w: F.max_pool2d(x, 3, 1) @ w, [(1, 3, 9, 9), (7, 4)], "float32"),
    ],
)
def test_other_products_are_left(function, shapes, dtype):
    graph = graph_of(function, *shapes, dtype=dtype)
    assert not list(BY_NAME["convolve"].sites(State(graph, graph)))


@pytest.mark.parametrize(("rows", "panel"), [(1, 1), (5, 5), (8, 8), (64, 8), (12, 6), (19, 5), (9, 5)])
def test_panels_leave_few_rows_empty(rows, panel):
    assert panel_of(rows) == panel


def test_the_beam_begins_with_it_and_leaves_depthwise_ones_to_copies():
    graph = graph_of(lambda x, w: F.conv2d(x, w, padding=1), (1, 64, 28, 28), (64, 64, 3, 3))
    assert beam(graph)[0].state.text == "convolve(convolution)"

    def separable(x, w, v):
        return F.conv2d(torch.relu(F.conv2d(x, w, padding=1, groups=32)), v, padding=1)

    graph = weighed(separable, [(1, 32, 28, 28)], [(32, 1, 3, 3), (32, 32, 3, 3)])
    texts = [leaf.state.text for leaf in beam(graph)]
    assert any("convolve(dense)" in text and "stage(" in text for text in texts)


def test_a_module_whose_channels_are_a_constant_of_its_file_has_the_forms_of_convolutions(tmp_path):
    (tmp_path / "conv.py").write_text(MODULE)
    problem = Problem(load_task(str(tmp_path / "conv.py")))
    (product,) = (n for n in read(problem).nodes if isinstance(n, Contract))
    assert convolved_by(product) is None and convolved_by(product, fixed=False) is not None
    found = next(schedules(problem, ("cpp",)))
    assert found.leaf.state.text.startswith("convolve(")
    sizes = {text_of(size) for i in found.leaf.state.graph.inputs for size in i.shape}
    assert {"channels", "32"} & sizes == {"32"} and "batch" in sizes
