"""Products of weights in panels, and two of one input at once: right with every tail, offered where they are legal."""

import ctypes
import dataclasses
import platform
import random
import subprocess
from pathlib import Path

import pytest
import torch
from tests.compiler.narrower import EIGHT, FOUR, NO_PAIRS, differing
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import TILE_MODEL, built
from tests.compiler.test_weights import drawn, loaded, weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import interpret
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import beam, leaves
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import Position, arith, number, run_program
from kernelwright.devices import detect
from kernelwright.languages.cpp import INCLUDE, ffi_includes
from kernelwright.languages.prepared import prepared
from kernelwright.languages.vectors import _headers


def gated(x, a, b):
    return F.silu(F.linear(x, a)) * F.linear(x, b)


def normed(x, g, w):
    return F.rms_norm(x, (70,), g) @ w.t()


CASES = {
    "few_rows": (F.linear, [(3, 21)], [(64, 21)], "pack"),
    "several_tiles": (F.linear, [(31, 40)], [(96, 40), (96,)], "pack"),
    "long_sums": (lambda x, w: torch.tanh(x @ w), [(14, 1100)], [(1100, 32)], "pack"),
    "one_row": (F.linear, [(1, 1100)], [(96, 1100), (96,)], "pack"),
    "two_rows_of_items": (F.linear, [(2, 1, 40)], [(64, 40)], "pack"),
    "two_rows_gated": (gated, [(2, 70)], [(48, 70), (48, 70)], "dual"),
    "one_vector": (F.linear, [(13, 9)], [(48, 9)], "pack"),
    "uneven_panels": (F.linear, [(5, 19)], [(100, 19), (100,)], "pack"),
    "whole_rows": (F.linear, [(5, 19)], [(67, 19), (67,)], "pack"),
    "apart_by_a_page": (F.linear, [(9, 1024)], [(32, 1024)], "pack"),
    "before_and_after": (lambda x, w, b: torch.relu(torch.tanh(x) @ w + b), [(17, 33)], [(33, 64), (64,)], "pack"),
    "heads": (lambda x, w: (x @ w).reshape(2, 5, 4, 16).transpose(1, 2) + 1, [(2, 5, 24)], [(24, 64)], "pack"),
    "batched": (lambda x, w: torch.bmm(x, w.transpose(1, 2)), [(2, 13, 50)], [(2, 32, 50)], "pack"),
    "sliced": (lambda x, w: x[:, 3:33] @ w.t(), [(7, 40)], [(32, 30)], "pack"),
    "many_rows": (F.linear, [(301, 300)], [(96, 300), (96,)], "pack"),
    "many_rows_uneven": (F.linear, [(2, 149, 520)], [(100, 520)], "pack"),
    "many_gated": (gated, [(150, 270)], [(48, 270), (48, 270)], "dual"),
    "gated": (gated, [(26, 37)], [(48, 37), (48, 37)], "dual"),
    "gated_items": (gated, [(2, 3, 600)], [(32, 600), (32, 600)], "dual"),
    "gated_biases": (
        lambda x, a, c, b, d: F.gelu(F.linear(x, a, c)) * F.linear(x, b, d),
        [(1, 64)], [(80, 64), (80,), (80, 64), (80,)], "dual",
    ),
}  # fmt: skip
"""A function, shapes of arguments and of weights, the action whose product is multiplied."""
BUILDS = differing({"all": (), "eight": EIGHT, "four": FOUR})
"""Vectors of what the machine has, of 8 and of 4 floats."""


def state_of(case, dtype="float32"):
    function, arguments, weights, name = CASES[case]
    graph = weighed(function, arguments, weights, dtype)
    return taken(State(graph, graph), BY_NAME[name], next(iter(BY_NAME[name].sites(State(graph, graph)))))


