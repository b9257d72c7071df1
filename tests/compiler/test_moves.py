"""Changes of loops: where they are legal, what they change, and that the estimate sees their worth."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built, differences
from tests.compiler.test_reading import problem_of

from kernelwright.compiler._layouts import laid_out, lowering, space_of
from kernelwright.compiler.actions import (
    ACTIONS,
    State,
    offered,
    replayed,
    steps_of,
    taken,
    transplanted,
)
from kernelwright.compiler.graph import read
from kernelwright.compiler.lower import Decisions, NotLowered, lower
from kernelwright.compiler.policy import beam, estimate, leaves
from kernelwright.compiler.printers import Unprintable, cpp, forms_of, opencl
from kernelwright.compiler.tile import Call, Loop, Move, Row, Store, expressions, statements, walk


def start_of(function, *shapes):
    graph = graph_of(function, *shapes)
    return State(graph, graph)


def first(state, name):
    action = BY_NAME[name]
    return taken(state, action, next(iter(action.sites(state))))


def loops_of(state):
    (kernel,) = state.program.steps
    return {s.axis: s for s in statements(kernel.body) if isinstance(s, Loop)}


def softmax(x):
    return torch.softmax(x, -1)


def test_only_large_outputs_that_nothing_reads_stream():
    large, small = (start_of(torch.relu, (n, 1024)) for n in (1024, 1023))
    assert list(BY_NAME["stream"].sites(large)) == ["relu_kernel.relu"] and not list(
        BY_NAME["stream"].sites(small)
    )
    read = start_of(lambda x: (h := torch.exp(x)) / h.sum(), (1024, 1024))
    stored = taken(read, BY_NAME["store"], "exp")
    assert [b.name for b in stored.program.buffers if b.role == "temporary"] == ["exp"]
    assert list(BY_NAME["stream"].sites(stored)) == ["div_kernel.div"]


def test_a_streamed_output_is_written_past_the_caches_from_the_size_chosen_on():
    after = first(start_of(torch.relu, (1024, 1024)), "stream")
    space = space_of(after.program, after.decisions.moves)
    assert next(p for p in space.parameters if p.name == "stream_mib").values[0] == 4
    source = cpp.source(lower(after.graph, laid_out(after.decisions, {"stream_mib": 16})))
    assert f">= {16 << 20}" in source and "kw::stream(relu +" in source and "kw::fence();" in source
    assert estimate(after.program).lost_bytes < estimate(lower(after.graph)).lost_bytes


def test_a_kept_row_is_computed_once():
    def powers(state):
        every = (
            e
            for k in state.program.steps
            for s in statements(k.body)
            for x in expressions(s)
            for e in walk(x)
        )
        return sum(isinstance(e, Call) and e.op == "exp" for e in every)

    plain = start_of(softmax, (64, 512))
    after = first(plain, "keep")
    assert (powers(plain), powers(after)) == (2, 1)
    (kernel,) = after.program.steps
    (row,) = (s.buffer for s in statements(kernel.body) if isinstance(s, Row))
    assert f"kw::Room<float> {row}_room(512)" in cpp.source(after.program)
    assert estimate(after.program).operations < estimate(plain.program).operations
    assert not list(BY_NAME["keep"].sites(start_of(softmax, (2, 1 << 17)))), "the row is longer than a cache"
    assert not list(BY_NAME["keep"].sites(start_of(lambda x: x - x.sum(-1, keepdim=True), (64, 512))))


def test_a_long_row_waits_in_its_result():
    plain = start_of(softmax, (8, 1 << 17))
    assert not list(BY_NAME["overwrite"].sites(start_of(softmax, (64, 512)))), "the row is kept beside it"
    after = first(plain, "overwrite")
    (kernel,) = after.program.steps
    powers = [e for s in statements(kernel.body) for x in expressions(s) for e in walk(x) if _is_power(e)]
    assert len(powers) == 1 and estimate(after.program).time_us < estimate(plain.program).time_us
    assert not list(BY_NAME["stream"].sites(after)), "the result is read again"
    streamed = first(plain, "stream")
    assert not list(BY_NAME["overwrite"].sites(streamed))
    assert next(leaves(plain.graph)).state.steps[0] == after.steps[0]
    two = start_of(lambda x: (torch.softmax(x, -1), x.amax(-1, keepdim=True) - x), (8, 1 << 17))
    half = start_of(lambda x: torch.softmax(x, -1).to(torch.float16), (8, 1 << 17))
    assert not list(BY_NAME["overwrite"].sites(half)), "the result is rounded"
    assert len(list(BY_NAME["overwrite"].sites(two))) <= 1


def _is_power(e):
    return isinstance(e, Call) and e.op == "exp"


def test_long_rows_are_right_where_exponentials_are_subnormal():
    length = (1 << 16) + 5
    states = {
        "softmax": first(start_of(softmax, (3, length)), "overwrite"),
        "normed": first(
            start_of(lambda x: torch.nn.functional.layer_norm(torch.exp(x), x.shape[-1:]), (3, length)),
            "overwrite",
        ),
    }
    programs = {name: (s.graph, dataclasses.replace(s.program, name=name)) for name, s in states.items()}
    library = built(programs)
    x = torch.linspace(-105, 0, length).repeat(3, 1)[:, torch.randperm(length)]
    x[1] = -torch.inf
    x[1, 7], x[2, 9] = 3.0, torch.nan
    for name in states:
        output = torch.empty(3, length)
        library.get_function(name)(x, output)
        wanted = (
            softmax(x.double())
            if name == "softmax"
            else torch.nn.functional.layer_norm(x.double().exp(), (length,))
        )
        assert torch.equal(output.isnan(), wanted.isnan())
        assert torch.allclose(
            output.double(),
            wanted,
            rtol=2e-6 if name == "softmax" else 1e-4,
            atol=3e-45 if name == "softmax" else 1e-6,
            equal_nan=True,
        )


def test_tiles_use_lines_whole_where_a_matrix_is_read_across():
    plain = start_of(lambda x: x.t() + 1, (2048, 2048))
    after = first(plain, "tile")
    axes = list(loops_of(after))
    assert axes == ["i0_block", "i1_block", "i0", "i1"]
    assert estimate(after.program).lost_bytes < estimate(plain.program).lost_bytes
    assert "tile" in beam(plain.graph)[0].state.text
    narrow = lower(after.graph, laid_out(after.decisions, {"tile": 16}))
    assert "i1_block * 16" in cpp.source(narrow)


def test_a_tile_turns_in_registers_what_its_lanes_cross():
    cases = {
        "whole": (lambda x, y: x.t() * 2 + y, (64, 96), (96, 64)),
        "parts": (lambda x, y: x.t() - y, (70, 45), (45, 70)),
        "batch": (lambda x, y: (x.transpose(1, 2) + y).relu(), (3, 40, 33), (3, 33, 40)),
    }
    programs = {}
    for name, (function, *shapes) in cases.items():
        plain = start_of(function, *shapes)
        after = taken(plain, BY_NAME["tile"], list(BY_NAME["tile"].sites(plain))[-1])
        programs[name] = after.graph, dataclasses.replace(after.program, name=name)
        text = cpp.source(programs[name][1])
        assert text.count("kw::turn(x0 + ") == text.count("kw::turn(") == 1 and "kw::each(" not in text, name
    for name, difference in differences(programs, built(programs)):
        assert difference < 1e-6, name
    padded = start_of(lambda x, y: torch.nn.functional.pad(x.t(), (1, 1)) + y, (64, 96), (96, 66))
    assert "kw::turn(" not in cpp.source(first(padded, "tile").program), (
        "what a condition hides may not be there"
    )


@pytest.mark.parametrize("shape", [(96, 160), (2, 96, 160)])
def test_lanes_that_lie_apart_are_turned_where_their_lines_stay_in_a_cache_too(shape):
    plain = start_of(lambda x, y: x.transpose(-1, -2) * 2 + y, shape, (*shape[:-2], *shape[:-3:-1]))
    after = taken(plain, BY_NAME["tile"], list(BY_NAME["tile"].sites(plain))[-1])
    assert estimate(after.program).lost_bytes == estimate(plain.program).lost_bytes
    assert estimate(after.program).operations < estimate(plain.program).operations
    assert "tile" in beam(plain.graph)[0].state.text


def test_lanes_of_every_second_element_are_side_by_side():
    halved = start_of(lambda x, y: x[:, ::2] + y, (64, 320), (64, 160))
    whole = start_of(lambda x, y: x + y, (64, 160), (64, 160))
    thirds = start_of(lambda x, y: x[:, ::3] + y, (64, 480), (64, 160))
    costs = [estimate(state.program).operations for state in (whole, halved, thirds)]
    assert costs[0] == costs[1] < costs[2]


def test_loops_are_exchanged_only_where_nothing_stands_between_them():
    assert set(BY_NAME["reorder"].sites(start_of(softmax, (64, 512)))) == set()
    plain = start_of(lambda x, y: x.t() + y, (7, 40), (40, 7))
    after = first(plain, "reorder")
    assert (list(loops_of(plain)), list(loops_of(after))) == (["i0", "i1"], ["i1", "i0"])
    assert loops_of(after)["i0"].vector and loops_of(after)["i1"].parallel


def test_threads_go_to_one_loop_of_a_path():
    plain = start_of(lambda x: x.sum(-1), (2, 1 << 20))
    assert loops_of(plain)["i0"].parallel
    sites = list(BY_NAME["parallelise"].sites(plain))
    after = taken(plain, BY_NAME["parallelise"], sites[0])
    assert [axis for axis, loop in loops_of(after).items() if loop.parallel] == [sites[0].partition(".")[2]]
    assert estimate(after.program).lost_bytes < estimate(plain.program).lost_bytes
    assert "omp_get_max_threads" in cpp.source(after.program)
    scanned = start_of(lambda x: x.cumsum(0), (9, 5))
    ordered = {axis for axis, loop in loops_of(scanned).items() if loop.ordered}
    assert ordered and not ordered & {s.partition(".")[2] for s in BY_NAME["parallelise"].sites(scanned)}


def test_lanes_go_to_one_loop_of_a_path_and_folds_have_vectors_in_flight():
    plain = start_of(lambda x: x.sum(-1), (64, 512))
    outer, inner = loops_of(plain)
    kernel = plain.program.steps[0].name
    assert list(BY_NAME["unroll"].sites(plain)) == [f"{kernel}.{inner}"]
    assert loops_of(first(plain, "unroll"))[inner].unroll == 4
    lanes = taken(plain, BY_NAME["vectorise"], f"{kernel}.{outer}")
    assert [axis for axis, loop in loops_of(lanes).items() if loop.vector] == [outer]
    blocks = taken(plain, BY_NAME["cut"], f"{kernel}.{outer}")
    assert list(loops_of(blocks)) == [f"{outer}_block", outer, inner]


def test_moves_replay_on_another_shape_or_are_refused():
    steps = first(start_of(softmax, (64, 512)), "keep").steps
    other = replayed(graph_of(softmax, (5, 33)), steps, ACTIONS)
    assert any(isinstance(s, Row) for s in statements(other.program.steps[0].body))
    tiled = Decisions(moves=(Move("tile", "softmax_kernel", "i0"),))
    with pytest.raises(NotLowered, match=r"tile is not legal at softmax_kernel\.i0"):
        lower(other.graph, tiled)


def test_layouts_under_which_a_move_is_not_legal_are_not_offered():
    plain = start_of(lambda x: x.sum(0), (64, 512))
    after = taken(plain, BY_NAME["vectorise"], f"{plain.program.steps[0].name}.{list(loops_of(plain))[-1]}")
    offered_, all_ = (
        next(p for p in space.parameters if p.name == "vector").values
        for space in (lowering(space_of(after.program), after), lowering(space_of(after.program), plain))
    )
    assert set(offered_) == {"auto", "outer"} and set(all_) == {"auto", "outer", "inner"}


def test_a_language_without_moves_is_offered_none():
    names = {a.name for a in offered(forms_of("opencl"))}
    assert "keep" not in names and {"keep", "stream"} <= {a.name for a in offered(forms_of("cpp"))}
    after = first(start_of(softmax, (64, 512)), "keep")
    with pytest.raises(Unprintable, match="_row"):
        opencl.render(after.program, after.graph)


def test_a_store_across_lanes_does_not_stream():
    state = start_of(lambda x: x.t().contiguous(), (1024, 1024))
    across = taken(state, BY_NAME["vectorise"], f"{state.program.steps[0].name}.i0")
    assert any(isinstance(s, Store) for s in statements(across.program.steps[0].body))
    assert not list(BY_NAME["stream"].sites(across))


def sized_softmax(tmp_path, rows=4096, cols=64):
    """Return a softmax whose sizes differ between calls."""
    declaration = f"x='float32[rows, cols]', workloads=[{{'rows': {rows}, 'cols': {cols}}}]"
    graph = read(problem_of(tmp_path, declaration, "return torch.softmax(x, -1)"))
    return State(graph, graph)


def test_a_kernel_is_compiled_for_the_size_seen_and_for_all_others(tmp_path):
    plain = sized_softmax(tmp_path)
    sites = list(BY_NAME["specialise"].sites(plain))
    assert sites == ["softmax_kernel.rows", "softmax_kernel.cols"]
    after = taken(plain, BY_NAME["specialise"], sites[1])
    assert sites[1] not in BY_NAME["specialise"].sites(after)
    library = built({"space": (after.graph, dataclasses.replace(after.program, name="space"))})
    generator = torch.Generator().manual_seed(2)
    for cols in (64, 37):
        x = torch.randn(3, cols, generator=generator)
        output = torch.full((3, cols), float("nan"))
        library.get_function("space")(x, output)
        assert torch.allclose(output, torch.softmax(x, -1), atol=1e-6)
    source = cpp.source(after.program)
    assert "if (cols == 64) {\n    softmax_kernel<64>(" in source
    assert "} else {\n    softmax_kernel(x.data()" in source
    assert "const int64_t cols = known_cols ? known_cols : given_cols;" in source


def test_a_size_is_worth_knowing_where_rows_are_short_and_whole(tmp_path):
    short = sized_softmax(tmp_path)
    assert "specialise(softmax_kernel.cols)" in beam(short.graph)[0].state.text
    for cols in (63, 16384):
        other = sized_softmax(tmp_path, rows=512, cols=cols)
        assert not any("specialise" in leaf.state.text for leaf in beam(other.graph))
        moved_ = transplanted(other.graph, (("specialise", "softmax_kernel.cols"),), ACTIONS)
        assert f"if (cols == {cols})" in cpp.source(moved_.program)


def test_versions_of_a_schedule_come_after_all_other_schedules(tmp_path):
    found = [leaf.state.steps for leaf in leaves(sized_softmax(tmp_path).graph)]
    plain = [frozenset(s for s in steps if s[0] not in ("specialise", "whole")) for steps in found]
    different = len(set(plain))
    assert len(found) > different > 2, "two versions of a schedule at least"
    assert len(set(plain[:different])) == different


def test_a_kernel_is_compiled_for_whole_vectors_and_for_all_others(tmp_path):
    plain = sized_softmax(tmp_path)
    assert list(BY_NAME["whole"].sites(plain)) == ["softmax_kernel.cols"]
    after = taken(plain, BY_NAME["whole"], "softmax_kernel.cols")
    assert not list(BY_NAME["whole"].sites(after)) and steps_of(after.text) == after.steps
    assert estimate(after.program).operations < estimate(plain.program).operations
    library = built({"space": (after.graph, dataclasses.replace(after.program, name="space"))})
    generator = torch.Generator().manual_seed(2)
    for cols in (64, 37, 16, 112):
        x = torch.randn(3, cols, generator=generator)
        output = torch.full((3, cols), float("nan"))
        library.get_function("space")(x, output)
        assert torch.allclose(output, torch.softmax(x, -1), atol=1e-6)
    source = cpp.source(after.program)
    assert "if (cols % 16 == 0) {\n    softmax_kernel<true>(" in source
    assert "template <bool whole_cols = false>" in source
    assert source.count("if (!whole_cols && at < end)") == source.count("at < end)")


@pytest.mark.parametrize("cols", [63, 40])
def test_no_version_for_whole_vectors_where_the_first_workload_has_a_tail(tmp_path, cols):
    assert not list(BY_NAME["whole"].sites(sized_softmax(tmp_path, cols=cols)))


def test_both_versions_of_a_size_are_one_where_it_is_known_and_another_is_whole(tmp_path):
    declaration = "x='float32[rows, cols]', workloads=[{'rows': 48, 'cols': 64}]"
    graph = read(problem_of(tmp_path, declaration, "return torch.softmax(x, -1)"))
    state = transplanted(
        graph, (("specialise", "softmax_kernel.rows"), ("whole", "softmax_kernel.cols")), ACTIONS
    )
    assert "if (rows == 48 && cols % 16 == 0) {\n    softmax_kernel<48, true>(" in cpp.source(state.program)
