"""What is fused, what is stored, and what names come out of it."""

from dataclasses import replace

import pytest
import torch
from tests.compiler.test_actions import graph_of
from torch.nn import functional as F

from kernelwright.compiler.actions import State
from kernelwright.compiler.graph import RESERVED, Size, fit, interpret, read
from kernelwright.compiler.lower import Decisions, _loops, lower
from kernelwright.compiler.lower._index import _divides
from kernelwright.compiler.lower._loops import scheduled
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import (
    Contraction,
    Kernel,
    Loop,
    number,
    run_program,
    statements,
    touched,
    written,
)
from kernelwright.tasks import Problem, load_task


def steps_of(function, *shapes):
    graph = graph_of(function, *shapes)
    return graph, lower(graph)


def test_a_normalised_row_is_one_kernel():
    _, program = steps_of(lambda x: torch.softmax(x, -1), (5, 7))
    assert len(program.steps) == 1 and not [b for b in program.buffers if b.role == "temporary"]


def test_statistics_over_everything_come_from_a_kernel_before():
    _, program = steps_of(lambda x: x / x.pow(2).sum().sqrt(), (50, 70))
    (kernel,) = program.steps
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    assert len(loops) == 2 and all(loop.parallel for loop in loops)


@pytest.mark.parametrize("channels", [24, 6])
def test_channels_of_a_pixel_are_folded_once_in_lanes_over_pixels(channels):
    _, program = steps_of(lambda x: x / x.pow(2).mean(1, keepdim=True), (3, channels, 20, 30))
    (kernel,) = program.steps
    (loop,) = kernel.body
    while not loop.vector:
        (loop,) = loop.body
    assert loop.end == number(600)
    fold, write = [s for s in loop.body if isinstance(s, Loop)]
    assert [s.end for s in (fold, write)] == [number(channels)] * 2 and not any(
        isinstance(s, Loop) for s in (*fold.body, *write.body)
    )


@pytest.mark.long
def test_a_fold_of_few_is_repeated_where_no_order_serves_two():
    graph, program = steps_of(lambda x: x / x.sum(1, keepdim=True) / x.sum(2, keepdim=True), (30, 4, 500))
    assert len(program.steps) == 1 and [b.role for b in program.buffers] == ["argument", "output"]
    x = torch.rand(30, 4, 500)
    assert torch.allclose(run_program(program, {0: x})[0], interpret(graph, [x])[0], atol=1e-5)


def test_a_softmax_under_a_window_is_not_folded_for_every_channel():
    graph, program = steps_of(lambda x: F.max_pool2d(torch.softmax(x, 1), 2), (2, 16, 8, 8))
    before = program.steps[:-1]
    assert before and "sum" in "".join(name for step in before for name in written(step))
    x = torch.randn(2, 16, 8, 8)
    assert torch.allclose(run_program(program, {0: x})[0], interpret(graph, [x])[0], atol=1e-6)


def test_windows_two_apart_are_read_in_lanes_over_what_they_give():
    _, program = steps_of(lambda x: F.avg_pool1d(x, 4, stride=2), (3, 90))
    assert "kw::load_evens(x0 + " in cpp.source(program)
    _, three = steps_of(lambda x: F.avg_pool1d(x, 9, stride=3), (3, 90))
    assert "kw::load_evens(" not in cpp.source(three)


def test_a_sum_over_windows_two_apart_runs_in_lanes_over_the_windows():
    graph, program = steps_of(lambda x: torch.sigmoid(F.avg_pool2d(x, 2)).sum((1, 2, 3)), (3, 4, 10, 70))
    assert "kw::load_evens(x0 + " in cpp.source(program)
    x = torch.randn(3, 4, 10, 70)
    assert torch.allclose(run_program(program, {0: x})[0], interpret(graph, [x])[0], rtol=1e-5)


def test_lanes_never_run_over_a_window_of_one():
    _, program = steps_of(lambda x: F.avg_pool1d(x.unsqueeze(1), 4).squeeze(1).amax(1), (3, 96))
    found = [s for step in program.steps for s in statements(step.body) if isinstance(s, Loop) and s.vector]
    assert found and all(s.end != number(1) for s in found)


def test_sums_of_lanes_are_two_vectors_of_doubles():
    _, program = steps_of(lambda x: x.sum(1), (3, 90))
    assert "kw::Wide sum" in cpp.source(program)


def test_what_follows_a_product_is_its_epilogue():
    _, program = steps_of(lambda x, w: torch.relu(x @ w + 1), (5, 7), (7, 9))
    (step,) = program.steps
    assert isinstance(step, Contraction)


