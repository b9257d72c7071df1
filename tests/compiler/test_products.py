"""Products in every form: built, run and compared with float64, with tails, views, windows and what is fused."""

import dataclasses
from importlib.resources import files

import pytest
import torch
from tests.compiler.narrower import NO_PAIRS, differing
from tests.compiler.test_actions import BY_NAME, graph_of
from torch.nn import functional as F

from kernelwright.compiler import Schedule, flow
from kernelwright.compiler._layouts import space_of
from kernelwright.compiler.actions import ACTIONS, State, replayed, taken, undone
from kernelwright.compiler.graph import Contract, interpret
from kernelwright.compiler.lower import Decisions, lower
from kernelwright.compiler.policy import Leaf, beam, estimate
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import Contraction, Tiling, merged
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.languages._destination import load_library
from kernelwright.propose import Request
from kernelwright.propose.schedule import ScheduleProposer
from kernelwright.records import BuildStatus, SourceFile, Space
from kernelwright.tasks import Problem, load_task

CASES = {
    "bias": (lambda x, w, b: torch.relu(x @ w + b), [(29, 50), (50, 37), (37,)]),
    "linear": (lambda x, w, b: F.gelu(F.linear(F.silu(x), w, b)), [(2, 9, 70), (37, 70), (37,)]),
    "batched": (lambda x, w: torch.bmm(x, w.transpose(1, 2)) * 2, [(3, 10, 30), (3, 18, 30)]),
    "heads": (lambda x, w: (x @ w).reshape(2, 5, 3, 8).transpose(1, 2) + 1, [(2, 5, 24), (24, 24)]),
    "turned": (lambda x, w: x.t() @ w, [(40, 25), (40, 35)]),
    "row": (lambda x, w: x @ w, [(1, 150), (150, 20)]),
    "convolved": (
        lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)), [(2, 5, 6, 19), (7, 5, 3, 3), (7,)],
    ),
    "windows": (lambda x: F.max_pool1d(x, 5, stride=2, padding=2), [(2, 77)]),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=2), [(1, 4, 9, 11), (6, 2, 3, 3)]),
    "pointwise": (lambda x, w: F.conv2d(x, w), [(2, 5, 9, 7), (7, 5, 1, 1)]),
    "dot": (lambda x, w: torch.einsum("bk,bk->b", x, w), [(3, 130), (3, 130)]),
}  # fmt: skip
TILE_MODEL = "-DKW_TILE_MODEL"
"""Builds for a model of the tile unit (AMX)."""
TILINGS = {
    "loops": Tiling("loops"),
    "panels": Tiling("panels", depth=32, block=24),
    "direct": Tiling("direct", vectors=1, rows=4, depth=64),
    "dots": Tiling("dots", depth=64, block=8),
    "split": Tiling("direct", depth=16, split=3),
    "split-dots": Tiling("dots", split=3),
    "double": Tiling("loops", accumulate="float64"),
}


PAIRS = [
    ("bias", "panels"), ("windows", "loops"), ("linear", "panels"), ("batched", "dots"), ("heads", "direct"),
    ("turned", "split"), ("convolved", "direct"), ("strided", "panels"), ("dot", "split-dots"),
    ("pointwise", "double"),
]  # fmt: skip


def graph_in(case):
    function, shapes = CASES[case]
    return graph_of(function, *shapes)


def program_of(case, tiling, name="product"):
    graph = graph_in(case)
    products = [n.name for n in graph.nodes if isinstance(n, Contract)]
    assert products or tiling.form == "loops"
    program = lower(graph, Decisions(tilings=dict.fromkeys(products, tiling)))
    return graph, dataclasses.replace(program, name=name)


@pytest.mark.parametrize(("case", "of_rows"), [("turned", True), ("bias", False), ("batched", False)])
def test_a_left_factor_that_lies_along_its_rows_is_read_so(case, of_rows):
    """Rows of it would be gathered, element by element, once for every group of columns."""
    for tiling in ("panels", "direct", "dots"):
        text = cpp.source(program_of(case, TILINGS[tiling])[1])
        assert ("kw::OfRows left" in text) == of_rows


