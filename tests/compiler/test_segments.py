"""Sums, products and extrema by index: sorted by segment first, they mean the same and are computed once."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built

from kernelwright.compiler.actions import ACTIONS, State, offered, replayed, taken, undone
from kernelwright.compiler.graph import Gather, Order, Scatter, Segment, from_captured, interpret
from kernelwright.compiler.policy import beam, estimate
from kernelwright.compiler.printers import Unprintable, cpp, forms_of, opencl
from kernelwright.compiler.tile import Loop, run_program, statements
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import record_function

SEGMENTS = BY_NAME["segments"]
NODES, EDGES, WIDTH = 13, 90, 19


def graph_by_index(function, edges=EDGES, dtype="float32", width=WIDTH, nodes=NODES):
    """Read `function(x, target)`, rows of `x` by the index."""
    specs = (
        TensorSpec(name="x", shape=(edges, width), dtype=dtype),
        TensorSpec(name="target", shape=(edges,), dtype="int64"),
    )
    workload = Workload(name="w", arguments=specs)

    return from_captured(record_function(function, workload, inputs_of(edges, dtype, width, nodes)), workload)


def inputs_of(edges=EDGES, dtype="float32", width=WIDTH, nodes=NODES):
    generator = torch.Generator().manual_seed(4)
    target = torch.randint(0, nodes - 2, (edges,), generator=generator)  # two segments stay empty
    return [torch.randn(edges, width, generator=generator).to(getattr(torch, dtype)), target]


def total(x, target):
    return torch.zeros(NODES, WIDTH, dtype=x.dtype).index_add(0, target, x.exp())


CASES = {
    "total": total,
    "negative": lambda x, t: torch.ones(NODES, WIDTH).index_put((t - NODES,), x, accumulate=True),
    "largest": lambda x, t: torch.zeros(NODES).scatter_reduce(0, t, x[:, 3], "amax"),
    "expanded": lambda x, t: torch.zeros(NODES, WIDTH).scatter_add(0, t.view(-1, 1).expand_as(x), x),
    "product": lambda x, t: torch.full((NODES, WIDTH), 2.0).scatter_reduce(0, t.view(-1, 1).expand_as(x), x, "prod"),
    "mean": lambda x, t: total(x, t) / torch.zeros(NODES).index_add(0, t, torch.ones(EDGES)).clamp(min=1).unsqueeze(1),
    "gathered": lambda x, t: torch.relu(total(x, t))[t] - x,
}  # fmt: skip


def by_segment(name):
    graph = graph_by_index(CASES[name])
    return replayed(graph, [("segments", list(SEGMENTS.sites(State(graph, graph)))[-1])], ACTIONS)


@pytest.mark.parametrize("name", CASES)
def test_segments_mean_what_updates_one_by_one_mean(name):
    state, inputs = by_segment(name), inputs_of()
    assert not any(isinstance(n, Scatter) and "counts" not in n.name for n in state.graph.nodes)
    wanted = CASES[name](*inputs).double()
    assert torch.allclose(interpret(state.graph, inputs)[0], wanted, rtol=1e-4, atol=1e-4)
    assert torch.allclose(
        run_program(state.program, dict(enumerate(inputs)))[0], wanted, rtol=1e-4, atol=1e-4
    )
    assert str(undone(state, state.steps[-1], ACTIONS).graph) == str(state.origin)


def test_printed_segments_mean_the_same():
    states = {name: by_segment(name) for name in CASES}
    programs = {n: (s.graph, dataclasses.replace(s.program, name=n)) for n, s in states.items()}
    library, inputs = built(programs), inputs_of()
    for name in CASES:
        wanted = CASES[name](*inputs)
        output = torch.full_like(wanted, float("nan"))
        library.get_function(name)(*inputs, output)
        assert torch.allclose(output, wanted, rtol=1e-4, atol=1e-4), name


def test_rows_of_a_segment_are_read_side_by_side_by_one_thread():
    state = by_segment("total")
    kernel = next(s for s in state.program.steps if s.name == "index_put_kernel")
    segment, lanes, inner = (s for s in statements(kernel.body) if isinstance(s, Loop))
    assert segment.parallel and lanes.vector and not inner.vector and inner.expected_extent == EDGES // NODES
    assert "kw::load(x + ((target_order_13_v2 * 19) + i1), lanes)" in cpp.source(state.program)


def test_what_goes_to_the_same_places_is_sorted_once():
    assert sum(isinstance(n, Order) for n in by_segment("mean").graph.nodes) == 1
    assert sum(isinstance(n, Segment) for n in by_segment("mean").graph.nodes) == 2


def test_only_what_combines_along_the_first_dimension_is_sorted():
    def sites(function):
        graph = graph_by_index(function)
        return list(SEGMENTS.sites(State(graph, graph)))

    assert sites(lambda x, t: torch.zeros(NODES, WIDTH).index_put((t,), x)) == []
    assert (
        sites(lambda x, t: torch.zeros(EDGES, NODES).scatter_add(1, t.view(-1, 1).expand_as(x) % NODES, x))
        == []
    )
    assert (
        sites(lambda x, t: torch.zeros(NODES, WIDTH + 1).scatter_add(0, t.view(-1, 1).expand_as(x), x)) == []
    )


def test_segments_of_a_product_are_combined_by_a_kernel_of_their_own():
    graph = graph_by_index(lambda x, t: total(x @ x.mT @ x, t))
    program = replayed(graph, [("segments", next(SEGMENTS.sites(State(graph, graph))))], ACTIONS).program
    assert program is not None and not program.natives


def test_the_estimate_sees_what_sorting_saves():
    def by_node(x, t):
        return torch.zeros(1024, 64).index_add(0, t, x)

    graph = graph_by_index(by_node, edges=8192, width=64)
    start = State(graph, graph)
    after = taken(start, SEGMENTS, next(iter(SEGMENTS.sites(start))))
    assert estimate(after.program).time_us < estimate(start.program).time_us
    assert beam(graph)[0].state.text.startswith("segments(")


def test_half_floats_are_summed_in_single():
    graph = graph_by_index(total, dtype="bfloat16")
    start = State(graph, graph)
    after = taken(start, SEGMENTS, next(iter(SEGMENTS.sites(start))))
    inputs = inputs_of(dtype="bfloat16")
    wanted = total(*(t.double() if t.is_floating_point() else t for t in inputs))
    (got,) = run_program(after.program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-6)


def test_work_groups_have_no_sort():
    assert "segments" not in {a.name for a in offered(forms_of("wgsl"))}
    state = by_segment("total")
    with pytest.raises(Unprintable, match=r"reads target_order_13_next|no room for rows"):
        opencl.render(state.program, state.graph)


def test_a_gather_of_rows_is_loaded_in_vectors():
    graph = graph_by_index(lambda x, t: torch.relu(x[t % NODES]))
    assert "kw::each(" not in cpp.source(State(graph, graph).program)
    assert graph_of(torch.relu, (3, 4)).natives == ()


def test_a_gather_by_several_tensors_is_one_by_their_place():
    def pick(x, t):
        return x.view(9, 10, 19)[:, t.view(9, 10) % 10, t[:10] % 19 - 19]

    graph = graph_by_index(pick)
    assert not graph.natives
    assert torch.equal(interpret(graph, inputs_of())[0], pick(*inputs_of()).double())


def test_positions_along_dimensions_of_their_own_are_a_gather_each():
    def grid(x, t):
        return x[(t % 7).unsqueeze(1), t % WIDTH]

    graph = graph_by_index(grid)
    assert not graph.natives and sum(isinstance(n, Gather) for n in graph.nodes) == 2
    assert torch.equal(interpret(graph, inputs_of())[0], grid(*inputs_of()).double())

    def mixed(x, t):
        return x[(t % 7).unsqueeze(1), (t % WIDTH).repeat(3, 1).t()]

    whole = graph_by_index(mixed)
    assert not whole.natives and sum(isinstance(n, Gather) for n in whole.nodes) == 1
    assert torch.equal(interpret(whole, inputs_of())[0], mixed(*inputs_of()).double())
