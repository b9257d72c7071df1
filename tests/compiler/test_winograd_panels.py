"""Convolutions by transformed squares, lanes along channels: every size and tail is right, and where they are legal."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from tests.compiler.narrower import EIGHT, differing
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_convolve import inputs_of
from tests.compiler.test_products import built
from tests.compiler.test_weights import weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import Contract as Product
from kernelwright.compiler.graph import Point, interpret, read
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import beam
from kernelwright.compiler.printers import Unprintable, cpp, forms_of
from kernelwright.compiler.tile import products
from kernelwright.records import CheckStatus, Contract
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle
from kernelwright.verify.checks.correct import compare_outputs

CASES = {
    "odd": (lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)), [(2, 5, 7, 19)], [(7, 5, 3, 3), (7,)]),
    "one": (lambda x, w: F.conv2d(x, w, padding=2), [(3, 2, 1, 1)], [(2, 2, 3, 3)]),
    "grouped": (lambda x, w: F.conv2d(x.exp(), w, padding=1, groups=2) * 2, [(3, 34, 5, 6)], [(32, 17, 3, 3)]),
    "many": (lambda x, w: F.conv2d(x, w, padding=(0, 1)), [(2, 33, 16, 33)], [(48, 33, 3, 3)]),
    "long": (lambda x, w, a: F.conv2d(x, w, padding=1) + a, [(1, 600, 5, 4)], [(32, 600, 3, 3), (32, 5, 4)]),
}  # fmt: skip
"""A function, shapes of arguments and of weights."""
OTHERS = {
    "slices": ("winograd-2", lambda x, w: F.conv3d(x, w, padding=1), [(2, 5, 4, 7, 9)], [(16, 5, 3, 3, 3)]),
    "few slices": (
        "winograd-4", lambda x, w: F.conv3d(x, w, padding=(0, 1, 1)), [(1, 300, 5, 6, 9)], [(32, 300, 2, 3, 3)],
    ),
    "row": ("winograd-3", lambda x, w: F.relu(F.conv1d(x, w, padding=4)), [(2, 5, 50)], [(16, 5, 9)]),
    "short row": ("winograd-3", lambda x, w: F.conv1d(x, w, groups=2), [(2, 6, 11)], [(32, 3, 3)]),
    "phases": (
        "winograd-phases", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1), [(2, 5, 7, 9)], [(5, 16, 4, 4), (16,)],
    ),
    "phases of rows": ("winograd-phases", lambda x, w: F.conv_transpose1d(x, w, None, 2), [(2, 5, 17)], [(5, 3, 4)]),
    "grouped phases": (
        "winograd-phases", lambda x, w: F.conv_transpose2d(x, w, None, 2, (1, 2), groups=2), [(2, 6, 7, 9)],
        [(6, 16, 4, 4)],
    ),
}  # fmt: skip
"""An action, and such a case."""
BUILDS = {
    "few": ((), ["slices", "row", "phases"]),
    **differing({"all": ((), [*OTHERS, *CASES]), "eight": (EIGHT, ["odd", "many", *OTHERS])}),
}
"""Vectors of what the machine has, and of 8 floats."""
NUMERICS = {
    ("strict", 2): False, ("strict", 4): False, ("native", 2): True, ("native", 4): False, ("fast", 4): True,
}  # fmt: skip
"""What the contract lets a kernel do, and whether squares of so many results are within it; seen best where few
products are summed, whose own rounding hides nothing."""
TASK = """
import torch
from torch.nn import functional as F

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16, 1, 3, 3))

    def forward(self, x):
        return F.conv2d(x, self.w, padding=1)

def get_inputs():
    return [torch.randn(1, 1, 8, 8)]

def get_init_inputs():
    return []
