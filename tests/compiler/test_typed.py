"""Rows times the matrix of their type: sorted first, it is a dense product a type, and means the same."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME
from tests.compiler.test_products import built

from kernelwright.compiler._layouts import space_of
from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import Order, TypedLinear, from_captured, interpret
from kernelwright.compiler.policy import beam, estimate
from kernelwright.compiler.printers import Unprintable, cpp, forms_of, opencl
from kernelwright.compiler.tile import products, run_program
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import record_function

ROWS, INNER, COLUMNS, TYPES = 23, 7, 9, 5
CASES = {
    "batched": lambda x, w, t: torch.bmm(x.unsqueeze(1), w[t]).squeeze(1),
    "summed": lambda x, w, t: torch.einsum("ik,ikn->in", x.exp(), w[t - TYPES]) + 1,
    "turned": lambda x, w, t: torch.relu((w.mT[t].mT.transpose(1, 2) @ x.unsqueeze(2)).squeeze(2)),
    "twice": lambda x, w, t: (x.unsqueeze(1) @ w[t] * (x.unsqueeze(1) @ w.abs()[t])).squeeze(1),
}  # fmt: skip


def inputs_of(rows=ROWS, inner=INNER, columns=COLUMNS, types=TYPES, dtype=torch.float32):
    generator = torch.Generator().manual_seed(4)
    x, w = (
        torch.randn(rows, inner, generator=generator),
        torch.randn(types, inner, columns, generator=generator),
    )
    return [
        x.to(dtype),
        w.to(dtype),
        torch.randint(0, types - 1, (rows,), generator=generator),
    ]  # one stays empty


def start_of(function, **sizes):
    given = inputs_of(**sizes)
    specs = tuple(
        TensorSpec(name=n, shape=tuple(v.shape), dtype=str(v.dtype).removeprefix("torch."))
        for n, v in zip("xwt", given, strict=True)
    )
    workload = Workload(name="w", arguments=specs)

    graph = from_captured(record_function(function, workload, given), workload)
    return State(graph, graph)


def typed(case, **sizes):
    state, action = start_of(CASES[case], **sizes), BY_NAME["typed"]
    while site := next(iter(action.sites(state)), None):
        state = taken(state, action, site)
    return state


@pytest.mark.parametrize("case", CASES)
def test_products_by_type_mean_what_gathered_matrices_mean(case):
    state, inputs = typed(case), inputs_of()
    wanted = CASES[case](*inputs).double()
    assert sum(isinstance(n, TypedLinear) for n in state.graph.nodes) == len(state.steps) >= 1
    assert sum(isinstance(n, Order) for n in state.graph.nodes) == 1, "what has the same types is sorted once"
    assert torch.allclose(interpret(state.graph, inputs)[0], wanted, rtol=1e-4, atol=1e-4)
    (got,) = run_program(state.program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-4, atol=1e-4)
    assert len(list(products(state.program.steps))) == len(state.steps) and not state.program.natives
    for step in reversed(state.steps):
        state = undone(state, step, ACTIONS)
    assert str(state.graph) == str(state.origin)


def test_printed_products_by_type_mean_the_same():
    states = {case: typed(case) for case in ("batched", "summed")}
    programs = {c: (s.graph, dataclasses.replace(s.program, name=c)) for c, s in states.items()}
    library, inputs = built(programs), inputs_of()
    for case in programs:
        wanted = CASES[case](*inputs)
        output = torch.full_like(wanted, float("nan"))
        library.get_function(case)(*inputs, output)
        assert torch.allclose(output, wanted, rtol=1e-4, atol=1e-4), case


def test_rows_of_a_type_are_read_in_vectors_and_tiles_are_the_tuners():
    state = typed("batched")
    text = cpp.source(state.program)
    assert "kw::each(" not in text and "bmm_typed_count" in text
    assert "rows" in {p.name for p in space_of(state.program).parameters}


def test_half_floats_are_multiplied_in_single():
    state, inputs = typed("batched", dtype=torch.bfloat16), inputs_of(dtype=torch.bfloat16)
    wanted = CASES["batched"](*(v.double() if v.is_floating_point() else v for v in inputs))
    (got,) = run_program(state.program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-6)


def sites(function):
    return list(BY_NAME["typed"].sites(start_of(function)))


def test_only_one_row_by_one_matrix_of_its_type_is_sorted():
    assert not sites(lambda x, w, t: x @ w[t[:3]]), "every row by every matrix"
    assert not sites(lambda x, w, t: torch.bmm(x.unsqueeze(1), w.flip(0)[t % 2].abs()).squeeze(1)), (
        "computed between"
    )
    assert not sites(lambda x, w, t: x.unsqueeze(1) @ w[0]), "no types"


def test_the_estimate_sees_what_dense_products_save():
    state = start_of(CASES["batched"], rows=2048, inner=64, columns=64, types=8)
    after = taken(state, BY_NAME["typed"], "bmm")
    assert estimate(after.program).time_us < estimate(state.program).time_us
    assert any("typed(" in leaf.state.text for leaf in beam(state.graph, depth=1)[:3])


def test_work_groups_have_no_sort():
    assert "typed" not in {a.name for a in offered(forms_of("wgsl"))}
    state = typed("batched")
    with pytest.raises(Unprintable):
        opencl.render(state.program, state.graph)