def built(programs, *flags):
    """Compile programs as one file, each in a namespace of its own; returns the loaded library."""
    first = cpp.source(next(iter(programs.values()))[1])
    texts = [line for line in first.splitlines() if line.startswith("#include")]
    for space, (_, program) in programs.items():
        text = cpp.source(program).replace("#include", "// #include")
        texts.append(f"namespace space_{space} {{\n{text}}}")
    graph, program = next(iter(programs.values()))
    one = cpp.render(program, graph)
    headers = [s for s in one.sources if s.path.endswith(".h")]
    if TILE_MODEL in flags:
        text = (files(cpp.__name__) / "tile_model.h").read_text()
        headers.append(SourceFile(path="tile_model.h", text=text))
    whole = SourceFile(path="kernel.cpp", text="\n".join(texts))
    candidate = one.model_copy(update={
        "sources": (whole, *headers), "flags": (*one.flags, "-O0", *flags), "style": "destination",
        "entry": f"kernel.cpp:{program.name}",
    })  # fmt: skip
    build = get_language("cpp").build(candidate, deadline_s=400)
    assert build.status is BuildStatus.OK, build.diagnostics
    return load_library(f"{build.artefact}/kernel.so")


def differences(programs, library):
    """Yield how far each program is from float64."""
    generator = torch.Generator().manual_seed(5)
    for space, (graph, _) in programs.items():
        inputs = [torch.randn(tuple(n.shape), generator=generator) for n in graph.inputs]
        (wanted,) = interpret(graph, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(space)(*inputs, output)
        yield space, float((output - wanted).abs().max())


def held(pairs, *flags):
    programs = {c: program_of(c, TILINGS[t], c) for c, t in pairs}
    for space, difference in differences(programs, built(programs, *flags)):
        assert difference < 1e-4, space


def test_every_form_means_what_the_graph_means():
    held(PAIRS)


def test_vectors_of_eight_mean_the_same():
    held(PAIRS[:3], "-mno-avx512f")


OF_PAIRS = {
    "several_tiles": (torch.mm, [(29, 40), (40, 96)], Tiling("panels", block=8)),
    "several_panels": (torch.mm, [(13, 79), (79, 40)], Tiling("panels", depth=32)),
    "uneven": (lambda x, w: torch.relu(x @ w), [(5, 33), (33, 51)], Tiling("panels")),
    "one_vector": (torch.mm, [(30, 9), (9, 7)], Tiling("panels")),
    "turned": (lambda x, w: torch.bmm(x, w.mT) * 2, [(3, 10, 30), (3, 18, 30)], Tiling("panels")),
    "shares": (torch.mm, [(4, 101), (101, 33)], Tiling("panels", depth=16, split=3)),
}


@pytest.mark.parametrize("flags", differing({"pairs": (), "none": NO_PAIRS}).values(), ids=str)
def test_two_factors_of_bfloat16_are_multiplied_by_pairs_where_the_machine_can(flags):
    programs = {}
    for case, (function, shapes, tiling) in OF_PAIRS.items():
        graph = graph_of(function, *shapes, dtype="bfloat16")
        (product,) = [n.name for n in graph.nodes if isinstance(n, Contract)]
        programs[case] = (
            graph,
            dataclasses.replace(lower(graph, Decisions(tilings={product: tiling})), name=case),
        )
    library = built(programs, *flags)
    generator = torch.Generator().manual_seed(5)
    for case, (graph, _) in programs.items():
        inputs = [torch.randn(tuple(n.shape), generator=generator).bfloat16() for n in graph.inputs]
        (wanted,) = interpret(graph, [x.double() for x in inputs])
        output = torch.full(tuple(wanted.shape), float("nan"), dtype=torch.bfloat16)
        library.get_function(case)(*inputs, output)
        assert bool(((output - wanted).abs() <= 2**-8 * wanted.abs() + 1e-4 * wanted.abs().max()).all()), case
    output = torch.full((29, 96), float("nan"), dtype=torch.bfloat16)
    denormal, large = torch.full((29, 40), 2.0**-130).bfloat16(), torch.full((40, 96), 2.0**120).bfloat16()
    library.get_function("several_tiles")(denormal, large, output)
    by_pairs = not flags and "avx512_bf16" in detect("cpu").vector_units
    assert bool((output == 0).all()) == by_pairs, "the instruction counts denormals as zero"


def test_what_is_short_leaves_the_registers_at_once():
    _, short = program_of("bias", TILINGS["panels"])
    _, long = program_of("linear", TILINGS["panels"])
    assert "32, 24, true>" in cpp.source(short)
    assert "32, 24, false>" in cpp.source(long), "a gelu is not printed for every register"


def test_weights_are_read_in_vectors_where_windows_keep_their_axes_apart():
    _, program = program_of("convolved", TILINGS["panels"])
    left = cpp.source(program).split("const auto left")[1].split("};")[0]
    assert "kw::load(" in left and "kw::each" not in left


def test_a_minus_zero_in_all_lanes_keeps_its_sign():
    graph = graph_of(lambda x, y: x * y, (4, 1), (4, 32))
    program = dataclasses.replace(lower(graph, Decisions()), name="product")
    out = torch.empty(4, 32)
    product = built({"signs": (graph, program)}).get_function("product")
    product(torch.full((4, 1), -0.0), torch.ones(4, 32), out)
    assert bool(torch.signbit(out).all())


def contraction_of(case):
    (step,) = program_of(case, Tiling("panels"))[1].steps
    assert isinstance(step, Contraction)
    return step


def test_axes_that_no_buffer_tells_apart_run_as_one():
    _, program = program_of("linear", Tiling("panels"))
    shapes = {b.name: b.shape for b in program.buffers}
    (step,) = program.steps
    assert [a.size for a in step.rows] == [2, 9]
    assert [a.size for a in merged(step, shapes).rows] == [18]


def test_axes_of_a_window_stay_apart():
    _, program = program_of("convolved", Tiling("panels"))
    (step,) = program.steps
    after = merged(step, {b.name: b.shape for b in program.buffers})
    assert [a.size for a in after.columns] == [2, 6, 19] and [a.size for a in after.inner] == [5, 3, 3]


def test_a_result_of_one_axis_is_stored_once():
    graph = graph_of(lambda x, w: (x @ w).sum(-1), (5, 4), (4, 6))
    _, step = taken(State(graph, graph), BY_NAME["commute"], "sum").program.steps
    assert [s.buffer for s in step.epilogue] == ["sum"]


def test_columns_are_what_lies_side_by_side():
    assert [a.size for a in contraction_of("convolved").columns][-1] == 19
    assert [a.size for a in contraction_of("bias").columns] == [37]


def test_a_form_is_chosen_once_and_can_be_taken_back():
    graph = graph_in("linear")
    (product,) = [n.name for n in graph.nodes if isinstance(n, Contract)]
    start = State(graph, graph)
    assert product in set(BY_NAME["dots"].sites(start))
    after = taken(start, BY_NAME["panels"], product)
    assert after.decisions.tilings[product].form == "panels"
    assert not list(BY_NAME["direct"].sites(after))
    assert undone(after, after.steps[0], ACTIONS).decisions == start.decisions


def test_dots_are_for_factors_that_lie_along_the_sum():
    graph = graph_in("bias")
    assert not list(BY_NAME["dots"].sites(State(graph, graph)))


def test_only_long_sums_are_split():
    def split_of(inner):
        graph = graph_of(lambda x, w: x @ w, (2, inner), (inner, 3))
        return list(BY_NAME["split"].sites(taken(State(graph, graph), BY_NAME["direct"], "mm")))

    assert split_of(2048) == ["mm"] and not split_of(64)
    graph = graph_of(lambda x, w: x @ w, (2, 4096), (4096, 3))
    state = replayed(graph, [("direct", "mm"), ("split", "mm")], ACTIONS)
    (step,) = lower(graph, state.decisions).steps
    assert step.tiling.split == BY_NAME["split"].shares


def test_a_native_product_has_no_form():
    graph = graph_in("bias")
    names = [op.name for op in graph.operations if op.op.startswith("aten.mm")]
    after = taken(State(graph, graph), BY_NAME["library"], names[0])
    assert not list(BY_NAME["panels"].sites(after))


def forms_by_cost(function, *shapes):
    return [leaf.state.text.partition("(")[0] for leaf in beam(graph_of(function, *shapes), depth=1, width=8)]


def test_the_estimate_prefers_tiles_to_loops_and_the_library_for_large_products():
    large = forms_by_cost(lambda x, w: x @ w, (1024, 1024), (1024, 1024))
    assert large.index("library") < large.index("panels") < large.index("")


def test_the_estimate_prefers_tiles_with_what_follows_where_memory_is_the_bound():
    wide = forms_by_cost(lambda x, w, b: torch.tanh(x @ w) * b, (4096, 16), (16, 1024), (4096, 1024))
    assert min(wide.index("panels"), wide.index("direct")) < wide.index("library")


def operations(form, function, *shapes):
    graph = graph_of(function, *shapes)
    (name,) = (n.name for n in graph.nodes if isinstance(n, Contract))
    return estimate(lower(graph, Decisions(tilings={name: Tiling(form)}))).operations


def test_the_estimate_sees_lanes_beside_each_other_in_a_matrix_chosen_by_index():
    chosen = operations(
        "direct", lambda x, w: torch.einsum("nd,ndf->nf", x, w[x.argmax(1)]), (128, 64), (64, 64, 256)
    )
    given = operations("direct", lambda x, w: torch.einsum("nd,ndf->nf", x, w), (128, 64), (128, 64, 256))
    assert chosen < 2 * given


def test_the_estimate_sees_from_how_many_values_an_element_is_chosen():
    several = operations("dots", lambda x, *parts: x @ torch.cat(parts).t(), (32, 64), *[(8, 64)] * 6)
    one = operations("dots", lambda x, y: x @ y.t(), (32, 64), (48, 64))
    assert several > 3 * one


def pairs_of_rows(rows):
    def pairs(x, *tables):
        at = x.argmax(1)
        side_by_side = torch.stack([table[at] for table in tables], 1)
        return side_by_side @ side_by_side.transpose(1, 2)

    return graph_of(pairs, (64, 8), *[(rows, 32)] * 6)


def cost_of_pairs(rows, *steps):
    graph = pairs_of_rows(rows)
    state = State(graph, graph)
    for name, site in steps:
        state = taken(state, BY_NAME[name], site)
    return estimate(state.program)


PACKED, STORED = [("panels", "bmm")], [("store", "all"), ("panels", "bmm")]


def test_gathered_rows_are_stored_before_they_are_multiplied():
    assert cost_of_pairs(2000, *STORED).time_us < cost_of_pairs(2000, *PACKED).time_us
    tried = [leaf.state.text for leaf in beam(pairs_of_rows(2000), depth=1)]
    assert "store(all); panels(bmm)" in tried


@pytest.mark.parametrize("steps", [PACKED, STORED])
def test_the_estimate_counts_of_a_table_the_rows_that_are_gathered(steps):
    few, some, many = (cost_of_pairs(rows, *steps).memory_bytes for rows in (4, 2000, 200_000))
    assert few < some == many


@pytest.mark.parametrize("form", ["panels", "direct", "winograd"])
def test_the_estimate_sees_lanes_that_are_read_one_by_one(form):
    spread = operations(
        form, lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (2, 16, 32, 32), (16, 16, 3, 3)
    )
    beside = operations(form, lambda x, w: F.conv2d(x, w, padding=1), (2, 16, 63, 63), (16, 16, 3, 3))
    assert spread > 1.4 * beside, "as many multiplications, but zeros lie between elements"


def test_the_library_comes_before_products_that_reuse_nothing():
    def separable(x, d, w):
        return F.relu(F.conv2d(F.relu(F.conv2d(x, d, padding=1, groups=32)), w))

    graph = graph_of(separable, (8, 32, 28, 28), (32, 1, 3, 3), (64, 32, 1, 1))
    found = [leaf.state.text for leaf in beam(graph, depth=1, width=16)]
    alone = [text for text in found if text.endswith("(all)")]
    assert alone[0] == "library(all)", "a filter a channel multiplies an element of the image once"
    assert "panels(all)" in alone


def test_a_split_feeds_threads_that_had_nothing_to_do():
    graph = graph_of(lambda x, w: x @ w, (1, 65536), (65536, 16))
    state = taken(State(graph, graph), BY_NAME["direct"], "mm")
    shared = taken(state, BY_NAME["split"], "mm")
    before, after = (estimate(lower(graph, s.decisions)) for s in (state, shared))
    assert after.operations < before.operations


def test_a_product_is_the_librarys_or_has_a_form():
    graph = graph_in("bias")
    after = taken(State(graph, graph), BY_NAME["panels"], "mm")
    assert not list(BY_NAME["library"].sites(after))


def test_padding_is_loaded_under_a_mask_where_lanes_meet_it():
    _, program = program_of("convolved", Tiling("panels"))
    assert "kw::load_between(x0" in cpp.source(program)


def test_lanes_that_meet_no_padding_load_neighbours_beside_what_is_one_for_all():
    def biased(x, b, w):
        return F.conv2d(F.pad(torch.relu(x + b), (1, 1, 1, 1)), w)

    graph = graph_of(biased, (2, 8, 20, 20), (8, 1, 1), (8, 8, 3, 3))
    program = lower(graph, Decisions(tilings={"convolution_product2": Tiling("direct")}))
    (text,) = (line for line in cpp.source(program).splitlines() if "kw::all(" in line)
    assert "kw::relu((kw::load(x0" in text


def test_half_floats_are_summed_in_single():
    graph = graph_of(lambda x, w: x @ w, (5, 600), (600, 20), dtype="bfloat16")
    program = lower(graph, Decisions(tilings={"mm": Tiling("direct")}))
    library = built({"mm": (graph, program)})
    x, w = torch.full((5, 600), 1.0, dtype=torch.bfloat16), torch.full((600, 20), 1.0, dtype=torch.bfloat16)
    output = torch.empty((5, 20), dtype=torch.bfloat16)
    library.get_function("mm")(x, w, output)
    assert (output == 600).all()


def test_forms_are_offered_to_languages_that_print_them():
    request = Request(
        Problem(load_task("benchmarks/problems/level1/matmul_odd_sizes.py")),
        detect("cpu"),
        (),
        ("cpp", "wgsl"),
    )
    templates = list(ScheduleProposer().propose(request))
    names = {language: [t.name for t in templates if t.language == language] for language in ("cpp", "wgsl")}
    assert "schedule/panels(mm)" in names["cpp"]
    assert names["wgsl"] and not any("panels" in name for name in names["wgsl"])


def test_the_tuner_chooses_the_tiles():
    template = Schedule("t", "cpp", Space(), leaf_of("bias", "panels"), cpp.render, "t", "")
    first = template.render({"rows": 8, "vectors": 3, "depth": 128, "block": 48})
    assert "8, 3, 128, 48, true>" in first.sources[0].text


def test_a_default_is_printed_from_what_the_search_lowered(monkeypatch):
    leaf = leaf_of("bias", "panels")
    assert leaf.state.program is not None
    template = Schedule("t", "cpp", space_of(leaf.state.program), leaf, cpp.render, "t", "")
    monkeypatch.setattr(flow, "lower", lambda *_: pytest.fail("lowered again"))
    assert template.render(template.default()).parameters["rows"] == 0


def leaf_of(case, form):
    graph = graph_in(case)
    state = taken(State(graph, graph), BY_NAME[form], "mm")
    return Leaf(state, estimate(lower(state.graph, state.decisions)))
