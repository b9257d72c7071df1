"""Rows of a product that are reduced where they are multiplied: where that is legal, right, and worth it."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built
from torch.nn import functional as F

from kernelwright.compiler._layouts import laid_out, space_of
from kernelwright.compiler.actions import ACTIONS, State, taken, undone
from kernelwright.compiler.graph import (
    Contract,
    Graph,
    Input,
    Reduce,
    Reshape,
    Size,
    interpret,
)
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import CostPolicy, beam, estimate
from kernelwright.compiler.printers import Unprintable, cpp, opencl, triton
from kernelwright.compiler.tile import Contraction, Kernel, Loop, Row, run_program, statements

CASES = {
    "softmax": (lambda x, w: torch.softmax(x @ w, -1), [(17, 8), (8, 9)]),
    "norm": (lambda x, w, b: F.layer_norm(F.gelu(F.linear(x, w, b)), (9,)), [(13, 20), (9, 20), (9,)]),
    "sequence": (lambda x, w, b: F.softmax(F.linear(x, w, b), -1), [(3, 7, 20), (9, 20), (9,)]),
    "largest": (lambda x, w, b: F.linear(x, w, b).amax(-1), [(33, 20), (9, 20), (9,)]),
    "place": (lambda x, w: (x @ w).argmax(-1), [(17, 6), (6, 33)]),
    "total": (lambda x, w: torch.relu(x @ w).sum(-1), [(33, 20), (20, 9)]),
    "heads": (lambda q, k: torch.softmax(q @ k.transpose(1, 2) * 0.5, -1), [(5, 6, 4), (5, 7, 4)]),
    "channels": (lambda x, w: torch.softmax(F.conv2d(x, w, padding=1), 1), [(2, 2, 2, 3), (4, 2, 3, 3)]),
    "groups": (lambda x, w: F.group_norm(F.conv2d(x, w, padding=1), 2), [(2, 2, 2, 3), (4, 2, 3, 3)]),
    "pooled": (
        lambda x, w, b: F.max_pool2d(F.group_norm(F.conv2d(x, w, b), 2), 2), [(3, 2, 5, 8), (4, 2, 3, 3), (4,)],
    ),
    "slices": (
        lambda x, w: torch.softmax(F.conv_transpose3d(x, w, None, 2, 1), 1), [(3, 2, 2, 3, 4), (2, 4, 3, 3, 3)],
    ),
    "phases": (
        lambda x, w, b: torch.softmax(F.conv_transpose2d(x, w, b, 2, 1, 1), 1),
        [(3, 2, 3, 4), (2, 4, 3, 3), (4,)],
    ),
    "attention": (F.scaled_dot_product_attention, [(2, 3, 6, 4), (2, 3, 7, 4), (2, 3, 7, 4)]),
}  # fmt: skip
STRIP_BYTES = 300
"""Some rows of the cases, with a rest."""
IMAGES = {"pooled": "convolve", "groups": "convolve", "slices": "phases", "phases": "phases"}
"""Cases whose convolutions run directly, an image at a time."""


def tiled(graph, form="panels"):
    product = next(n.name for n in graph.nodes if isinstance(n, Contract))
    return taken(State(graph, graph), BY_NAME[form], product)


def stripped(case, form="panels"):
    function, shapes = CASES[case]
    before = tiled(graph_of(function, *shapes), form)
    (site,) = BY_NAME["strip"].sites(before)
    return before, taken(before, BY_NAME["strip"], site)


def in_small_strips(state):
    moves = tuple(dataclasses.replace(m, size=STRIP_BYTES) for m in state.decisions.moves)
    return lower(state.graph, dataclasses.replace(state.decisions, moves=moves))


def drawn(graph):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(tuple(n.shape), generator=generator) for n in graph.inputs]


PRINTED = {**IMAGES, "sequence": "dots", "place": "panels", "attention": "panels"}
"""Cases whose printed kernels are run, with their forms, which also run in Python where there is time."""


@pytest.mark.parametrize(
    "case", [pytest.param(n, marks=pytest.mark.long if n in PRINTED else ()) for n in CASES]
)
def test_strips_mean_what_the_whole_means_and_store_no_product(case):
    before, state = stripped(case, IMAGES.get(case, "panels"))
    program = in_small_strips(state)
    assert len(program.steps) == len(before.program.steps) - 1
    assert len([b for b in program.buffers if b.role == "row"]) == 1
    (kernel,) = (
        k
        for k in program.steps
        if isinstance(k, Kernel) and any(isinstance(s, Row) for s in statements(k.body))
    )
    assert [s.axis for s in statements(kernel.body) if isinstance(s, Loop) and s.parallel] == [
        kernel.body[0].axis
    ]
    inputs = drawn(state.graph)
    (wanted,) = interpret(state.graph, inputs)
    (got,) = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted.double(), rtol=1e-6, atol=1e-6)
    assert undone(state, state.steps[-1], ACTIONS).decisions == before.decisions


def test_printed_strips_mean_the_same():
    cases = {**PRINTED, "softmax": "panels", "heads": "direct"}  # images first: with the headers of all
    states = {case: stripped(case, form)[1] for case, form in cases.items()}
    programs = {c: (s.graph, dataclasses.replace(in_small_strips(s), name=c)) for c, s in states.items()}
    library = built(programs)
    for case, (graph, _) in programs.items():
        inputs = drawn(graph)
        (wanted,) = interpret(graph, inputs)
        output = torch.full(tuple(wanted.shape), -1, dtype=getattr(torch, graph.outputs[0].dtype))
        library.get_function(case)(*inputs, output)
        assert (output.double() - wanted).abs().max() < 1e-4, case


def test_strips_that_save_memory_alone_are_kept():
    state = tiled(graph_of(CASES["pooled"][0], (32, 8, 32, 32), (64, 8, 3, 3), (64,)), "convolve")
    (site,) = BY_NAME["strip"].sites(state)
    (score,) = CostPolicy().score([(BY_NAME["strip"], site)], state)
    after = estimate(taken(state, BY_NAME["strip"], site).program)
    assert after.time_us > 0.99 * estimate(state.program).time_us and score == -after.time_us


def test_sizes_that_change_are_cut_as_they_come():
    rows, seq = Size("rows", (6, 2, 9)), Size("seq", (4, 3, 7))
    x = Input(name="x", shape=(rows, seq, 3), dtype="float32", position=0)
    w = Input(name="w", shape=(3, 5), dtype="float32", position=1)
    flat = Reshape(name="flat", shape=(rows * seq, 3), dtype="float32", source=x)
    product = Contract(
        name="product", shape=(rows * seq, 5), dtype="float32", left=flat, right=w, labels=("mk", "kn", "mn")
    )
    apart = Reshape(name="apart", shape=(rows, seq, 5), dtype="float32", source=product)
    top = Reduce(name="top", shape=(rows, seq), dtype="float32", source=apart, dims=(2,), monoid="max")
    total = Reduce(name="total", shape=(rows,), dtype="float32", source=top, dims=(1,), monoid="sum")
    graph = Graph((x, w), (total,), {"rows": (0, 0), "seq": (0, 1)})
    state = tiled(graph)
    (site,) = BY_NAME["strip"].sites(state)
    program = in_small_strips(taken(state, BY_NAME["strip"], site))
    for sizes in ((6, 4), (2, 3), (11, 5), (1, 1)):
        given = torch.randn(*sizes, 3, generator=torch.Generator().manual_seed(sizes[0])).double()
        weights = torch.arange(15.0).reshape(3, 5).sin()
        (got,) = run_program(program, {0: given, 1: weights})
        assert torch.allclose(got, (given @ weights.double()).amax(-1).sum(-1), atol=1e-5), sizes
    assert "product_count" in cpp.source(program)


def sites(function, *shapes, form="panels"):
    return list(BY_NAME["strip"].sites(tiled(graph_of(function, *shapes), form)))


def test_only_rows_that_one_kernel_reads_alone_are_multiplied_there():
    two = (33, 20), (20, 9)
    assert sites(lambda x, w: torch.softmax(x @ w, -1), *two)
    assert not sites(lambda x, w: torch.softmax(x @ w, 0), *two), "columns are read across rows"
    assert not sites(lambda x, w: [y := x @ w, (torch.softmax(y, -1), y)][1], *two), "the product is a result"
    assert not sites(lambda x, w: torch.softmax((x @ w).flip(0), -1), *two), "rows of other iterations"
    assert not sites(lambda x, w: torch.softmax(x @ w, -1), (4, 8), (8, 1 << 17)), "longer than a cache"
    plain = graph_of(lambda x, w: torch.softmax(x @ w, -1), *two)
    assert not list(BY_NAME["strip"].sites(State(plain, plain))), "plain loops"


def test_the_estimate_sees_the_traffic_that_is_saved():
    graph = graph_of(lambda x, w: torch.softmax(x @ w, -1), (8192, 16), (16, 1024))
    before = tiled(graph)
    after = taken(before, BY_NAME["strip"], next(iter(BY_NAME["strip"].sites(before))))
    saved = estimate(before.program).memory_bytes - estimate(after.program).memory_bytes
    assert saved == 2 * 4 * 8192 * 1024
    assert any("strip(" in leaf.state.text for leaf in beam(graph)[:3])


def test_the_tuner_chooses_the_strip_and_other_languages_decline():
    _, state = stripped("softmax")
    space = space_of(state.program, state.decisions.moves)
    assert next(p for p in space.parameters if p.name == "strip_kib").values[0] == 128
    narrow = lower(state.graph, laid_out(state.decisions, {"strip_kib": 32}))
    assert narrow.buffer("mm").shape == state.program.buffer("mm").shape == (17 * 9, 1)
    for printer in (opencl, triton):
        with pytest.raises(Unprintable):
            printer.render(state.program, state.graph)


def test_a_strip_is_a_statement_of_the_kernel_that_reads_it():
    _, state = stripped("total")
    (kernel,) = state.program.steps
    assert len([s for s in statements(kernel.body) if isinstance(s, Contraction)]) == 1
    sources = {s.path: s.text for s in cpp.render(state.program, state.graph).sources}
    assert sources["kernel.cpp"].count("kw::contract<Tiles>") == 1 and "contraction.h" in sources