def test_a_reduction_after_a_product_waits_for_it():
    graph, program = steps_of(lambda x, w: torch.sigmoid(x @ w).mean(dim=(0, 1)), (5, 7), (7, 9))
    assert [type(s) for s in program.steps] == [Contraction, Kernel]
    inputs = [torch.randn(5, 7), torch.randn(7, 9)]
    got = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got[0], interpret(graph, inputs)[0], atol=1e-6)


def test_a_product_over_what_was_pooled_and_flattened_is_ours():
    def classified(x, w):
        return torch.relu(torch.nn.functional.max_pool2d(x, 2).flatten(1) @ w) @ w[:9]

    graph, program = steps_of(classified, (3, 4, 6, 6), (36, 9))
    assert not program.natives and sum(isinstance(s, Contraction) for s in program.steps) == 2
    inputs = [torch.randn(3, 4, 6, 6), torch.randn(36, 9)]
    got = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got[0], interpret(graph, inputs)[0], rtol=1e-4, atol=1e-4)


def _deep(layers):
    """A chain in which every product is stored, the first one once more at the end."""

    def net(x, w):
        first = h = torch.relu(x @ w)
        for _ in range(layers):
            h = torch.relu(h @ w)
        return h + first

    return net


def test_a_deep_chain_has_a_step_a_layer_and_what_a_late_step_came_by_is_made_again():
    graph, program = steps_of(_deep(205), (2, 3), (3, 3))
    assert len(program.steps) == 206
    graph, program = steps_of(_deep(2), (2, 3), (3, 3))
    inputs = [torch.randn(2, 3), torch.randn(3, 3)]
    got = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got[0], interpret(graph, inputs)[0], atol=1e-6)


def test_a_slice_of_what_was_flattened_is_not_cut_like_the_whole():
    graph, program = steps_of(lambda x: x.flatten()[:5] * 2, (5, 7, 3))
    x = torch.randn(5, 7, 3)
    (got,) = run_program(program, {0: x})
    assert got.shape == (5,) and torch.allclose(got, interpret(graph, [x])[0])


def test_a_scatter_stores_what_its_loops_cannot_follow():
    def net(x, at):
        places = at.abs().long().transpose(0, 1).reshape(15) % 9
        return torch.zeros(9, 6).scatter_add(
            0, places[:, None].expand(15, 6), x.transpose(0, 1).reshape(15, 6)
        )

    graph = graph_of(net, (3, 5, 6), (3, 5))
    inputs = [torch.randn(3, 5, 6), 9 * torch.rand(3, 5)]
    (got,) = run_program(lower(graph), dict(enumerate(inputs)))
    assert torch.allclose(got, interpret(graph, inputs)[0], atol=1e-6)


@pytest.mark.parametrize(("dim", "order"), [(0, ["i0", "i1"]), (1, ["i0", "i1"])])
def test_a_scatter_goes_along_rows_as_they_lie_in_memory(dim, order):
    def net(x, at):
        return torch.zeros(9, 9).scatter_add(dim, at.abs().long() % 9, x)

    graph = graph_of(net, (9, 9), (9, 9))
    program = lower(graph)
    put = next(step for step in program.steps if step.name.endswith("_put"))
    loops = [put.body[0], put.body[0].body[0]]
    assert [loop.axis for loop in loops] == order
    assert [loop.ordered for loop in loops] == [dim == 0, dim == 1], (
        "in turn along dim, in any order elsewhere"
    )
    inputs = [torch.randn(9, 9), 9 * torch.rand(9, 9)]
    (got,) = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got, interpret(graph, inputs)[0], atol=1e-6)


GATE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width, paths):
        super().__init__()
        self.mix, self.norm = torch.nn.Linear(width, paths), torch.nn.BatchNorm1d(paths)
        self.heat = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return torch.softmax(self.heat * self.norm(self.mix(x)), 1)

rows = 256
width = 256
paths = 256

def get_inputs():
    return [torch.rand(rows, width)]

def get_init_inputs():
    return [width, paths]