@pytest.mark.parametrize("width", BUILDS)
def test_every_tail_is_multiplied(width):
    states = {case: state_of(case) for case in CASES}
    programs = {
        case: (s.graph, dataclasses.replace(lower(s.graph, s.decisions), name=case))
        for case, s in states.items()
    }
    library = built(programs, *BUILDS[width])
    for case, state in states.items():
        inputs = [x - 0.5 for x in drawn(state.graph)]
        (wanted,) = interpret(state.origin, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(case)(*inputs, output)
        assert (output - wanted).abs().max() < 1e-4 * max(1, wanted.abs().max()), case


@pytest.mark.parametrize(
    ("inner", "columns", "apart"),
    [
        (512, 80, 256),
        pytest.param(512, 64, 128, marks=pytest.mark.long),
        pytest.param(256, 64, 128, marks=pytest.mark.long),
        pytest.param(512, 48, 512, marks=pytest.mark.long),
    ],
)
def test_eight_lanes_multiply_many_rows_by_columns_that_stay_in_the_first_cache(inner, columns, apart):
    """Which elements are summed apart shows: ones vanish in a sum that 2**24 comes first in, and in no other.

    So many elements of one or two tiles of 16 columns are half the first cache; panels of 16 columns have one. Few
    columns are not cut.
    """
    rows, held = torch.ones(13, inner), 2.0**24
    rows[:, 0] = held
    graph = weighed(F.linear, [(13, inner)], [(columns, inner)])
    state = taken(
        State(graph, graph), BY_NAME["pack"], next(iter(BY_NAME["pack"].sites(State(graph, graph))))
    )
    found = {}
    for name, flags in {"eight": EIGHT, "four": FOUR}.items():
        program = dataclasses.replace(lower(state.graph, state.decisions), name="deep")
        library = built({"deep": (state.graph, program)}, *flags)
        output = torch.empty(13, columns)
        library.get_function("deep")(rows, torch.ones(columns, inner), output)
        found[name] = {float(x) for x in output.flatten()}
    assert found == {"eight": {held + inner - apart}, "four": {held}}


def in_bfloat16():
    """Return the state and the program of each case."""
    states = {case: state_of(case, "bfloat16") for case in CASES}
    return states, {
        case: (s.graph, dataclasses.replace(lower(s.graph, s.decisions), name=case))
        for case, s in states.items()
    }


@pytest.mark.parametrize("flags", differing({"pairs": (), "none": NO_PAIRS}).values(), ids=str)
def test_bfloat16_is_multiplied_by_pairs_where_the_machine_can(flags):
    states, programs = in_bfloat16()
    library = built(programs, *flags)
    for case, state in states.items():
        inputs = [(x - 0.5).bfloat16() for x in drawn(state.graph)]
        (wanted,) = interpret(state.origin, [x.double() for x in inputs])
        output = torch.full(tuple(wanted.shape), float("nan"), dtype=torch.bfloat16)
        library.get_function(case)(*inputs, output)
        assert (output - wanted).abs().max() < 2**-7 * max(1, wanted.abs().max()), case
    output = torch.full((31, 96), float("nan"), dtype=torch.bfloat16)
    denormal, large, bias = torch.full((31, 40), 2.0**-130), torch.full((96, 40), 2.0**120), torch.zeros(96)
    library.get_function("several_tiles")(*(x.bfloat16() for x in (denormal, large, bias)), output)
    by_pairs = not flags and "avx512_bf16" in detect("cpu").vector_units
    assert bool((output == 0).all()) == by_pairs, "the instruction counts denormals as zero"


@pytest.mark.parametrize("flags", differing({"own": (), "eight": EIGHT}).values(), ids=str)
def test_the_model_of_the_tile_unit_multiplies_bfloat16_where_tiles_are_whole(flags):
    """It counts denormals as zero, as does AVX512-BF16, by which it shows on a machine that has not got that either."""
    states, programs = in_bfloat16()
    library, by_unit = built(programs, TILE_MODEL, *NO_PAIRS, *flags), set()
    for case, state in states.items():
        inputs = [(x - 0.5).bfloat16() for x in drawn(state.graph)]
        (wanted,) = interpret(state.origin, [x.double() for x in inputs])
        output = torch.full(tuple(wanted.shape), float("nan"), dtype=torch.bfloat16)
        library.get_function(case)(*inputs, output)
        assert (output - wanted).abs().max() < 2**-7 * max(1, wanted.abs().max()), case
        small, *others = inputs
        others = [torch.full_like(x, 2.0**120 if x.dim() > 1 else 0) for x in others]  # a weight or a bias
        denormal = [torch.full_like(small, 2.0**-130), *others]
        library.get_function(case)(*denormal, output)
        if not output.any():
            by_unit.add(case)
    whole = {
        "several_tiles", "long_sums", "apart_by_a_page", "batched", "many_rows", "gated", "many_gated",
    }  # fmt: skip
    assert by_unit >= whole
    assert not by_unit & {"few_rows", "one_row", "two_rows_gated", "whole_rows", "before_and_after"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_the_form_stands_on_its_own_header(case, dtype):
    state = state_of(case, dtype)
    source = cpp.source(lower(state.graph, state.decisions))
    assert "kw::multiply<Tiles>(" in source and "kw::contract" not in source
    assert source.count("kw::InPlace left{") == (case != "before_and_after")


@pytest.mark.parametrize("case", [pytest.param("gated", marks=pytest.mark.long), "gated_biases"])
def test_two_products_mean_the_same_at_once_and_can_be_taken_apart(case):
    state = state_of(case)
    inputs = drawn(state.origin)
    (wanted,), (now,) = interpret(state.origin, inputs), interpret(state.graph, inputs)
    assert torch.allclose(now, wanted, rtol=1e-10, atol=1e-12)
    program = lower(state.graph, state.decisions)
    assert len([s for s in program.steps if s.name not in program.ahead]) == 1
    (got,) = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-6, atol=1e-6)
    assert str(undone(state, state.steps[0], ACTIONS).graph) == str(state.origin)


def test_weights_of_two_products_are_followed():
    kernel = prepared(loaded(state_of("gated")), ("a", "b"))
    x, a, b = torch.randn(26, 37), torch.randn(48, 37), torch.randn(48, 37)
    assert torch.allclose(kernel(x, a, b), gated(x, a, b), atol=1e-4)
    b.mul_(-3)
    assert torch.allclose(kernel(x, a, b), gated(x, a, b), atol=1e-4)


def duals(function, arguments, weights):
    graph = weighed(function, arguments, weights)
    return list(BY_NAME["dual"].sites(State(graph, graph)))


def test_only_products_of_one_input_that_are_used_together_are_multiplied_at_once():
    two = [(32, 20), (32, 20)]
    assert duals(gated, [(5, 20)], two) == ["mm"]
    assert not duals(lambda x, a, b: (F.linear(x, a), F.linear(x, b)), [(5, 20)], two)
    assert not duals(lambda x, y, a, b: F.linear(x, a) * F.linear(y, b), [(5, 20), (5, 20)], two)
    assert not duals(gated, [(5, 20)], [(30, 20), (30, 20)]), "no whole vectors of columns"
    graph = graph_of(gated, (5, 20), *two)
    assert not list(BY_NAME["dual"].sites(State(graph, graph))), "arguments are no weights"
    assert "dual" not in {a.name for a in offered(("panels", "direct", "ahead"))}


def test_an_infinity_of_one_row_stays_in_it():
    state = state_of("several_tiles")
    program = dataclasses.replace(lower(state.graph, state.decisions), name="product")
    inputs = drawn(state.graph)
    inputs[0][3, 5] = float("inf")
    output = torch.empty(31, 96)
    built({"product": (state.graph, program)}).get_function("product")(*inputs, output)
    rows = torch.isfinite(output).all(dim=1)
    assert not rows[3] and int(rows.sum()) == 30


def test_weights_go_into_panels_first_and_the_library_is_still_tried():
    graph = weighed(gated, [(256, 512)], [(1024, 512), (1024, 512)])
    found = [leaf.state.text for leaf in leaves(graph)]
    assert found[0] == "dual(mm)" and "library(all)" in found[:5]
    deep = weighed(
        lambda x, a, b, c: F.linear(gated(x, a, b), c), [(64, 96)], [(128, 96), (128, 96), (96, 128)]
    )
    assert beam(deep)[0].state.text == "dual(mm); pack(mm_2)"


@pytest.mark.parametrize(
    ("rows", "first"), [(1, "pack(all)"), (3, "pack(all)"), (16, "dual(mm); pack(mm_2)")]
)
def test_a_gated_layer_of_few_rows_walks_through_each_weight_first(rows, first):
    graph = weighed(
        lambda x, a, b, c: F.linear(gated(x, a, b), c), [(rows, 96)], [(128, 96), (128, 96), (96, 128)]
    )
    names = [leaf.state.text for leaf in leaves(graph)]
    assert names[0] == first
    assert any("dual" in name for name in names[:3]), "both are tried soon"


def test_the_library_reads_turned_weights_where_they_lie():
    graph = weighed(F.linear, [(5, 8)], [(20, 8), (20,)])
    name = next(op.name for op in graph.operations if "addmm" in op.op)
    state = taken(State(graph, graph), BY_NAME["library"], name)
    (step,) = state.program.steps
    assert step.reads == ("x2", "x0", "x1")


def grouped(x, w):
    ends = torch.tensor([1, 5], dtype=torch.int32)
    return torch.tanh(torch._grouped_mm(x, w.transpose(1, 2), offs=ends))


TURNED = {
    "mm": (lambda x, w: torch.tanh(F.linear(x, w)), (5, 8), (20, 8), "x1.permute(1, 0)"),
    "bmm": (lambda x, w: torch.tanh(x @ w.mT), (2, 5, 8), (2, 20, 8), "x1.permute(0, 2, 1)"),
    "grouped_mm": (grouped, (5, 8), (2, 20, 8), "x1.permute(0, 2, 1)"),
}


@pytest.mark.parametrize("name", TURNED)
def test_a_turned_weight_reaches_the_library_as_a_view(name):
    asked, x, w, view = TURNED[name]
    graph = weighed(asked, [x], [w])
    state = (
        State(graph, graph) if name == "grouped_mm" else taken(State(graph, graph), BY_NAME["library"], name)
    )
    text = next(s.text for s in cpp.render(state.program, state.graph).sources if s.path == "run.py")
    (call,) = (line for line in text.splitlines() if f"{name}.default(" in line)
    assert f", {view}" in call
    given = torch.randn(x), torch.randn(w)
    assert torch.allclose(loaded(state)(*given), asked(*given), atol=1e-5)


def test_a_turned_result_reaches_the_library_as_a_view_of_its_rows():
    def compared(x, y):
        return x @ F.normalize(y, dim=-1).t()

    graph = graph_of(compared, (5, 8), (20, 8))
    state = taken(State(graph, graph), BY_NAME["library"], "mm")
    stored = {b.name: tuple(b.shape) for b in state.program.buffers if b.role == "temporary"}
    assert set(stored.values()) == {(20, 8)}
    text = next(s.text for s in cpp.render(state.program, state.graph).sources if s.path == "run.py")
    assert f"aten.mm.default(x0, {next(iter(stored))}.permute(1, 0))" in text
    given = torch.randn(5, 8), torch.randn(20, 8)
    assert torch.allclose(loaded(state)(*given), compared(*given), atol=1e-5)


def test_what_follows_a_product_is_stored_by_its_kernel_in_a_chain_of_them():
    def layers(x, a, b, c):
        x = x + F.linear(F.gelu(F.linear(x, a)), b)
        return x + F.linear(torch.relu(x), c)

    graph = weighed(layers, [(2, 5, 32)], [(64, 32), (32, 64), (32, 32)])
    state = taken(State(graph, graph), BY_NAME["pack"], "all")
    called = [s for s in state.program.steps if s.name not in state.program.ahead]
    assert [s.name for s in called] == ["gelu_kernel", "add_kernel", "add_1_kernel"]
    inputs = drawn(graph)
    (got,), (wanted,) = run_program(state.program, dict(enumerate(inputs))), interpret(graph, inputs)
    assert torch.allclose(got, wanted.flatten().reshape(got.shape), rtol=1e-6, atol=1e-6)


def test_a_product_stays_alone_where_a_reduction_follows_it():
    graph = weighed(lambda x, w: torch.softmax(F.linear(x, w), -1), [(5, 9)], [(32, 9)])
    state = taken(
        State(graph, graph), BY_NAME["pack"], next(iter(BY_NAME["pack"].sites(State(graph, graph))))
    )
    called = [s.name for s in state.program.steps if s.name not in state.program.ahead]
    assert called == ["mm_kernel", "softmax_kernel"] and state.decisions.before == {"mm"}


def test_panels_that_are_read_in_another_order_are_multiplied_by_the_other_loops():
    graph = weighed(lambda x, a, b: (gated(x, a, b), F.linear(x, a).sum()), [(70, 20)], [(32, 20), (32, 20)])
    for site in BY_NAME["dual"].sites(State(graph, graph)):
        state = taken(State(graph, graph), BY_NAME["dual"], site)
        kernel = loaded(state)
        x, a, b = torch.randn(70, 20), torch.randn(32, 20), torch.randn(32, 20)
        packed = kernel.__globals__["prepare"]({"x1": a, "x2": b})
        assert torch.allclose(kernel(x, packed)[0], gated(x, a, b), atol=1e-4)


def test_an_index_that_was_taken_apart_and_put_together_is_itself():
    i, n = Position("i"), number(7)
    apart = arith("*", arith("//", i, n), n), arith("%", i, n)
    assert arith("+", *apart) == i
    assert arith("+", apart[0], arith("%", Position("j"), n)) != i


def test_random_gates_mean_the_same_in_panels():
    gates = (F.silu, torch.tanh, torch.sigmoid, lambda y: y * 0.5, torch.abs)
    joins = (torch.mul, torch.add, lambda p, q: p / (q * q + 1), lambda p, q: torch.maximum(p, q) - p)
    for seed in range(12):
        chance = random.Random(seed)
        gate, join, rows = chance.choice(gates), chance.choice(joins), chance.choice([(3,), (2, 2)])
        inner, columns, before = chance.randint(1, 6), chance.choice([16, 32]), chance.random() < 0.5
        third = chance.random() < 0.5

        def layer(x, a, b, c, gate=gate, join=join, before=before, third=third):
            x = torch.relu(x) if before else x
            y = join(gate(F.linear(x, a)), F.linear(x, b))
            return x + F.linear(y, c) if third else y + 1

        graph = weighed(layer, [(*rows, inner)], [(columns, inner), (columns, inner), (inner, columns)])
        state = taken(State(graph, graph), BY_NAME["dual"], "mm")
        for site in list(BY_NAME["pack"].sites(state))[:1]:
            state = taken(state, BY_NAME["pack"], site)
        inputs = drawn(graph, seed)
        (got,), (wanted,) = run_program(state.program, dict(enumerate(inputs))), interpret(graph, inputs)
        assert torch.allclose(got, wanted, rtol=1e-5, atol=1e-5), f"seed {seed}: {state.text}"


def test_a_product_that_is_read_in_two_halves_is_two_at_once():
    def halves(x, w, b, c):
        one, two = F.linear(x, w, b).chunk(2, -1)
        return F.linear(one * F.gelu(two), c)

    graph = weighed(halves, [(2, 5, 24)], [(64, 24), (64,), (24, 32)])
    (site,) = BY_NAME["dual"].sites(State(graph, graph))
    state = taken(State(graph, graph), BY_NAME["dual"], site)
    state = taken(state, BY_NAME["pack"], next(iter(BY_NAME["pack"].sites(state))))
    called = [s for s in state.program.steps if s.name not in state.program.ahead]
    assert len(called) == 2, "nothing is copied at the end"
    assert cpp.source(state.program).count("kw::multiply<Tiles>(") == 2
    inputs = drawn(graph)
    (got,), (wanted,) = run_program(state.program, dict(enumerate(inputs))), interpret(graph, inputs)
    assert torch.allclose(got.reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6)
    whole = weighed(lambda x, w: (F.linear(x, w), F.glu(F.linear(x, w))), [(5, 8)], [(64, 8)])
    assert len(list(BY_NAME["dual"].sites(State(whole, whole)))) == 1
    read = weighed(lambda x, w: F.glu(y := F.linear(x, w)) + y.sum(), [(5, 8)], [(64, 8)])
    assert not list(BY_NAME["dual"].sites(State(read, read))), "all of the product is read"


READS = """#include <atomic>
#include "contraction.h"
using namespace kw;
extern "C" long reads(long rows, long columns, long inner) {
  omp_set_num_threads(1);
  std::atomic<long> count{0};
  const auto left = [&](int64_t, int64_t, int64_t, auto) { return ++count, F{}; };
  const auto right = [](int64_t, int64_t, int64_t, auto) { return F{}; };
  const auto finish = [](F, int64_t, int64_t, int64_t, auto) {};
  using T = Tiling<Form::kPanels, Along::kColumns, 4, 2, 64, 16, true>;
  contract<T>(Shape{1, rows, columns, inner, columns}, left, right, finish);
  return count * W;
}
"""


@pytest.mark.needs("g++")
@pytest.mark.parametrize(("inner", "times"), [(64, 2), (128, 16)])
def test_rows_of_one_depth_are_packed_for_many_columns(tmp_path, inner, times):
    """Where sums wait for the next depth, for as many tiles of columns as have them in the second cache: 8."""
    (tmp_path / "reads.cpp").write_text(READS)
    folders = (INCLUDE, *(Path(m.__file__).parent for m in (_headers, cpp)), *ffi_includes())
    command = ["g++", "-std=c++17", "-O1", "-fopenmp", "-fPIC", "-shared", *(f"-I{f}" for f in folders)]
    subprocess.run([*command, "reads.cpp", "-o", "reads.so"], cwd=tmp_path, check=True)
    rows, tiles, lanes = 32, 128, 4
    found = ctypes.CDLL(str(tmp_path / "reads.so")).reads(rows, tiles * 2 * lanes, inner)
    assert found == times * rows * inner


ORDER = """#include "gemm.h"
using namespace kw;
extern "C" int columns_of_first_row(const float* rows, const float* panels, long count) {
  int before_the_second = 0;
  bool second = false;
  const auto finish = [&](F, int64_t, int64_t m, int64_t, auto) {
    second |= m > 0;
    before_the_second += second ? 0 : W;
  };
  multiply<Packed<0, 2>>(Shape{1, count, 32, 8, 32}, InPlace{rows, 0, 8}, panels, finish);
  return before_the_second;
}
"""


@pytest.mark.needs("g++")
def test_few_rows_walk_weights_once_with_eight_lanes(tmp_path):
    """All 32 columns that lie side by side are in one tile of two rows, 16 in one of three."""
    (tmp_path / "order.cpp").write_text(ORDER)
    folders = (INCLUDE, *(Path(m.__file__).parent for m in (_headers, cpp)), *ffi_includes())
    eight = ("-mavx2", "-mfma") if platform.machine() == "x86_64" else ()
    command = [
        "g++",
        "-std=c++17",
        "-O1",
        *eight,
        "-fopenmp",
        "-fPIC",
        "-shared",
        *(f"-I{f}" for f in folders),
    ]
    subprocess.run([*command, "order.cpp", "-o", "order.so"], cwd=tmp_path, check=True)
    first = ctypes.CDLL(str(tmp_path / "order.so")).columns_of_first_row
    rows, panels = torch.ones(3, 8), torch.ones(8, 32)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (rows, panels)]
    assert [first(*pointers, ctypes.c_long(count)) for count in (2, 3)] == ([32, 16] if eight else [8, 8])


UNIT = """#include "gemm.h"
using namespace kw;
extern "C" void unit(const bfloat16* rows, const bfloat16* panels, long count, float* to) {
  const auto finish = [=](F sum, int64_t, int64_t m, int64_t n, auto lanes) { store(to + m * 64 + n, sum, lanes); };
  multiply<Packed<0, 2>>(Shape{1, count, 64, 72, 64}, InPlace{rows, 0, 72}, panels, finish);
}
"""


@pytest.mark.needs("g++ with AMX")
def test_products_of_bfloat16_use_the_tile_unit_where_the_processor_may_have_it(tmp_path):
    (tmp_path / "unit.cpp").write_text(UNIT)
    folders = (INCLUDE, *(Path(m.__file__).parent for m in (_headers, cpp)), *ffi_includes())
    command = ["g++", "-std=c++17", "-O0", "-fopenmp", "-S", *(f"-I{f}" for f in folders)]
    for without, used in {(): True, ("-mno-amx-tile",): False}.items():
        flags = ("-march=sapphirerapids", *without)
        subprocess.run([*command, *flags, "unit.cpp", "-o", "unit.s"], cwd=tmp_path, check=True)
        assert ("tdpbf16ps" in (tmp_path / "unit.s").read_text()) == used
