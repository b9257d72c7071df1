"""Windows over a padded copy: where the copy is worth it, what it means, and that the beam finds it."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built
from tests.compiler.test_reading import problem_of
from torch.nn import functional as F

from kernelwright.compiler.actions import SEVERAL, State, offered, taken
from kernelwright.compiler.graph import interpret, read
from kernelwright.compiler.policy import beam, estimate
from kernelwright.compiler.printers import cpp, forms_of
from kernelwright.compiler.tile import Guard, Loop, Row, expressions, run_program, statements, walk


def filtered(x, w, **how):
    return F.conv2d(x, w, groups=x.shape[1], **how)


CASES = {
    "filters": (lambda x, w: filtered(x, w, padding=1), [(2, 3, 9, 21), (3, 1, 3, 3)]),
    "uneven": (lambda x, w: filtered(x, w, padding=(2, 1)), [(2, 3, 10, 18), (3, 1, 5, 3)]),
    "holes": (lambda x, w: filtered(x, w, padding=2, dilation=(2, 1)), [(2, 2, 9, 19), (2, 1, 3, 3)]),
    "strided": (lambda x, w: filtered(x, w, padding=1, stride=(1, 2)), [(2, 2, 9, 37), (2, 1, 3, 3)]),
    "one side": (
        lambda x, w: filtered(F.pad(x, (2, 0, 0, 1)), w), [(2, 2, 7, 20), (2, 1, 3, 3)],
    ),
    "means": (lambda x: F.avg_pool3d(x, 3, 2, 1), [(2, 2, 7, 9, 11)]),
    "overlapping means": (lambda x: F.avg_pool2d(x, (3, 5), 1, (1, 2)), [(2, 2, 9, 20)]),
    "extrema": (lambda x: F.max_pool2d(x, 3, 1, 1, 2), [(3, 2, 9, 20)]),
    "up": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), [(3, 2, 10, 40)]),
    "activated": (lambda x, w: filtered(torch.relu(x * 2), w, padding=1), [(2, 3, 9, 17), (3, 1, 3, 3)]),
}  # fmt: skip


def staged(function, shapes, dtype="float32"):
    graph = graph_of(function, *shapes, dtype=dtype)
    state = State(graph, graph)
    (site,) = BY_NAME["stage"].sites(state)
    return state, taken(state, BY_NAME["stage"], site)


def inputs_of(state, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    made = [torch.randn(tuple(n.shape), generator=generator).to(dtype) for n in state.graph.inputs]
    made[0].view(-1)[::17], made[0].view(-1)[5] = float("-inf"), float("nan")
    return made


def kernels(state):
    return (s for k in state.program.steps for s in statements(k.body))


def guards(state):
    return sum(isinstance(e, Guard) for s in kernels(state) for x in expressions(s) for e in walk(x))


QUICKLY = ("holes", "one side", "means", "up", "activated")
"""What stands for all where loops run in Python; all are printed."""


@pytest.mark.parametrize(
    "case", [pytest.param(n, marks=() if n in QUICKLY else pytest.mark.long) for n in CASES]
)
def test_a_copy_means_what_the_windows_mean(case):
    before, after = staged(*CASES[case])
    inputs = inputs_of(after)
    (wanted,) = interpret(before.graph, inputs)
    (got,) = run_program(after.program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
    assert any(isinstance(s, Row) for s in kernels(after)) and guards(after) < 1


def test_copies_are_printed_for_whole_vectors_and_parts_and_half_precision():
    halves = {dtype: staged(*CASES["extrema"], dtype) for dtype in ("float16", "bfloat16")}
    every = {name.replace(" ", "_"): staged(*case) for name, case in CASES.items()} | halves
    programs = {
        name: (after.graph, dataclasses.replace(after.program, name=name))
        for name, (_, after) in every.items()
    }
    library = built(programs)
    for name, (before, after) in every.items():
        dtype = getattr(torch, name) if name in halves else torch.float32
        inputs = inputs_of(after, dtype)
        (wanted,) = interpret(before.graph, inputs)
        output = torch.zeros(tuple(wanted.shape), dtype=dtype)
        library.get_function(name)(*inputs, output)
        assert torch.allclose(output.double(), wanted, rtol=1e-5, atol=1e-5, equal_nan=True), name


def test_what_is_fused_before_a_window_is_computed_once_an_element():
    before, after = staged(*CASES["activated"])
    assert estimate(after.program).operations < estimate(before.program).operations / 4
    text = cpp.source(after.program)
    assert text.count("kw::relu(") == 1 and "load_between(" not in text
    assert "kw::keep(" not in text, "lanes beyond a tail are not stored"


def test_rows_of_results_share_what_their_windows_read():
    _, after = staged(*CASES["filters"])
    (rows,) = (s for s in kernels(after) if isinstance(s, Loop) and s.unroll > 1)
    assert rows.axis == "i2" and not rows.vector
    text = cpp.source(after.program)
    assert (
        "for (; i2_row + 4 <= 9; i2_row += 4) {" in text
        and "for (int64_t i2 = i2_row; i2 < 9; ++i2) {" in text
    )


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x: F.max_pool2d(x, 2, padding=1), [(2, 3, 8, 20)]),
        (lambda x: F.max_pool1d(x, 5, 2, 2), [(2, 3, 64)]),
        (lambda x: F.pad(x, (1, 1)) * 2, [(2, 3, 8, 20)]),
        (lambda x, w: F.conv2d(x, w, padding=1), [(2, 3, 8, 20), (4, 3, 3, 3)]),
        (lambda x: F.max_pool2d(x, 3, 1, 1), [(2, 3, 300, 300)]),
    ],
    ids=["nothing twice", "one row", "no window", "a dense product", "beyond a cache"],
)
def test_no_copy_where_it_saves_nothing(function, shapes):
    graph = graph_of(function, *shapes)
    assert not list(BY_NAME["stage"].sites(State(graph, graph)))


def test_no_copy_where_a_size_of_zero_would_leave_it_less_than_nothing(tmp_path):
    declaration = "x='float32[n, 3, h, w]', workloads=[{'n': 4, 'h': 12, 'w': 20}]"
    for step, legal in ((4, 0), (1, 1)):
        graph = read(
            problem_of(tmp_path, declaration, f"return torch.max_pool2d(x, (2, 9), ({step}, 1), (1, 4))")
        )
        assert len(list(BY_NAME["stage"].sites(State(graph, graph)))) == legal


def test_a_copy_serves_other_sizes(tmp_path):
    declaration = "x='float32[n, 3, h, w]', workloads=[{'n': 4, 'h': 12, 'w': 20}]"
    graph = read(problem_of(tmp_path, declaration, "return torch.max_pool2d(x, 3, 1, 1)"))
    assert set(graph.symbols) == {"n", "h", "w"}
    state = State(graph, graph)
    (site,) = BY_NAME["stage"].sites(state)
    program = taken(state, BY_NAME["stage"], site).program
    for shape in ((2, 3, 5, 7), (1, 3, 1, 1), (3, 3, 12, 17)):
        x = torch.randn(shape)
        (got,) = run_program(program, {0: x})
        assert torch.equal(got.float(), F.max_pool2d(x, 3, 1, 1)), shape


def test_depthwise_convolutions_keep_plain_loops_where_the_dense_products_get_a_form():
    def separable(x, w, v):
        return F.conv2d(torch.relu(F.conv2d(x, w, padding=1, groups=16)), v)

    graph = graph_of(separable, (4, 16, 14, 28), (16, 1, 3, 3), (32, 16, 1, 1))
    start = State(graph, graph)
    for name in ("library", "panels"):
        assert set(SEVERAL) < set(BY_NAME[name].sites(start))
    dense = taken(start, BY_NAME["panels"], "dense")
    assert len(dense.decisions.tilings) == 1 and list(BY_NAME["stage"].sites(dense))
    found = {leaf.state.text for leaf in beam(graph, actions=offered(forms_of("cpp")))}
    wanted = "library(dense); stage(relu_kernel.i0)", "panels(dense); stage(convolution_product5_kernel.i0)"
    assert found.issuperset(wanted)