"""


def test_what_several_steps_come_by_is_made_before_it_is_read(tmp_path):
    (tmp_path / "gate.py").write_text(GATE)
    problem = Problem(load_task(str(tmp_path / "gate.py")))
    graph = read(problem)
    changed = {old for old, _ in graph.mutations}
    assert changed and not changed & graph.lasting, "running statistics change in every call"
    program = lower(graph)
    made = {b.name for b in program.buffers if b.role == "argument"}
    for step in program.steps:
        made |= written(step)
        assert set(touched(step)[0]) <= made, step.name


def test_a_group_norm_cuts_the_channels():
    _, program = steps_of(lambda x, w: torch.nn.functional.group_norm(x, 2, w), (3, 8, 5), (8,))
    (kernel,) = program.steps
    sizes = [int(s.end.value) for s in statements(kernel.body) if isinstance(s, Loop)]
    assert sizes[:2] == [3, 2]


def test_a_group_norm_with_an_infinite_weight_is_undefined_where_torch_is():
    def norm(x, w, b):
        return torch.nn.functional.group_norm(x, 2, w, b)

    graph = graph_of(norm, (3, 8, 5), (8,), (8,))
    x = torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(3))
    w, b = torch.ones(8), torch.zeros(8)
    w[1], w[6], b[2] = float("inf"), float("-inf"), float("nan")
    own, native = interpret(graph, [x, w, b])[0], norm(x, w, b)
    assert native.isnan().any() and native.isinf().any()
    assert torch.allclose(own.float(), native, atol=1e-5, equal_nan=True)


def test_names_that_sources_use_are_not_given_away():
    from kernelwright.compiler.graph import from_captured
    from kernelwright.records import TensorSpec, Workload
    from kernelwright.tasks.capture import capture

    class Plain:
        def reference(self, workload):
            return lambda q, k: torch.relu(q + k)

    specs = tuple(TensorSpec(name=n, shape=(4,), dtype="float32") for n in ("int", "k"))
    workload = Workload(name="w", arguments=specs)
    program = lower(from_captured(capture(Plain(), workload), workload))
    assert not {b.name for b in program.buffers} & RESERVED
    assert "k_b2" in cpp.source(program)


def test_a_rule_by_division_says_when_it_holds():
    half = fit((4, 6, 9), {"n": (8, 12, 18)})
    assert isinstance(half, Size) and half.guard == "n % 2 == 0"


@pytest.mark.parametrize("rest", [(), (5,)])
def test_updates_at_equal_positions_come_one_after_another(rest):
    index = torch.arange(90).remainder(3)
    _, program = steps_of(
        lambda x: torch.zeros(3, *rest).index_put((index,), x, accumulate=True), (90, *rest)
    )
    put = next(s for s in program.steps if s.name.endswith("_put"))
    loops = [s for s in statements(put.body) if isinstance(s, Loop)]
    (along,) = (loop for loop in loops if loop.ordered)
    assert along.end == number(90) and not (along.parallel or along.vector)


def test_buffers_come_in_the_order_of_the_graph():
    _, program = steps_of(lambda x: tuple(torch.sin(x[:, : n + 1]) for n in range(12)), (3, 12))
    outputs = [b.position for b in program.buffers if b.role == "output"]
    assert outputs == sorted(outputs) and len(outputs) == 12


def test_an_axis_is_cut_only_where_nothing_is_left_at_any_size():
    rows, inner = Size("rows", (24, 10)), Size("inner", (8, 16))
    assert not _divides(inner, rows) and _divides(inner, rows * inner) and not _divides(inner, 0 + rows)


def test_kernels_that_another_schedule_has_too_are_arranged_once(monkeypatch):
    graph = graph_of(lambda x, y: (torch.softmax(x, -1), y.exp().sum(0)), (5, 7), (9, 4))
    calls = []
    monkeypatch.setattr(_loops, "scheduled", lambda *a: calls.append(a[0].name) or scheduled(*a))
    state = State(graph, graph)
    assert len(state.program.steps) == 2 and set(calls) == {"softmax_kernel", "sum_kernel"}
    calls.clear()
    other = replace(state, decisions=Decisions(before=frozenset(["exp"])))
    assert [step.name for step in other.program.steps] == ["softmax_kernel", "exp_kernel", "sum_kernel"]
    assert "softmax_kernel" not in calls
    assert other.program.steps == lower(graph, other.decisions).steps


def test_a_native_value_that_is_handed_on_comes_from_the_operation_that_made_it():
    _, program = steps_of(lambda x: torch.special.bessel_j0(x).clone() + 1, (5, 7))
    assert [call.name for call in program.natives] == ["special_bessel_j0"]


def test_patches_are_windows():
    x = torch.arange(96.0).reshape(2, 6, 8)

    def patches(x):
        return x.unfold(-2, 3, 3).unfold(2, 2, 4).contiguous().view(2, -1, 6) * 2

    _, program = steps_of(patches, x.shape)
    assert not program.natives
    (got,) = run_program(program, {0: x})
    assert torch.equal(got, patches(x))