"""
SQUARES = ("winograd-2", "winograd-4")
PLAIN = str.maketrans(" -", "__")
NEAR = {2: 1e-6, 4: 8e-6}
"""Largest error by results of a square; that of a plain sum of 600 channels is 3e-7."""


def state_of(case, name):
    graph = weighed(*(CASES.get(case) or OTHERS[case][1:]))
    start = State(graph, graph)
    action = BY_NAME[name]
    (site,) = action.sites(start)
    return taken(start, action, site)


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("squares") / "task.py"
    path.write_text(TASK)
    return Problem(load_task(path))


@pytest.fixture(scope="module")
def squares(problem):
    """The kernels of a task, by results of a square."""
    graph = read(problem)
    states = {}
    for results in NEAR:
        action = BY_NAME[f"winograd-{results}"]
        start = State(graph, graph)
        states[results] = taken(start, action, next(iter(action.sites(start))))
    library = built(
        {f"by{n}": (s.graph, dataclasses.replace(s.program, name=f"by{n}")) for n, s in states.items()}
    )
    return {n: library.get_function(f"by{n}") for n in states}


@pytest.mark.parametrize(("numerics", "results"), NUMERICS)
def test_the_contract_decides_which_squares_are_right_enough(numerics, results, problem, squares):
    case = Oracle(problem.under(problem.task.contract.under(numerics))).case(problem.task.workloads[0], 1)
    output = torch.empty_like(case.outputs[0].output)
    squares[results](*case.tensors, *case.state.values(), output)
    finding = compare_outputs("numerics", SimpleNamespace(outputs=[output]), case)
    assert (finding.status is CheckStatus.PASS) == NUMERICS[numerics, results], finding


@pytest.mark.parametrize(("numerics", "results"), NUMERICS)
def test_squares_that_the_contract_refuses_are_not_tried(numerics, results):
    factor = Contract().under(numerics).error_factor
    tried = {action.name for action in offered(forms_of("cpp"), factor)}
    assert (f"winograd-{results}" in tried) == NUMERICS[numerics, results]


@pytest.mark.parametrize(
    "build", [pytest.param(n, marks=pytest.mark.long if n != "few" else ()) for n in BUILDS]
)
def test_printed_squares_mean_the_convolution(build):
    flags, cases = BUILDS[build]
    wanted = {(case, name) for case in cases for name in ([OTHERS[case][0]] if case in OTHERS else SQUARES)}
    states = {f"{case}_{name}".translate(PLAIN): state_of(case, name) for case, name in sorted(wanted)}
    for name, state in states.items():
        assert all(p.image for p in products(state.program.steps)), name
    programs = {n: (s.graph, dataclasses.replace(s.program, name=n)) for n, s in states.items()}
    library = built(programs, *flags)
    for name, (graph, _) in programs.items():
        inputs = inputs_of(graph)
        (wanted,) = interpret(states[name].origin, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(name)(*inputs, output)
        near = NEAR[4] if name.endswith("4") else NEAR[2]
        assert float((output - wanted).abs().max() / wanted.abs().max()) < near, name


@pytest.mark.parametrize(
    ("case", "name"), [*((c, n) for c in CASES for n in SQUARES), *((c, OTHERS[c][0]) for c in OTHERS)]
)
def test_the_meaning_is_torchs(case, name):
    state = state_of(case, name)
    inputs = inputs_of(state.origin)
    (wanted,), (now,) = interpret(state.origin, inputs), interpret(state.graph, inputs)
    torchs = (CASES.get(case) or OTHERS[case][1:])[0](*(x.double() for x in inputs))
    assert torch.allclose(wanted, torchs, rtol=1e-9, atol=1e-9)
    assert torch.allclose(now, wanted, rtol=1e-9, atol=1e-9)


def test_transformed_weights_lie_in_panels_ahead():
    state = state_of("many", "winograd-4")
    name = f"{state.steps[0][1]}_panels"
    assert state.program.buffer(name).shape == (1, 3, 6, 6, 33, 16)
    assert f"{name}_kernel" in state.program.ahead
    back = undone(state, state.steps[0], ACTIONS)
    assert not back.decisions.tilings and str(back.graph) == str(state.origin)


@pytest.mark.parametrize(
    ("function", "shapes", "weights"),
    [
        (lambda x, w: F.conv2d(x, w, stride=2), [(1, 3, 9, 9)], [(16, 3, 3, 3)]),
        (lambda x, w: F.conv2d(x, w, dilation=2), [(1, 3, 9, 9)], [(16, 3, 3, 3)]),
        (lambda x, w: F.conv2d(x, w), [(1, 3, 9, 9)], [(16, 3, 5, 5)]),
        (lambda x, w: F.conv2d(x, w), [(1, 3, 9, 9)], [(17, 3, 3, 3)]),
        (lambda x, w: F.conv1d(x, w), [(1, 3, 9)], [(16, 3, 4)]),
        (lambda x, w: F.conv1d(x, w), [(1, 3, 40)], [(16, 3, 18)]),
    ],
)
def test_other_windows_and_panels_that_are_not_filled_are_not_offered(function, shapes, weights):
    graph = weighed(function, shapes, weights)
    for name in (*SQUARES, "winograd-3"):
        assert not list(BY_NAME[name].sites(State(graph, graph))), name


@pytest.mark.parametrize(("window", "stride", "sites"), [(4, 2, 1), (3, 2, 0), (6, 3, 0)])
def test_only_phases_of_two_taps_have_tiles(window, stride, sites):
    graph = weighed(
        lambda x, w: F.conv_transpose2d(x, w, stride=stride), [(1, 3, 5, 5)], [(3, 16, window, window)]
    )
    assert len(list(BY_NAME["winograd-phases"].sites(State(graph, graph)))) == sites


def test_weights_that_are_arguments_are_not_offered():
    graph = graph_of(CASES["odd"][0], *CASES["odd"][1], *CASES["odd"][2])
    assert not list(BY_NAME["winograd-2"].sites(State(graph, graph)))


def test_weights_that_something_else_was_done_to_are_refused():
    state = state_of("odd", "winograd-4")
    product = next(n for n in state.graph.nodes if isinstance(n, Product))
    side = "right" if product.right in state.graph.lasting else "left"
    old = getattr(product, side)
    other = Point(name="halves", shape=old.shape, dtype=old.dtype, op="exp", args=(old,))
    graph = state.graph.rewritten({product: dataclasses.replace(product, **{side: other})})
    with pytest.raises(Unprintable, match="done to"):
        cpp.source(lower(graph, state.decisions))


def test_the_search_tries_every_tile():
    for case, names in (
        ("odd", SQUARES),
        ("short row", ["winograd-3"]),
        ("phases of rows", ["winograd-phases"]),
    ):
        tried = [leaf.state.text for leaf in beam(weighed(*(CASES.get(case) or OTHERS[case][1:])), depth=1)]
        for name in names:
            assert any(f"{name}(" in text for text in tried), tried
