"""What sums are kept in: as the contract allows, printed as decided."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_reading import problem_of

from kernelwright.compiler.actions import State, offered, taken
from kernelwright.compiler.graph import read
from kernelwright.compiler.policy import beam, estimate
from kernelwright.compiler.printers import cpp, forms_of, opencl
from kernelwright.compiler.tile import Begin, statements


def start_of(function, *shapes, dtype="float32"):
    graph = graph_of(function, *shapes, dtype=dtype)
    return State(graph, graph)


def kinds(state):
    """Name what the accumulators of all kernels are kept in."""
    return [s.kind for k in state.program.steps for s in statements(k.body) if isinstance(s, Begin)]


def total(x):
    return x.sum(-1)


@pytest.mark.parametrize(
    ("function", "length", "dtype", "floor", "legal"),
    [
        (total, 512, "float32", 8.0, True),
        (total, 512, "float32", 1.0, False),
        (total, 1 << 16, "float32", 8.0, False),
        (total, 1 << 16, "bfloat16", 8.0, True),
        (lambda x: x.cumsum(-1), 512, "float32", 8.0, False),
        (lambda x: x.max(-1).values, 512, "float32", 8.0, False),
    ],
)
def test_a_sum_is_single_where_the_contract_allows_its_roundings(function, length, dtype, floor, legal):
    start = start_of(function, (4, length), dtype=dtype)
    graph = dataclasses.replace(start.graph, error_floor=floor)
    assert bool(list(BY_NAME["single"].sites(State(graph, graph)))) == legal


def test_the_contract_of_the_task_is_asked(tmp_path):
    declaration = "x='float32[rows, 512]', workloads=[{'rows': 4}], contract=kw.Contract(error_floor=0.5)"
    assert read(problem_of(tmp_path, declaration, "return x.sum(-1)")).error_floor == 0.5


def test_sums_are_printed_in_what_they_are_kept_in():
    plain = start_of(lambda x: torch.softmax(x, -1), (64, 512))
    after = taken(plain, BY_NAME["single"], "softmax_sum5")
    assert (kinds(plain), kinds(after)) == (["float32", "float64"], ["float32", "float32"])
    for printed in (cpp.render, opencl.render):
        sources = [printed(state.program, state.graph).sources[0].text for state in (plain, after)]
        assert ["double" in text for text in sources] == [True, False]
    assert estimate(after.program).operations < estimate(plain.program).operations
    assert any("single" in leaf.state.text for leaf in beam(plain.graph))


def test_products_sum_in_float64_where_a_language_prints_it():
    plain = start_of(lambda x, w: x @ w, (8, 4096), (4096, 32))
    after = taken(plain, BY_NAME["double"], "mm")
    assert "double mm_sum_sum" in cpp.source(after.program) or "kw::Wide mm_sum_sum" in cpp.source(
        after.program
    )
    assert "kw::Wide" not in cpp.source(plain.program)
    assert estimate(after.program).operations > estimate(plain.program).operations
    names = {language: {a.name for a in offered(forms_of(language))} for language in ("opencl", "wgsl")}
    assert {"single", "double"} <= names["opencl"] and not {"single", "double"} & names["wgsl"]
